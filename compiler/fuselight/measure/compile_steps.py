"""The phases of a cold compile as steps of a flame chart.

The chart is of the thread that makes the first call: where it is in a phase that torch tells of, that phase; where it
is in none for long, what samples saw. What other threads do at the time stands below that. Invariant: a step lies
within the step above it (the nearest one before it with a smaller depth), and steps of one depth do not overlap.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fuselight.measure.call_samples import Sample, sampling_calls
from fuselight.report import Compile, CompileStep, Frame, Location
from fuselight.torch_api.compile_events import CompileEvents, Phase, hear_compile_events

DARK = 0.05
"""Part of the first call: a stretch in no phase that is longer is filled from samples."""
_MOST = 400
"""Steps that are kept as they are; the rest is summed."""


@dataclass
class Watched:
    """A first call as it was watched; complete when the block has ended."""

    events: CompileEvents
    samples: list[Sample]


@contextlib.contextmanager
def watching_compiles(roots: Sequence[str] = ()) -> Iterator[Watched]:
    """Hear of the phases of each compile until the block ends, and look now and then what this thread is in.

    For one call and its wait: steps count their time from the block's begin. `roots`: folders of the user's code.
    """
    with sampling_calls(roots) as samples, hear_compile_events() as events:
        yield Watched(events, samples)


def steps(
    watched: Watched, compiles: Sequence[Compile] = (), frames: Sequence[Frame] = ()
) -> tuple[CompileStep, ...]:
    """The steps in the order of their start, an outer one before what is in it; a bounded number of them.

    `compiles` and `frames` are what Dynamo's recorder learnt: the lines of the frames. Without them a step is at the
    line that torch's own events name, if they do.
    """
    events = watched.events
    places = {**events.places, **{one.id: _place(frames[one.frame]) for one in compiles}}
    roots = _tree(phase for phase in events.phases if phase.thread == events.thread)
    others = [phase for phase in events.phases if phase.thread != events.thread]
    whole = _Node("", events.start_ns, events.end_ns, inner=roots)
    _fit_others(whole, others)
    _light(whole, watched.samples)
    _fold(whole, _MOST)
    within = _Within(events.start_ns, places)
    return tuple(step for node in whole.inner for step in _listed(node, within))


def _place(frame: Frame) -> Location:
    """Where a frame begins: its `def`, or the line where it goes on behind a graph break."""
    if frame.resumes_at is None:
        return frame.location
    return Location(frame.location.path, frame.resumes_at, function=frame.location.function)


def lacks(watched: Watched) -> tuple[str, ...]:
    """What the steps do not have, in words."""
    events = watched.events
    short = (
        f"{events.given_up} short phases of the compile are not among its steps" if events.given_up else ""
    )
    return tuple(filter(None, (events.problem, short)))


@dataclass(frozen=True)
class _Within:
    begin: int
    places: Mapping[str, Location]


@dataclass
class _Node:
    name: str
    start: int
    end: int
    compile_id: str | None = None
    location: Location | None = None
    sampled: bool = False
    us: float | None = None
    """Where it is not what lies between `start` and `end`: a sum."""
    inner: list[_Node] = field(default_factory=list)


def _tree(phases: Iterable[Phase]) -> list[_Node]:
    """The phases of one thread: they nest."""
    found: list[_Node] = []
    stack: list[_Node] = []
    for phase in sorted(phases, key=lambda one: (one.start_ns, -one.end_ns)):
        while stack and stack[-1].end <= phase.start_ns:
            stack.pop()
        end = min(phase.end_ns, stack[-1].end) if stack else phase.end_ns
        node = _Node(phase.name, phase.start_ns, end, phase.compile_id)
        (stack[-1].inner if stack else found).append(node)
        stack.append(node)
    return found


def _fit_others(whole: _Node, phases: Sequence[Phase]) -> None:
    """Put what other threads did below what the call's own thread was in: as much of it as lies there."""
    if not phases:
        return
    stretches = sorted(_alone(whole), key=lambda one: one[0])
    starts = [start for start, _, _ in stretches]
    there: dict[int, list[Phase]] = {}
    for phase in phases:
        first = max(bisect.bisect_right(starts, phase.start_ns) - 1, 0)
        for index in range(first, bisect.bisect_left(starts, phase.end_ns)):
            start, end, _ = stretches[index]
            cut = (max(start, phase.start_ns), min(end, phase.end_ns))
            if cut[0] < cut[1]:
                there.setdefault(index, []).append(Phase(phase.name, *cut, phase.thread, phase.compile_id))
    for index, cuts in there.items():
        node = stretches[index][2]
        node.inner.extend(_beside(cuts))
        node.inner.sort(key=lambda one: one.start)


def _alone(node: _Node) -> Iterator[tuple[int, int, _Node]]:
    """The stretches of `node`, and of all in it, in which nothing further in goes on: (start, end, whose)."""
    at = node.start
    for inner in node.inner:
        if inner.start > at:
            yield at, inner.start, node
        yield from _alone(inner)
        at = max(at, inner.end)
    if node.end > at:
        yield at, node.end, node


@dataclass
class _Beside(_Node):
    """What one or several other threads do, as far as it lies in one stretch."""

    threads: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def _beside(phases: Iterable[Phase]) -> list[_Node]:
    """Phases of other threads, nested where one holds another; those that cross become one, of several threads."""
    found: list[_Beside] = []
    stack: list[_Beside] = []
    for phase in sorted(phases, key=lambda one: (one.start_ns, -one.end_ns)):
        while stack and stack[-1].end <= phase.start_ns:
            stack.pop()
        crossed = next((index for index, one in enumerate(stack) if one.end < phase.end_ns), None)
        if crossed is None and stack and _is_alike(stack[-1], phase):
            crossed = len(stack) - 1
        if crossed is not None:
            whole = stack[crossed]
            if whole.end < phase.end_ns:
                whole.end, whole.inner = phase.end_ns, []
            whole.threads.add(phase.thread)
            whole.names.add(phase.name)
            del stack[crossed + 1 :]
            continue
        node = _Beside(
            phase.name, phase.start_ns, phase.end_ns, phase.compile_id,
            threads={phase.thread}, names={phase.name},
        )  # fmt: skip
        (stack[-1].inner if stack else found).append(node)
        stack.append(node)
    _name_threads(found, set())
    return list(found)


def _is_alike(node: _Beside, phase: Phase) -> bool:
    """Whether `phase`, which lies in `node`, is the same work on one more thread rather than a part of it."""
    if phase.thread in node.threads:
        return False
    return node.name == phase.name or (node.start, node.end) == (phase.start_ns, phase.end_ns)


def _name_threads(nodes: Iterable[_Node], above: set[int]) -> None:
    for node in nodes:
        if isinstance(node, _Beside):
            if node.threads != above:
                many = len(node.threads)
                where = f"{many} threads" if many > 1 else "another thread"
                node.name = f"{', '.join(sorted(node.names))} ({where})"
            _name_threads(node.inner, node.threads)


def _light(whole: _Node, samples: Sequence[Sample]) -> None:
    """Fill long stretches in which no phase goes on, from the samples that were taken there."""
    length = whole.end - whole.start
    lit: list[_Node] = []
    at = whole.start
    for start, end in (*((one.start, one.end) for one in whole.inner), (whole.end, whole.end)):
        if start - at > DARK * length:
            lit.extend(_seen(at, start, samples))
        at = max(at, end)
    whole.inner.extend(lit)
    whole.inner.sort(key=lambda one: one.start)


def _seen(start: int, end: int, samples: Sequence[Sample]) -> list[_Node]:
    """What samples saw between two times: what one saw holds until the next."""
    first = bisect.bisect_left(samples, start, key=lambda one: one.ns)
    last = bisect.bisect_left(samples, end, key=lambda one: one.ns)
    found: list[_Node] = []
    for index in range(first, last):
        sample = samples[index]
        until = samples[index + 1].ns if index + 1 < last else end
        if found and found[-1].name == sample.name:
            found[-1].end = until
        else:
            found.append(_Node(sample.name, sample.ns, until, location=sample.location, sampled=True))
    return found


def _fold(whole: _Node, most: int) -> None:
    """Keep the longest steps, and sum each row of neighbours that are not kept into one."""
    nodes = list(_below(whole))
    if len(nodes) <= most:
        return
    # An outer step is at least as long, and stands first among equals: what is kept is kept with all above it.
    longest = sorted(nodes, key=lambda one: one.start - one.end)[:most]
    kept = {id(node) for node in longest}
    for node in (whole, *longest):
        node.inner = _summed(node.inner, kept)


def _below(node: _Node) -> Iterator[_Node]:
    for inner in node.inner:
        yield inner
        yield from _below(inner)


def _summed(nodes: Sequence[_Node], kept: set[int]) -> list[_Node]:
    found: list[_Node] = []
    row: list[_Node] = []
    for node in (*nodes, None):
        if node is not None and id(node) not in kept:
            row.append(node)
            continue
        if len(row) == 1:
            found.append(row[0])
            row[0].inner = []
        elif row:
            total = sum(one.end - one.start for one in row) / 1000
            sampled = all(one.sampled for one in row)
            found.append(_Node(f"{len(row)} more", row[0].start, row[-1].end, us=total, sampled=sampled))
        row = []
        if node is not None:
            found.append(node)
    return found


def _listed(node: _Node, within: _Within, depth: int = 0, above: str | None = None) -> Iterator[CompileStep]:
    compile_id = node.compile_id or above  # threads that compile C++ know of no compile
    location = node.location
    if location is None and compile_id is not None:
        location = within.places.get(compile_id)
    us = (node.end - node.start) / 1000 if node.us is None else node.us
    start = (node.start - within.begin) / 1000
    yield CompileStep(node.name, start, us, depth, compile_id, location, node.sampled)
    for inner in node.inner:
        yield from _listed(inner, within, depth + 1, compile_id)
