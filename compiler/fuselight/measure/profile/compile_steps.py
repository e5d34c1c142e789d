"""The phases of a cold compile as steps of a flame chart.

The chart shows the thread that makes the first call: its torch phases, and samples for long stretches outside of any
phase. Work of other threads appears below, at the same time. Invariant: a step lies within the step above it (the
nearest earlier step with a smaller depth), and steps of one depth do not overlap.

Another thread takes the samples, of the first call only: one holds the interpreter lock for 0.1 ms or less, 0.5% of a
compile, while a steady call may be shorter than one sample. Invariant: no thread is left when the block has ended, and
no frame is held between samples, because it would keep the call's tensors alive, which CUDA graphs refuse. Stored data
grows with the logarithm of the duration.
"""

from __future__ import annotations

import bisect
import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType

from fuselight.adapters.torch_api.dynamo.compile_events import (
    CompileEvents,
    CompilePhase,
    hear_compile_events,
)
from fuselight.shared.report import Compile, CompileStep, Frame, Location, is_user_file

EVERY = 0.02
"""Seconds between two samples, at first."""
_MANY = 4096
"""Number of samples after which the interval doubles."""
_DEEP = 400
"""Maximum frames of a stack that are read, innermost first."""
_LIBRARIES = frozenset({"torch", "triton"})
_BETWEEN = frozenset({"contextlib", __name__, "fuselight.measure.profile.compile_steps"})
"""Modules between a `with` statement and `sampling_calls`."""
DARK = 0.05
"""Fraction of the first call above which a stretch without a phase is filled from samples."""
_MAX = 400
"""Maximum steps that are kept individually; the rest are summed."""


@dataclass(frozen=True)
class CallSample:
    """One sample."""

    ns: int
    """From `time.perf_counter_ns`."""
    name: str
    """`torch._inductor.codecache.load`, `import sympy`, `model.forward`."""
    location: Location | None = None
    """The user's line, if the sample is in user code."""


@contextlib.contextmanager
def sampling_calls(roots: Sequence[str] = ()) -> Iterator[list[CallSample]]:
    """Sample this thread's stack every 20 ms until the block ends. `roots`: folders of the user's code."""
    sampled, base = threading.get_ident(), _caller()
    samples: list[CallSample] = []
    done = threading.Event()

    def sample() -> None:
        every, due = EVERY, _MANY
        while not done.wait(every):
            now, stack = time.perf_counter_ns(), _stack(sampled, base)
            if stack:
                samples.append(CallSample(now, *_where(stack, tuple(roots))))
            if len(samples) >= due:
                every, due = 2 * every, due + _MANY

    thread = threading.Thread(target=sample, name="fuselight-samples", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()
        base = None


def _caller() -> FrameType | None:
    """The frame that entered the block: frames outside of it do not belong to the call."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - Python's only way
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame


@dataclass(frozen=True)
class _Called:
    """The data kept of one frame."""

    code: CodeType
    line: int
    module: str

    @property
    def function(self) -> str:
        """The function's name, qualified from Python 3.11 on."""
        return str(getattr(self.code, "co_qualname", self.code.co_name))


def _stack(thread: int, base: FrameType | None) -> list[_Called]:
    """The frames of a thread within `base`, innermost first; the frame objects are released immediately."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way
    called_frames: list[_Called] = []
    while frame is not None and frame is not base and len(called_frames) < _DEEP:
        called_frames.append(_Called(frame.f_code, frame.f_lineno, str(frame.f_globals.get("__name__", "?"))))
        frame = frame.f_back
    return called_frames


def _where(stack: Sequence[_Called], roots: tuple[str, ...]) -> tuple[str, Location | None]:
    """Name the active import, else the innermost function of torch or the user, else the innermost function."""
    imported = [called_frame for called_frame in stack if called_frame.code.co_name == "<module>"]
    if imported:
        return f"import {imported[-1].module}", None
    for called_frame in stack:
        name, path = f"{called_frame.module}.{called_frame.function}", called_frame.code.co_filename
        if is_user_file(path, roots):
            return name, Location(path, called_frame.line, function=called_frame.function)
        if called_frame.module.partition(".")[0] in _LIBRARIES:
            return name, None
    return f"{stack[0].module}.{stack[0].function}", None


@dataclass
class Watched:
    """Phases and samples of a first call; complete when the block has ended."""

    events: CompileEvents
    samples: list[CallSample]


@contextlib.contextmanager
def watching_compiles(roots: Sequence[str] = ()) -> Iterator[Watched]:
    """Record the phases of each compile, and sample this thread's stack, until the block ends.

    For one call including its wait: steps count time from the start of the block. `roots`: folders of the user's code.
    """
    with sampling_calls(roots) as samples, hear_compile_events() as events:
        yield Watched(events, samples)


def steps(
    watched: Watched, compiles: Sequence[Compile] = (), frames: Sequence[Frame] = ()
) -> tuple[CompileStep, ...]:
    """The steps in order of start, outer steps before inner ones; bounded.

    `compiles` and `frames` come from Dynamo's recorder and supply the lines of the frames. Without them a step has the
    line in torch's own events, if any.
    """
    events = watched.events
    places = {**events.places, **{record.id: _place(frames[record.frame]) for record in compiles}}
    roots = _tree(phase for phase in events.phases if phase.thread == events.thread)
    others = [phase for phase in events.phases if phase.thread != events.thread]
    whole = _Node("", events.start_ns, events.end_ns, inner=roots)
    _fit_others(whole, others)
    _light(whole, watched.samples)
    _fold(whole, _MAX)
    return tuple(step for node in whole.inner for step in _listed(node, events.start_ns, places))


def _place(frame: Frame) -> Location:
    """Start of a frame: its `def`, or the line where it continues after a graph break."""
    if frame.resumes_at is None:
        return frame.location
    return Location(frame.location.path, frame.resumes_at, function=frame.location.function)


def lacks(watched: Watched) -> tuple[str, ...]:
    """Describe what is missing from the steps."""
    events = watched.events
    short = (
        f"{events.given_up} short phases of the compile are not among its steps" if events.given_up else ""
    )
    return tuple(filter(None, (events.problem, short)))


@dataclass
class _Node:
    name: str
    start: int
    end: int
    compile_id: str | None = None
    location: Location | None = None
    sampled: bool = False
    us: float | None = None
    """For a summed node, its total time, which differs from `end` minus `start`."""
    inner: list[_Node] = field(default_factory=list)


def _tree(phases: Iterable[CompilePhase]) -> list[_Node]:
    """Build the tree of one thread's phases, which nest."""
    nodes: list[_Node] = []
    stack: list[_Node] = []
    for phase in sorted(phases, key=lambda compile_phase: (compile_phase.start_ns, -compile_phase.end_ns)):
        while stack and stack[-1].end <= phase.start_ns:
            stack.pop()
        end = min(phase.end_ns, stack[-1].end) if stack else phase.end_ns
        node = _Node(phase.name, phase.start_ns, end, phase.compile_id)
        (stack[-1].inner if stack else nodes).append(node)
        stack.append(node)
    return nodes


def _fit_others(whole: _Node, phases: Sequence[CompilePhase]) -> None:
    """Insert the phases of other threads below the steps of the calling thread, clipped to each step."""
    if not phases:
        return
    stretches = sorted(_alone(whole), key=lambda entry: entry[0])
    starts = [start for start, _, _ in stretches]
    there: dict[int, list[CompilePhase]] = {}
    for phase in phases:
        first = max(bisect.bisect_right(starts, phase.start_ns) - 1, 0)
        for index in range(first, bisect.bisect_left(starts, phase.end_ns)):
            start, end, _ = stretches[index]
            cut = (max(start, phase.start_ns), min(end, phase.end_ns))
            if cut[0] < cut[1]:
                there.setdefault(index, []).append(
                    CompilePhase(phase.name, *cut, phase.thread, phase.compile_id)
                )
    for index, cuts in there.items():
        node = stretches[index][2]
        node.inner.extend(_parallel(cuts))
        node.inner.sort(key=lambda node: node.start)


def _alone(node: _Node) -> Iterator[tuple[int, int, _Node]]:
    """Yield the stretches of `node` and its descendants without inner activity: (start, end, owner)."""
    at = node.start
    for inner in node.inner:
        if inner.start > at:
            yield at, inner.start, node
        yield from _alone(inner)
        at = max(at, inner.end)
    if node.end > at:
        yield at, node.end, node


@dataclass
class _Parallel(_Node):
    """Work of one or several other threads within one stretch."""

    threads: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def _parallel(phases: Iterable[CompilePhase]) -> list[_Node]:
    """Nest the phases of other threads; overlapping phases become one node for several threads."""
    parallel_works: list[_Parallel] = []
    stack: list[_Parallel] = []
    for phase in sorted(phases, key=lambda compile_phase: (compile_phase.start_ns, -compile_phase.end_ns)):
        while stack and stack[-1].end <= phase.start_ns:
            stack.pop()
        crossed = next(
            (index for index, parallel_work in enumerate(stack) if parallel_work.end < phase.end_ns), None
        )
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
        node = _Parallel(
            phase.name, phase.start_ns, phase.end_ns, phase.compile_id,
            threads={phase.thread}, names={phase.name},
        )  # fmt: skip
        (stack[-1].inner if stack else parallel_works).append(node)
        stack.append(node)
    _name_threads(parallel_works, set())
    return list(parallel_works)


def _is_alike(node: _Parallel, phase: CompilePhase) -> bool:
    """Whether `phase`, which lies within `node`, is the same work on another thread rather than a part of it."""
    if phase.thread in node.threads:
        return False
    return node.name == phase.name or (node.start, node.end) == (phase.start_ns, phase.end_ns)


def _name_threads(nodes: Iterable[_Node], above: set[int]) -> None:
    for node in nodes:
        if isinstance(node, _Parallel):
            if node.threads != above:
                many = len(node.threads)
                where = f"{many} threads" if many > 1 else "another thread"
                node.name = f"{', '.join(sorted(node.names))} ({where})"
            _name_threads(node.inner, node.threads)


def _light(whole: _Node, samples: Sequence[CallSample]) -> None:
    """Fill long stretches without a phase from the samples taken there."""
    length = whole.end - whole.start
    lit: list[_Node] = []
    at = whole.start
    for start, end in (*((node.start, node.end) for node in whole.inner), (whole.end, whole.end)):
        if start - at > DARK * length:
            lit.extend(_seen(at, start, samples))
        at = max(at, end)
    whole.inner.extend(lit)
    whole.inner.sort(key=lambda node: node.start)


def _seen(start: int, end: int, samples: Sequence[CallSample]) -> list[_Node]:
    """Nodes from the samples between two times: each sample holds until the next."""
    first = bisect.bisect_left(samples, start, key=lambda call_sample: call_sample.ns)
    last = bisect.bisect_left(samples, end, key=lambda call_sample: call_sample.ns)
    nodes: list[_Node] = []
    for index in range(first, last):
        sample = samples[index]
        until = samples[index + 1].ns if index + 1 < last else end
        if nodes and nodes[-1].name == sample.name:
            nodes[-1].end = until
        else:
            nodes.append(_Node(sample.name, sample.ns, until, location=sample.location, sampled=True))
    return nodes


def _fold(whole: _Node, most: int) -> None:
    """Keep the longest steps, and sum each row of adjacent steps that are not kept."""
    nodes = list(_below(whole))
    if len(nodes) <= most:
        return
    # An outer step is at least as long and sorts first among equals, so kept steps keep their ancestors.
    longest = sorted(nodes, key=lambda child: child.start - child.end)[:most]
    kept = {id(node) for node in longest}
    for node in (whole, *longest):
        node.inner = _summed(node.inner, kept)


def _below(node: _Node) -> Iterator[_Node]:
    for inner in node.inner:
        yield inner
        yield from _below(inner)


def _summed(nodes: Sequence[_Node], kept: set[int]) -> list[_Node]:
    actual_nodes: list[_Node] = []
    row: list[_Node] = []
    for node in (*nodes, None):
        if node is not None and id(node) not in kept:
            row.append(node)
            continue
        if len(row) == 1:
            actual_nodes.append(row[0])
            row[0].inner = []
        elif row:
            total = sum(node.end - node.start for node in row) / 1000
            sampled = all(node.sampled for node in row)
            actual_nodes.append(
                _Node(f"{len(row)} more", row[0].start, row[-1].end, us=total, sampled=sampled)
            )
        row = []
        if node is not None:
            actual_nodes.append(node)
    return actual_nodes


def _listed(
    node: _Node, begin: int, places: Mapping[str, Location], depth: int = 0, above: str | None = None
) -> Iterator[CompileStep]:
    compile_id = node.compile_id or above  # threads that compile C++ have no compile id
    location = node.location or places.get(compile_id or "")
    us = (node.end - node.start) / 1000 if node.us is None else node.us
    yield CompileStep(node.name, (node.start - begin) / 1000, us, depth, compile_id, location, node.sampled)
    for inner in node.inner:
        yield from _listed(inner, begin, places, depth + 1, compile_id)
