"""The first line of a call of which captured graphs, run operator by operator, give another value than eager mode.

For what was traced wrong, or is used although a guard is missing: no part of a graph is compiled wrong then. Invariant:
a line is named only if both ran it, and its last value differs by more than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Stack

Place = tuple[str, int]
_NEAR = 1e-3
_SUMS = tuple[float, ...]
_MAX_LINES = 5000


class LineValues:
    """What identifies the last value of each line, in the order in which the lines had them."""

    def __init__(self) -> None:
        self.values: dict[Place, _SUMS] = {}
        self.stacks: dict[Place, Stack] = {}

    def note(self, stack: Stack, value: Any) -> None:
        """Keep the value of an operator on the innermost line of the user's."""
        sums = _sums(value)
        if not stack or not sums or len(self.values) > _MAX_LINES:
            return
        place = stack[-1].path, stack[-1].line
        self.values.pop(place, None)  # the line now comes after those that it called
        self.values[place] = sums
        self.stacks.setdefault(place, stack)


class EagerLines(TorchFunctionMode):
    """Inside, the values of what eager mode calls are noted by line."""

    def __init__(self, lines: LineValues) -> None:
        super().__init__()
        self._lines = lines

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call a function, and note what it returns."""
        result = func(*args, **(kwargs or {}))
        self._lines.note(stacks.calling_frames(), result)  # the mode is off in here
        return result


class NotedGraph:
    """A captured graph that runs as captured, and operator by operator while lines are noted."""

    def __init__(self, gm: torch.fx.GraphModule, noting: Callable[[], LineValues | None]) -> None:
        self._gm, self._noting = gm, noting

    def __call__(self, *args: Any) -> Any:
        """Run the graph."""
        lines = self._noting()
        if lines is None:
            return self._gm.forward(*args)
        return _NotingInterpreter(self._gm, lines).run(*args)


class _NotingInterpreter(torch.fx.Interpreter):
    def __init__(self, gm: torch.fx.GraphModule, lines: LineValues) -> None:
        super().__init__(gm)
        self._lines = lines

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op.startswith("call_"):
            self._lines.note(stacks.of_node(n), result)
        return result


def first_difference(compiled: LineValues, eager: LineValues) -> Stack:
    """Where the first line stands whose last value differs, in the order of eager mode; empty if none does."""
    for place, value in eager.values.items():
        other = compiled.values.get(place)
        if other is not None and not _is_near(other, value):
            return compiled.stacks[place]
    return ()


def _is_near(sums: _SUMS, others: _SUMS) -> bool:
    return len(sums) == len(others) and all(map(_is_equal, sums, others))


def _is_equal(number: float, other: float) -> bool:
    if math.isnan(number) or math.isnan(other):
        return math.isnan(number) and math.isnan(other)
    return number == other or abs(number - other) <= _NEAR * max(abs(number), abs(other))


def _sums(value: Any) -> _SUMS:
    """Of each tensor its sizes, and the sums of its values, of their absolute values, and of values by their place."""
    sums: list[float] = []
    try:
        with torch.no_grad():
            for tensor in tensors_in(value):
                if tensor.is_complex() or tensor.is_meta:
                    continue
                values = tensor.detach().double().reshape(-1)
                places = torch.linspace(1, 2, values.numel(), dtype=values.dtype, device=values.device)
                sums += [*map(float, tensor.shape), float(values.abs().sum()), float((values * places).sum())]
    except Exception:  # noqa: BLE001 - a subclass of the user's may refuse any operator
        return ()
    return tuple(sums)
