"""Checks the user's Triton kernels beyond what a capture computes, on a machine without a GPU.

A captured graph that launches a kernel runs no launch on fake tensors. The call is therefore made once more in eager
mode, where each launch is seen with its arguments. Invariant: only calls that can be made again are, and whatever the
further call raises changes nothing: the capture has reported what is wrong with the call itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
from fuselight.adapters.triton_api.launches.stand_in import has_kernels
from fuselight.capture.calls.calls import PlannedCall, Prepared, call_mode, call_outputs
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.rungs import DirectiveFault
from fuselight.capture.calls.tensors import set_seeds, tensors_in
from fuselight.shared.report import KernelMismatch, Location, Note, Rung
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.reference_comparison import NoReferenceError, compare_with_reference

if TYPE_CHECKING:
    from fuselight.worker.child.state import RunState

MAX_REAL_BYTES = 1 << 30
"""Tensors of a directive that take more get no memory where the program has Triton kernels: they are fake."""
MAX_SECONDS = 5.0
"""Of the launches of a run: after more, none is made once more."""
_perf_counter = time.perf_counter  # bound before any user code runs


def reason_for_fake(planned: PlannedCall) -> str | None:
    """Why a call is made on fake tensors though its directive does not ask for it; None for real ones."""
    if planned.tensor_bytes <= MAX_REAL_BYTES or torch.cuda.is_available() or not has_kernels():
        return None
    size = planned.tensor_bytes / 1e9
    return f"the tensors of the directive take {size:.1f} GB, and launches of Triton kernels are checked by address"


def check_launches(state: RunState, planned: PlannedCall, names: Mapping[str, Any], *, is_fake: bool) -> None:
    """Make a call that has launched kernels once more in eager mode: there each launch is seen with its arguments.

    On fake tensors its addresses are checked; on real ones what it leaves unwritten, and its results where the
    directive names a reference. `names` are those of the user's file.
    """
    launches = state.kernel_launches
    if state.rung is not Rung.DIRECTIVE or torch.cuda.is_available() or not has_kernels():
        return
    if not is_fake and not 0 < launches.log.seconds < MAX_SECONDS:
        return
    start = _perf_counter()
    memory = None if is_fake else UninitializedMemory(launches.note_unwritten)
    launches.log.uninitialized = memory
    record = launches.log.record
    if not is_fake:
        launches.log.record = None  # it has these launches already
    try:
        prepared, outputs = eager_call(planned, memory)
        if memory is not None and prepared.options.reference is not None:
            _compare(state, planned, names, outputs, memory.last_launch)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        text = f"the launches of Triton kernels were checked up to an exception in eager mode: {error}"
        state.notes.append(Note("kernel_check_ended", text[:500], planned.location))
    finally:
        launches.log.uninitialized, launches.log.record = None, record
        state.phases["kernel check"] = state.phases.get("kernel check", 0.0) + _perf_counter() - start


def eager_call(planned: PlannedCall, memory: UninitializedMemory | None) -> tuple[Prepared, Any]:
    """Make a call in eager mode; return it and its results. Raises what the call raises.

    `memory` follows what is allocated without values.
    """
    prepared = _prepared(planned)
    with call_mode(prepared), torch.compiler.set_stance("force_eager"), memory or contextlib.nullcontext():
        outputs, _ = call_outputs(prepared, prepared.function)
    if memory is not None:
        for tensor in tensors_in(outputs):
            memory.note_use(tensor)
    return prepared, outputs


def _prepared(planned: PlannedCall) -> Prepared:
    set_seeds()
    with quick_random():
        return planned.build()


def _compare(
    state: RunState, planned: PlannedCall, names: Mapping[str, Any], outputs: Any, last_launch: Any
) -> None:
    """Compare the results of a call with the reference that its directive names."""
    prepared = _prepared(planned)  # a kernel may have changed the inputs of the other one
    name = str(prepared.options.reference)
    unknown = state.kernel_launches.unknown
    if unknown:
        text = f"results are not compared with the reference `{name}`: {unknown}"
        state.notes.append(Note("reference_not_compared", text, planned.location))
        return
    try:
        difference = compare_with_reference(prepared, outputs, name, names)
    except NoReferenceError as why:
        target = state.job.request.target
        fault = DirectiveFault(str(why), planned.location or Location(target.path, target.line))
        state.failures.append(run_failures.directive_failure(fault, call=child.call_index(state)))
        return
    if difference is not None:
        outcome, stack = last_launch if last_launch is not None else (None, ())
        state.kernel_launches.mismatches.append(
            KernelMismatch(
                outcome.kernel if outcome is not None else "",
                Location(outcome.path, outcome.line) if outcome is not None else planned.location,
                stack,
                name,
                **vars(difference),
                inputs=planned.text,
            )
        )
