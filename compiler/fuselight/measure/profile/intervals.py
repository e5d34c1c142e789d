"""Interval arithmetic: the host's events as trees, and overlays of time stretches.

Invariant: stretches of one list are in order and do not overlap, so that no moment counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fuselight.measure.profile.recording import Event

L = TypeVar("L")
Span = tuple[int, int]
"""Start and end, nanoseconds."""


@dataclass
class Node:
    """One event of a host thread, with the events that began during it."""

    event: Event
    parent: Node | None = field(default=None, repr=False)
    children: list[Node] = field(default_factory=list, repr=False)

    def walk(self) -> Iterator[Node]:
        """Yield this node and its descendants, outer nodes first, in order of time."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def above(self) -> Iterator[Node]:
        """Yield the ancestors, innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


def trees(events: Iterable[Event]) -> list[Node]:
    """The outermost events with their nested events; `events` are in order of time, from any threads."""
    roots: list[Node] = []
    open_: dict[int, list[Node]] = {}
    for event in events:
        stack = open_.setdefault(event.thread, [])
        while stack and stack[-1].event.end_ns <= event.start_ns:
            stack.pop()
        node = Node(event, stack[-1] if stack else None)
        (stack[-1].children if stack else roots).append(node)
        stack.append(node)
    return roots


@dataclass(frozen=True)
class Stretch(Generic[L]):
    """A span of time with a value."""

    start: int
    end: int
    what: L


def flatten(nodes: Sequence[Node], what: Callable[[Node, L], L], outside: L, span: Span) -> list[Stretch[L]]:
    """Divide the whole of `span` into stretches, each with the value of its innermost event.

    `what(node, around)` gives the value of an event's own time from the value around it; `outside` is for time without
    events. `nodes` belong to one thread, in order. Not recursive, because events can nest very deeply.
    """
    out: list[Stretch[L]] = []
    at = span[0]
    waiting = [(outside, iter(nodes), span[1])]
    while waiting:
        around, rest, end = waiting[-1]
        node = next(rest, None)
        start = end if node is None else min(max(node.event.start_ns, at), end)
        if start > at:
            out.append(Stretch(at, start, around))
            at = start
        if node is None:
            waiting.pop()
        elif (stop := min(node.event.end_ns, end)) > at:
            waiting.append((what(node, around), iter(node.children), stop))
    return out


def merged(stretches: Iterable[Stretch[L]]) -> list[Stretch[L]]:
    """The same time, with equal adjacent stretches merged."""
    out: list[Stretch[L]] = []
    for stretch in stretches:
        if out and out[-1].end == stretch.start and out[-1].what == stretch.what:
            out[-1] = Stretch(out[-1].start, stretch.end, stretch.what)
        else:
            out.append(stretch)
    return out


def union(spans: Iterable[Span]) -> list[Span]:
    """The time that at least one span covers."""
    out: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def clipped(spans: Iterable[Span], within: Span) -> list[Span]:
    """The parts of spans that lie within another span."""
    inside = ((max(start, within[0]), min(end, within[1])) for start, end in spans)
    return [(start, end) for start, end in inside if end > start]


def without(within: Span, taken: Sequence[Span]) -> list[Span]:
    """The parts of a span that ordered, disjoint spans leave uncovered."""
    out, at = [], within[0]
    for start, end in clipped(taken, within):
        if start > at:
            out.append((at, start))
        at = max(at, end)
    if within[1] > at:
        out.append((at, within[1]))
    return out


def length(spans: Iterable[Span]) -> int:
    """Total nanoseconds of disjoint spans."""
    return sum(end - start for start, end in spans)
