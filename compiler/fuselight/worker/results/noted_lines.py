"""What a call computes on each line: noted in eager mode, and while captured graphs run operator by operator.

Invariant: what is kept of a value is a few sums, and of a call a bounded number of them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fuselight.adapters.torch_api.backward_runs import around_backward
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Stack

Place = tuple[str, int]
Sums = tuple[float, ...]
_REGION = "invoke_subgraph"
_MAX_OPERATORS = 5000
_MAX_LINES = 50_000


@dataclass(frozen=True)
class NotedOperator:
    """One operator that ran."""

    stack: Stack
    """Outermost frame first, without those of torch."""
    sums: Sums
    """What identifies its value."""
    numbers: tuple[float, ...] = ()
    """The numbers among its arguments."""

    @property
    def place(self) -> Place:
        """Its line."""
        return self.stack[-1].path, self.stack[-1].line


class LineValues:
    """The operators of a call in the order in which they ran; of eager mode also the lines that Python ran."""

    def __init__(self, function: CodeType | None = None) -> None:
        """`function`: what was compiled."""
        self.function = function
        self.clear()

    def clear(self) -> None:
        """Forget all: another call begins."""
        self.operators: list[NotedOperator] = []
        self.executed: dict[Place, int] = {}
        """The lines that Python ran, and when it ran each for the last time."""
        self.assigned: dict[Place, dict[str, float]] = {}
        """Numbers that lines have given to local variables, by the name of the variable."""
        self.last_line = 0
        """Of what was compiled, the line that ran last."""

    def note(self, stack: Stack, value: Any, arguments: Any = ()) -> None:
        """Keep the value of an operator, unless it has no number."""
        shown = tuple(frame for frame in stack if stacks.is_shown(frame.path))
        sums = sums_of(value)
        if shown and sums and len(self.operators) < _MAX_OPERATORS:
            self.operators.append(NotedOperator(shown, sums, tuple(_numbers_in(arguments))))


class EagerLines(TorchFunctionMode):
    """Inside, the values of what eager mode calls are noted by line, and the lines that Python runs."""

    def __init__(self, lines: LineValues) -> None:
        super().__init__()
        self._lines = lines
        self._before: Any = None
        self._locals: dict[int, tuple[Place, dict[str, float]]] = {}
        """Of each frame that runs: its line, and the numbers that its variables hold."""
        self._count = 0
        """Lines so far."""
        self._outside = 0
        """Frames of the user's that run around the call."""

    def __enter__(self) -> Any:
        """Begin."""
        self._outside = len(stacks.calling_frames())
        self._before = sys.gettrace()
        sys.settrace(self._called)
        self._around = around_backward(self._again)
        self._around.__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: object) -> None:
        """End."""
        sys.settrace(self._before)
        self._around.__exit__(None, None, None)
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call a function, and note what it returns."""
        result = func(*args, **(kwargs or {}))
        if not stacks.is_called_by_us():
            frames = stacks.calling_frames()[self._outside :]  # the mode is off in here
            self._lines.note(frames, result, (args, kwargs))
        return result

    @contextlib.contextmanager
    def _again(self) -> Iterator[None]:
        """Inside a run of autograd's engine, what hooks and functions of the user's call is noted, too."""
        super().__enter__()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _called(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event != "call" or not stacks.is_shown(frame.f_code.co_filename):
            return None
        return self._ran

    def _ran(self, frame: FrameType, event: str, _argument: Any) -> Any:
        lines, code = self._lines, frame.f_code
        if len(lines.executed) > _MAX_LINES:
            return None
        self._note_assigned(frame)
        if event != "line":
            self._locals.pop(id(frame), None)
            return self._ran
        place = stacks.absolute(code.co_filename), frame.f_lineno
        self._count += 1
        lines.executed[place] = self._count
        if code is lines.function:
            lines.last_line = frame.f_lineno
        self._locals[id(frame)] = place, _numbers_of(frame)
        return self._ran

    def _note_assigned(self, frame: FrameType) -> None:
        """Note what the line that has just ended gave to variables."""
        known = self._locals.get(id(frame))
        if known is None:
            return
        place, before = known
        changed = {
            name: number
            for name, number in _numbers_of(frame).items()
            if name not in before or before[name] != number
        }
        if changed:
            self._lines.assigned.setdefault(place, {}).update(changed)


class NotedGraph:
    """A captured graph that runs as captured, and operator by operator while lines are noted."""

    def __init__(self, gm: torch.fx.GraphModule, noting: Callable[[], LineValues | None]) -> None:
        self._gm, self._noting = gm, noting

    def __call__(self, *args: Any) -> Any:
        """Run the graph."""
        lines = self._noting()
        if lines is None:
            return self._gm.forward(*args)
        return NotingInterpreter(self._gm, lines).run(*args)


class NotedRunner:
    """A graph of AOTAutograd that runs as it is, and operator by operator while lines are noted."""

    def __init__(
        self, gm: torch.fx.GraphModule, runner: Callable[..., Any], noting: Callable[[], LineValues | None]
    ) -> None:
        self._gm, self._runner, self._noting = gm, runner, noting

    def __call__(self, args: list[Any]) -> Any:
        """Run the graph, and empty the list."""
        lines = self._noting()
        if lines is None:
            return self._runner(args)
        given = list(args)
        args.clear()
        return NotingInterpreter(self._gm, lines).run(*given)


class NotingInterpreter(torch.fx.Interpreter):
    """Runs a graph operator by operator, and notes the value of each by its line."""

    def __init__(self, gm: torch.fx.GraphModule, lines: LineValues) -> None:
        super().__init__(gm)
        self._lines = lines

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run an operator; those of a nested region (`nested_compile_region`) one by one, too."""
        if n.op.startswith("call_") and getattr(n.target, "__name__", "") == _REGION:
            (graph, _, *given), _ = self.fetch_args_kwargs_from_env(n)
            return NotingInterpreter(graph, self._lines).run(*given)
        result = super().run_node(n)
        if n.op.startswith("call_"):
            self._lines.note(stacks.of_node(n), result, self.fetch_args_kwargs_from_env(n))
        return result


def sums_of(value: Any) -> Sums:
    """Of each tensor its sizes, and the sums of its values, of their absolute values, and of values by their place.

    A number is itself.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (float(value),)
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


def _numbers_of(frame: FrameType) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in frame.f_locals.items()
        if type(value) in (int, float) and abs(value) < 1e300  # noqa: PLR2004 - which a float holds
    }


def _numbers_in(value: Any) -> list[float]:
    """The numbers of nested arguments, in their order."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:  # noqa: PLR2004
        return [float(value)]
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers_in(item)]
    if isinstance(value, (tuple, list)):
        return [number for item in value for number in _numbers_in(item)]
    return []
