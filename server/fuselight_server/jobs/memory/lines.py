"""The line of the job's own code that made a tensor, from the stack of its allocation.

Invariant: a module that Inductor generated is no line: torch has the user's frames after it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from fuselight.shared.report import Location
from fuselight_server.jobs.memory.model import HeldTensors, TensorOrigin
from fuselight_server.jobs.memory.snapshot import CallStack, SnapshotFrame
from fuselight_server.jobs.reports.mapping import is_of_job, is_torch_file
from fuselight_server.jobs.trace_log.libraries import is_generated, is_library

_MAX_CALLERS = 8
_MARKS = (
    ("torch/optim/optimizer.py", "", "optimizer"),
    ("torch/autograd/__init__.py", "_make_grads", "backward"),
)


class StackLine(NamedTuple):
    """What a stack says of its allocation."""

    origin: TensorOrigin
    location: Location | None
    is_compiled: bool
    inside: Location | None
    mark: str
    """`optimizer` in a step of an optimizer, `backward` where a backward begins."""


class StackLines:
    """The lines of stacks; each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[CallStack, StackLine] = {}

    def line(self, stack: CallStack) -> StackLine:
        """The line of a stack."""
        known = self._known.get(stack)
        if known is None:
            known = self._known[stack] = _line_of(stack.frames)
        return known


def callers(stack: CallStack) -> tuple[Location, ...]:
    """The lines of the job's own code in a stack, outermost first; of a deep one the innermost."""
    own = [_location(frame) for frame in stack.frames if _is_own(frame.path)]
    return tuple(reversed(own[:_MAX_CALLERS]))


def rows(items: Iterable[tuple[StackLine, int]]) -> tuple[HeldTensors, ...]:
    """Tensors with their bytes, by line, most bytes first."""
    sizes: dict[tuple[TensorOrigin, Location | None, bool], list[int]] = {}
    inside: dict[tuple[TensorOrigin, Location | None, bool], dict[Location, int]] = {}
    for line, size in items:
        key = line.origin, line.location, line.is_compiled
        total = sizes.setdefault(key, [0, 0])
        total[0] += size
        total[1] += 1
        if line.inside is not None:
            of_line = inside.setdefault(key, {})
            of_line[line.inside] = of_line.get(line.inside, 0) + size
    out = [
        HeldTensors(
            key[0],
            total,
            count,
            key[1],
            is_compiled=key[2],
            inside=max(inside[key], key=inside[key].__getitem__) if key in inside else None,
        )
        for key, (total, count) in sizes.items()
    ]
    return tuple(sorted(out, key=lambda row: -row.bytes))


def _line_of(frames: tuple[SnapshotFrame, ...]) -> StackLine:
    mark = ""
    is_compiled = False
    package: SnapshotFrame | None = None
    for frame in frames:
        path = frame.path.replace("\\", "/")
        is_compiled |= is_generated(path)
        mark = mark or next(
            (
                name
                for end, function, name in _MARKS
                if path.endswith(end) and function in {"", frame.function}
            ),
            "",
        )
    for frame in frames:
        if _is_own(frame.path):
            inside = _location(package) if package is not None else None
            return StackLine(TensorOrigin.LINE, _location(frame), is_compiled, inside, mark)
        if package is None and _is_package(frame.path):
            package = frame
    if package is not None:
        return StackLine(TensorOrigin.LIBRARY, _location(package), is_compiled, None, mark)
    return StackLine(TensorOrigin.NO_STACK, None, is_compiled, None, mark)


def _location(frame: SnapshotFrame) -> Location:
    return Location(frame.path, frame.line, function=frame.function)


@functools.lru_cache(maxsize=16384)
def _is_own(path: str) -> bool:
    return is_of_job(path) and not is_generated(path) and not is_library(path)


@functools.lru_cache(maxsize=16384)
def _is_package(path: str) -> bool:
    """Whether a file is of an installed package other than torch."""
    return path.endswith(".py") and is_library(path) and not is_torch_file(path) and "-packages/" in path
