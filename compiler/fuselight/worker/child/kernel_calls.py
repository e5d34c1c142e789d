"""Calls of a target in eager mode, where each launch of a Triton kernel is seen with its arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fuselight.adapters.torch_api.cuda_operators import UncheckedOperator, implementations_on_fake_tensors
from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
from fuselight.capture.calls.calls import PlannedCall, Prepared, call_mode, call_outputs
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.tensors import set_seeds, tensors_in
from fuselight.shared.report import KernelMismatch, Location
from fuselight.worker.child.reference_comparison import compare_with_reference


def _ignored(_operator: str, _implementation: Any, _error: Exception) -> None:
    """Of a call with other sizes, nothing is said."""


def eager_call(
    planned: PlannedCall, memory: UninitializedMemory | None, on_unchecked: UncheckedOperator = _ignored
) -> tuple[Prepared, Any]:
    """Make a call in eager mode; return it and its results. Raises what the call raises.

    `memory` follows what is allocated without values. On fake tensors, operators of the program do what they do on
    others, for their launches; `on_unchecked` gets one that cannot.
    """
    prepared = _prepared(planned)
    with (
        call_mode(prepared),
        torch.compiler.set_stance("force_eager"),
        implementations_on_fake_tensors(on_unchecked),
        memory or contextlib.nullcontext(),
    ):
        outputs, _ = call_outputs(prepared, prepared.function)
    if memory is not None:
        for tensor in tensors_in(outputs):
            memory.note_use(tensor)
    return prepared, outputs


def _prepared(planned: PlannedCall) -> Prepared:
    set_seeds()
    with quick_random():
        return planned.build()


def mismatches_of(
    planned: PlannedCall, names: Mapping[str, Any], outputs: Any, last_launch: Any
) -> Iterator[KernelMismatch]:
    """Compare the results of a call with those of its reference. Raises NoReferenceError."""
    prepared = _prepared(planned)  # a kernel may have changed the inputs of the other one
    name = str(prepared.options.reference)
    difference = compare_with_reference(prepared, outputs, name, names)
    if difference is not None:
        outcome, stack = last_launch if last_launch is not None else (None, ())
        yield KernelMismatch(
            outcome.kernel if outcome is not None else "",
            Location(outcome.path, outcome.line) if outcome is not None else planned.location,
            stack,
            name,
            **vars(difference),
            inputs=planned.text,
        )
