"""NaN and infinities among the results of a call: how many each mode has, and where the first of eager mode appears.

Invariant: an infinity that the program writes itself, as a mask with -inf, has no origin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.adapters.torch_api import operator_watch
from fuselight.adapters.torch_api.backward_runs import forward_traceback
from fuselight.adapters.torch_api.operator_watch import OperatorWatch, WatchedOperator
from fuselight.adapters.torch_api.storages import storage_address
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy.results import CallResults, Value, held_tensors
from fuselight.shared.report import NonFinite, NonFiniteKind, NonFiniteOrigin, Stack

_IS_KIND: dict[NonFiniteKind, Callable[[torch.Tensor], torch.Tensor]] = {
    NonFiniteKind.NAN: torch.isnan,
    NonFiniteKind.INFINITY: torch.isinf,
}
_MAX_OPERANDS = 3
_MAX_NAMES = 4


def kind_in(value: Any) -> NonFiniteKind | None:
    """What the tensors of a value have: NaN, else infinity; None if all their elements are finite."""
    tensors = tensors_in(value)
    return next((kind for kind in NonFiniteKind if any(_has(tensor, kind) for tensor in tensors)), None)


def inputs_with(prepared: Prepared, kind: NonFiniteKind) -> tuple[str, ...]:
    """The arguments, parameters and buffers of a call that have elements of a kind, up to a few."""
    names = (name for name, tensor in held_tensors(prepared) if _has(tensor, kind))
    return tuple(itertools.islice(names, _MAX_NAMES))


def _has(tensor: torch.Tensor, kind: NonFiniteKind) -> bool:
    """Whether a tensor with plain floating-point elements has one of a kind."""
    with torch.no_grad():
        return _is_number(tensor) and bool(_IS_KIND[kind](tensor.detach()).any())


def non_finite_counts(
    eager: CallResults, compiled: CallResults, float64: CallResults | None
) -> Iterator[NonFinite]:
    """Of each kind, the first value that has some in eager mode or compiled."""
    ours, exact = (
        {value.name: value for value in results.values} for results in (compiled, float64 or CallResults())
    )
    for kind in NonFiniteKind:
        for value in eager.values:
            counts = _count(value, kind), _count(ours.get(value.name), kind)
            if any(counts):
                of_float64 = _count(exact[value.name], kind) if value.name in exact else None
                yield NonFinite(kind, value.name, counts[0] or 0, counts[1] or 0, of_float64)
                break


def _count(value: Value | None, kind: NonFiniteKind) -> int | None:
    if value is None or not (value.tensor.is_floating_point() or value.tensor.is_complex()):
        return None
    return int(_IS_KIND[kind](value.tensor).sum())


@dataclass(frozen=True)
class _Memory:
    """What is known of the memory of a tensor."""

    names: tuple[str, ...]
    """The inputs of the call that it was computed from."""
    place: Stack
    """Where it was computed; empty for an input."""
    origin: NonFiniteOrigin | None
    """Where the first element of the kind appeared that it has."""


class NonFiniteWatch:
    """Watches operators for the first elements of a kind."""

    def __init__(self, kind: NonFiniteKind, held: Sequence[tuple[str, torch.Tensor]]) -> None:
        """`held`: the inputs, parameters and buffers of the call by name."""
        self.mode = OperatorWatch(self._note)
        """What has to be in force while the call runs."""
        self._kind = kind
        self._memory: dict[int, _Memory] = {}
        self.first: NonFiniteOrigin | None = None
        for name, tensor in held:
            if address := storage_address(tensor):
                origin = NonFiniteOrigin((), "", "", (name,)) if self._has(tensor) else None
                self._memory[address] = _Memory((name,), (), origin)

    def origin_of(self, tensors: Sequence[torch.Tensor]) -> NonFiniteOrigin | None:
        """Where the elements of the first of these tensors appeared that has some; else the first that were seen."""
        for tensor in tensors:
            known = self._memory.get(storage_address(tensor))
            if known is not None and known.origin is not None:
                return known.origin
        return self.first

    def _note(self, operator: WatchedOperator) -> None:
        before = [
            self._memory.get(storage_address(leaf)) for leaf in operator.arguments if storage_address(leaf)
        ]
        place = _place()
        if place is None:
            return
        for tensor in operator.results:
            if address := storage_address(tensor):
                self._memory[address] = self._after(operator, tensor, before, place)

    def _after(
        self,
        operator: WatchedOperator,
        tensor: torch.Tensor,
        before: Sequence[_Memory | None],
        place: Stack,
    ) -> _Memory:
        known = [memory for memory in before if memory is not None]
        names = tuple(dict.fromkeys(name for memory in known for name in memory.names))[:_MAX_NAMES]
        if not self._has(tensor):
            return _Memory(names, place, None)
        origin = next((memory.origin for memory in known if memory.origin is not None), None)
        if origin is None and not self._is_written(operator.operands):
            sources = [
                memory.place[-1] for memory in known if memory.place and memory.place[-1:] != place[-1:]
            ]
            origin = NonFiniteOrigin(
                place,
                operator.name,
                self._operands(tensor, operator.operands),
                names,
                sources[-1] if sources else None,
            )
            self.first = self.first or origin
        return _Memory(names, place, origin)

    def _operands(self, tensor: torch.Tensor, given: Sequence[Any]) -> str:
        """The arguments of the first element of the kind."""
        index = tuple(_IS_KIND[self._kind](tensor.detach()).nonzero()[0].tolist())
        operands = [text for leaf in given if (text := _operand(leaf, tensor, index))]
        return ", ".join(operands[:_MAX_OPERANDS])

    def _has(self, tensor: torch.Tensor) -> bool:
        return _has(tensor, self._kind)

    def _is_written(self, given: Sequence[Any]) -> bool:
        """Whether an argument is such a number, which the program wrote, or a tensor that has one."""
        return any(
            self._has(leaf)
            if isinstance(leaf, torch.Tensor)
            else isinstance(leaf, float) and not math.isfinite(leaf)
            for leaf in given
        )


def _is_number(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.is_meta:
        return False
    return (leaf.is_floating_point() or leaf.is_complex()) and leaf.element_size() > 1


def _operand(leaf: Any, tensor: torch.Tensor, index: tuple[int, ...]) -> str:
    """The element of an argument from which the element of the result was computed; empty if it is not one."""
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        return f"{leaf:g}"
    if not _is_number(leaf):
        return ""
    try:
        return f"{leaf.detach().expand(tensor.shape)[index].item():.4g}"
    except (RuntimeError, TypeError, ValueError):  # of another shape, complex
        return ""


def _place() -> Stack | None:
    """The user's lines that run an operator, in a backward those of the forward; None if a comparison runs it."""
    traceback = forward_traceback()
    if traceback is not None:
        return tuple(place for place in stacks.from_text(traceback) if stacks.is_shown(place.path))
    return None if stacks.is_called_by_us(operator_watch.__file__) else stacks.calling_frames()
