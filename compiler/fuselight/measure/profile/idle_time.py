"""Classifies the time of a call in which no kernel runs, by the host's activity.

Invariant: for each call, the kernels' time and the gaps cover its window, each moment exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fuselight.measure.profile import torch_records
from fuselight.measure.profile.calls import Launched, Region
from fuselight.measure.profile.intervals import (
    Node,
    Span,
    Stretch,
    clipped,
    flatten,
    length,
    merged,
    union,
    without,
)
from fuselight.measure.profile.recording import Event, EventKind
from fuselight.shared.report import GapKind, Stack


@dataclass(frozen=True)
class IdleCause:
    """The cause of a gap: `Gap` without its time."""

    kind: GapKind
    what: str = ""
    stack: Stack = ()


@dataclass(frozen=True)
class Split:
    """The division of one call's window: `busy_ns` plus the stretches is its length."""

    busy_ns: int
    """Time in which at least one kernel runs."""
    gaps: tuple[Stretch[IdleCause], ...]


_HOST = IdleCause(GapKind.HOST)
_Around = tuple[IdleCause, "Region | None"]
"""The cause of the current time, and the region whose own code runs then."""


def split(
    call: Launched, lines: Mapping[int, Stack], after_break: Mapping[str, Stack], *, on_device: bool
) -> Split:
    """Divide the time of one call.

    `lines` maps the `id` of a node to the stack of an eager unit or backward node; `after_break` maps a compile id to
    the line where eager mode takes over after the compiled region.
    """
    window = (call.window.start_ns, call.window.end_ns)
    work = call.work if on_device else [event for unit in call.units for event in unit.work]
    kernels = [event for event in work if not _over_bus(event)]
    busy = union(clipped(map(_span, kernels), window))
    host = _Host(call, lines, after_break, on_device=on_device).stretches(window)
    if not on_device:
        return Split(length(busy), tuple(merged(_meanwhile(host, without(window, busy)))))
    return Split(length(busy), tuple(merged(_idle(call, host, window, busy))))


def _span(event: Event) -> Span:
    return event.start_ns, event.end_ns


def _over_bus(event: Event) -> bool:
    return event.kind is EventKind.COPY and torch_records.copies_over_bus(event.name)


def _meanwhile(host: Sequence[Stretch[IdleCause]], idle: Sequence[Span]) -> list[Stretch[IdleCause]]:
    """The host's activity in each idle span; both are in order."""
    out, at = [], 0
    for start, end in idle:
        while at < len(host) and host[at].end <= start:
            at += 1
        look = at
        while look < len(host) and host[look].start < end:
            stretch = host[look]
            out.append(Stretch(max(stretch.start, start), min(stretch.end, end), stretch.what))
            look += 1
    return out


def _idle(
    call: Launched, host: Sequence[Stretch[IdleCause]], window: Span, busy: Sequence[Span]
) -> list[Stretch[IdleCause]]:
    """The idle time of a device: copies first, then the host's activity until the next launch, then its latency."""
    copies: list[tuple[Span, IdleCause]] = []
    begun: dict[int, int] = {}  # when the host began a launch, by when the launched work starts on the device
    for at, event in enumerate(call.work):
        launch = call.launched.get(at)
        if _over_bus(event):
            launching = (s for s in host if launch is not None and s.start <= launch.start_ns < s.end)
            stack = next((stretch.what.stack for stretch in launching), ())
            copies.append((_span(event), IdleCause(GapKind.COPY, event.name, stack)))
        elif launch is not None:
            begun[event.start_ns] = min(launch.start_ns, begun.get(event.start_ns, launch.start_ns))
    out: list[Stretch[IdleCause]] = []
    before: list[Span] = []
    for idle in without(window, busy):
        launched = min(max(begun.get(idle[1], idle[1]), idle[0]), idle[1])
        taken: list[Span] = []
        for copy, cause in copies:
            for part in clipped([copy], idle):
                out += [Stretch(*left, cause) for left in without(part, union(taken))]
                taken.append(part)
        free = without(idle, union(taken))
        before += clipped(free, (idle[0], launched))
        out += [Stretch(*part, IdleCause(GapKind.LAUNCH)) for part in clipped(free, (launched, idle[1]))]
    return sorted([*out, *_meanwhile(host, before)], key=lambda stretch: stretch.start)


class _Host:
    """The host's activity at each moment: the calling thread, or the engine's threads while that thread waits."""

    def __init__(
        self, call: Launched, lines: Mapping[int, Stack], after_break: Mapping[str, Stack], *, on_device: bool
    ) -> None:
        self._call = call
        self._lines = lines
        self._after_break = after_break
        self._on_device = on_device
        self._regions = {id(region.node): region for region in call.regions}
        self._units = {id(unit.node): unit for unit in call.units}

    def stretches(self, window: Span) -> list[Stretch[IdleCause]]:
        """Stretches that cover the whole window."""
        threads: dict[int, list[Node]] = {}
        for node in self._call.roots:
            threads.setdefault(node.event.thread, []).append(node)
        main = self._thread(threads.pop(self._call.window.thread, []), window)
        for nodes in threads.values():
            main = _laid_under(main, self._thread(nodes, window))
        return main

    def _thread(self, nodes: Sequence[Node], window: Span) -> list[Stretch[IdleCause]]:
        outside: _Around = (_HOST, None)
        flat = flatten(nodes, self._cause, outside, window)
        return [part for stretch in flat for part in self._own(stretch)]

    def _own(self, stretch: Stretch[_Around]) -> list[Stretch[IdleCause]]:
        """A region's own time belongs to the wrapper until its graph returns, and to eager Python afterwards."""
        cause, region = stretch.what
        if region is None or region.compile_id not in self._after_break:
            return [Stretch(stretch.start, stretch.end, cause)]
        at = min(max(region.graph_end or 0, stretch.start), stretch.end)
        later = IdleCause(GapKind.HOST, stack=self._after_break[region.compile_id])
        parts = [Stretch(stretch.start, at, cause), Stretch(at, stretch.end, later)]
        return [part for part in parts if part.end > part.start]

    def _cause(self, node: Node, around: _Around) -> _Around:
        event = node.event
        region = self._regions.get(id(node))
        unit = self._units.get(id(node))
        if region is not None:
            return IdleCause(GapKind.WRAPPER), region
        if event.kind is EventKind.RUNTIME:
            if event.name not in torch_records.WAITS:
                return around
            cause = around[0]
            what = cause.what if cause.kind is GapKind.SYNC else event.name
            return IdleCause(GapKind.SYNC, what, cause.stack), None
        if unit is not None and unit.graph is None:
            waits = self._on_device and event.name in torch_records.READS
            kind = GapKind.SYNC if waits else GapKind.EAGER
            return IdleCause(kind, event.name, self._lines.get(id(node), ())), None
        known = _of_record(event.name, self._lines.get(id(node), ()))
        return around if known is None else (known, None)


def _of_record(name: str, stack: Stack) -> IdleCause | None:
    """The cause that a torch record indicates, None for any other; `stack` is that of a backward node."""
    if name == torch_records.CACHE_LOOKUP:
        return IdleCause(GapKind.GUARDS)
    if torch_records.graph_key(name) is not None or torch_records.is_wrapper(name):
        return IdleCause(GapKind.WRAPPER)
    if name.startswith(torch_records.EVALUATES):
        return IdleCause(GapKind.EAGER, name.removeprefix(torch_records.EVALUATES), stack)
    return None


def _laid_under(
    above: Sequence[Stretch[IdleCause]], below: Sequence[Stretch[IdleCause]]
) -> list[Stretch[IdleCause]]:
    """One thread's time, with another's where the first has no record; both cover the whole window."""
    out = [stretch for stretch in above if stretch.what.kind is not GapKind.HOST]
    free = [stretch for stretch in above if stretch.what.kind is GapKind.HOST]
    stretches = _meanwhile(below, [(stretch.start, stretch.end) for stretch in free])
    at = 0
    for part in stretches:
        while free[at].end <= part.start:
            at += 1
        out.append(replace(part, what=free[at].what) if part.what == _HOST else part)
    return sorted(out, key=lambda stretch: stretch.start)
