"""Lines whose tensors are made in step after step and never freed.

Invariant: a line counts only if tensors of several steps are alive at the end. What a warm-up makes once, as the state
of an optimizer, is of the first step, which is left out; what the last step holds is no growth.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence

from fuselight.shared.report import Location
from fuselight_server.jobs.memory.lines import StackLine, callers, rows
from fuselight_server.jobs.memory.model import GrowingLine, MemoryGrowth, StepMark, TensorOrigin
from fuselight_server.jobs.memory.replay import Replay
from fuselight_server.jobs.memory.snapshot import CallStack

_LEAST_STEPS = 3
_PARTS = 10
_LEAST_ALLOCATIONS = 100
"""For parts of a recording without steps."""
_RECENT = 2
"""Steps before the end in which a line must still grow."""
_MAX_SHOWN = 200
"""Steps whose bytes are kept."""


def growth_of(replay: Replay) -> MemoryGrowth | None:
    """What is left of each step; None if the recording is too short."""
    mark, ends = _steps(replay)
    if len(ends) <= _LEAST_STEPS:
        return None
    steps = len(ends) - 1
    by_line: dict[StackLine, dict[int, list[int]]] = {}
    for number in replay.unfreed():
        step = bisect.bisect_left(ends, number) - 1
        if 0 <= step < steps:
            line = replay.lines.line(replay.events[number].stack)
            by_line.setdefault(line, {}).setdefault(step, []).append(number)
    lines = [
        _growing(replay, line, by_step)
        for line, by_step in by_line.items()
        if line.origin is not TensorOrigin.BEFORE and _grows(by_step, steps)
    ]
    lines += _replaced(replay, ends, [line.held.location for line in lines])
    allocated = [replay.start_allocated + replay.allocated[end] for end in ends]
    return MemoryGrowth(
        mark,
        steps,
        tuple(allocated[-_MAX_SHOWN:]),
        tuple(sorted(lines, key=lambda line: -line.held.bytes)),
    )


def _grows(by_step: dict[int, list[int]], steps: int) -> bool:
    """Whether a line leaves tensors in most steps, or in every n-th one from the begin to the end."""
    kept = sorted(by_step)
    gaps = {later - earlier for earlier, later in itertools.pairwise(kept)}
    if len(kept) > _LEAST_STEPS and len(gaps) == 1 and kept[0] < min(gaps):
        return kept[-1] >= steps - _RECENT - min(gaps) + 1
    return len(kept) >= max(_LEAST_STEPS, (steps - 1) // 2) and kept[-1] >= steps - _RECENT


def _growing(replay: Replay, line: StackLine, by_step: dict[int, list[int]]) -> GrowingLine:
    numbers = [number for step in by_step.values() for number in step]
    (held,) = rows((line, replay.size(number)) for number in numbers)
    return GrowingLine(held, len(by_step), callers(replay.events[max(numbers)].stack))


def _replaced(replay: Replay, ends: Sequence[int], known: Sequence[Location | None]) -> Iterator[GrowingLine]:
    """Lines that hold more at the end of each step, in tensors of which each takes the place of a smaller one."""
    changes: dict[StackLine, list[int]] = {}
    last: dict[StackLine, CallStack] = {}
    for number, event in enumerate(replay.events):
        first, freed = bisect.bisect_left(ends, number), replay.ends[number]
        until = bisect.bisect_left(ends, freed) if freed >= 0 else len(ends)
        if event.action == "alloc" and first < until:
            line = replay.lines.line(event.stack)
            held = changes.setdefault(line, [0] * (len(ends) + 1))
            held[first] += replay.size(number)
            held[until] -= replay.size(number)
            last[line] = event.stack
    for line, change in changes.items():
        sizes = list(itertools.accumulate(change[:-1]))
        if all(size < larger for size, larger in itertools.pairwise(sizes)):
            (held_more,) = rows([(line, sizes[-1] - sizes[0])])
            if held_more.location not in known:
                yield GrowingLine(held_more, len(ends) - 1, callers(last[line]), is_replaced=True)


def _steps(replay: Replay) -> tuple[StepMark, Sequence[int]]:
    """The events at which steps end: those of an optimizer, else backwards, else equal parts."""
    optimizer: list[int] = []
    backward: list[int] = []
    allocations: list[int] = []
    is_inside = False
    for number, event in enumerate(replay.events):
        if event.action != "alloc":
            continue
        allocations.append(number)
        mark = replay.lines.line(event.stack).mark
        if mark == "optimizer":
            optimizer[len(optimizer) - is_inside :] = [number]  # the last event of a run of them
        elif mark == "backward":
            backward.append(number)
        is_inside = mark == "optimizer"
    if len(optimizer) > _LEAST_STEPS and len(optimizer) * 2 > len(backward):
        return StepMark.OPTIMIZER, optimizer
    if len(backward) > _LEAST_STEPS:
        return StepMark.BACKWARD, backward
    if len(allocations) < _LEAST_ALLOCATIONS:
        return StepMark.PART, ()
    return StepMark.PART, [
        allocations[part * (len(allocations) - 1) // _PARTS] for part in range(1, _PARTS + 1)
    ]
