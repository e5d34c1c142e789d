"""Joins a profile to the Report: kernels to launches, eager work to lines, and the rest to gaps.

Invariant: work that cannot be joined stays in the result, and no work is counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuselight.measure.profile import idle_time, torch_records
from fuselight.measure.profile.alignment import Element, KnownBy, align
from fuselight.measure.profile.calls import GraphCall, Launched, WorkUnit, read_calls
from fuselight.measure.profile.eager_lines import break_lines, lines_of
from fuselight.measure.profile.recording import Event, EventKind, Recording
from fuselight.measure.steady_state import quartiles
from fuselight.shared.report import (
    Break,
    Gap,
    GapKind,
    GeneratedGraph,
    LaunchKind,
    MeasuredLaunch,
    NotCompiled,
    Profile,
    Stack,
)

_US = 1000.0
"""Nanoseconds per microsecond."""
_GAPS = 200
"""Maximum gaps in the result: a long eager call has one per line and operator."""


@dataclass(frozen=True)
class _Key:
    """Key by which work is grouped into one row."""

    kind: LaunchKind
    graph: int | None = None
    launch: int | None = None
    name: str = ""
    operator: str = ""
    stack: Stack = ()

    @property
    def joined(self) -> bool:
        """Whether the work is joined to a kernel or graph of the Report, or to a line."""
        return self.graph is not None or bool(self.stack)


@dataclass
class _Row:
    """The work of one call under one key."""

    ns: int = 0
    count: int = 0
    operator: str = ""
    names: Counter[str] = field(default_factory=Counter)
    """Nanoseconds by name."""


@dataclass(frozen=True)
class _Read:
    """The analysis of one call."""

    wall_ns: int
    device_ns: int
    joined_ns: int
    rows: dict[_Key, _Row]
    split: idle_time.Split


def read_profile(
    recording: Recording,
    generated: Sequence[GeneratedGraph],
    *,
    breaks: Sequence[Break] = (),
    not_compiled: Sequence[NotCompiled] = (),
) -> Profile:
    """Where the time of a profiled call goes.

    `generated` are the graphs of the configuration, each with the `cache_key` under which the profile has it; `breaks`
    and `not_compiled` are the Report's, by which eager work between two compiled regions finds its line.
    Times of the whole are means over the calls whose wall time lies in the middle half, so that they add up; those of
    a launch are the median and the quartiles of all calls.
    Raises ValueError for a recording without a call.
    """
    if not recording.windows:
        raise ValueError("no call was recorded")
    reader = _Reader(recording, generated, break_lines(breaks, not_compiled))
    calls = [reader.read(call) for call in read_calls(recording, reader.names)]
    middle = _middle(calls)

    def mean(total: float) -> float:
        return total / len(middle) / _US

    return Profile(
        source=recording.source,
        calls=len(calls),
        wall_us=mean(sum(call.wall_ns for call in middle)),
        kernel_us=mean(sum(call.split.busy_ns for call in middle)),
        device_us=mean(sum(call.device_ns for call in middle)),
        joined_us=mean(sum(call.joined_ns for call in middle)),
        launches=_launches([call.rows for call in calls]),
        gaps=_gaps([call.split for call in middle]),
    )


def _middle(calls: Sequence[_Read]) -> list[_Read]:
    """The calls whose wall time lies between the quartiles."""
    ordered = sorted(calls, key=lambda call: call.wall_ns)
    out = len(ordered) // 4
    return ordered[out : len(ordered) - out]


class _Reader:
    """State that all calls of a recording share."""

    def __init__(
        self, recording: Recording, generated: Sequence[GeneratedGraph], after_break: Mapping[str, Stack]
    ) -> None:
        self._on_device = recording.on_device
        self._placed = recording.operators
        self._after_break = after_break
        self._generated = generated
        self._graphs: dict[str, int | None] = {}
        """Position in `generated` by cache key; None if several graphs have the same key."""
        for at, graph in enumerate(generated):
            if graph.cache_key is not None:
                self._graphs[graph.cache_key] = None if graph.cache_key in self._graphs else at
        self.names: dict[str, frozenset[str]] = {
            key: frozenset(kernel.name for kernel in generated[at].kernels)
            for key, at in self._graphs.items()
            if at is not None
        }
        self._aligned: dict[tuple[int, tuple[Element, ...]], list[int | None]] = {}

    def read(self, call: Launched) -> _Read:
        """Analyze one call."""
        rows: dict[_Key, _Row] = {}
        lines = lines_of(call, self._placed, self._after_break)
        graphs = {id(unit.graph): unit.graph for unit in call.units if unit.graph is not None}
        for graph in graphs.values():
            self._join_graph(graph, rows)
        for unit in call.units:
            if unit.graph is None:
                fed = self._graphs.get(unit.feeds.key) if unit.feeds is not None else None
                stack = lines.get(id(unit.node), ())
                for event in unit.work:
                    key = _key(event, LaunchKind.EAGER, unit, stack)
                    if fed is not None and not stack:
                        key = _inputs_key(event, unit, fed)
                    _add(rows, key, event, unit)
        for event in call.strays:
            launch = self._only_launch(event.name, graphs.values())
            if launch is not None and event.kind is EventKind.KERNEL:
                key = _Key(LaunchKind.KERNEL, *launch)
            else:
                key = _key(event, LaunchKind.KERNEL)
            _add(rows, key, event)
        split = idle_time.split(call, lines, self._after_break, on_device=self._on_device)
        kernels = {
            key: row
            for key, row in rows.items()
            if key.kind is not LaunchKind.COPY or not torch_records.copies_over_bus(key.name)
        }
        return _Read(
            wall_ns=call.window.end_ns - call.window.start_ns,
            device_ns=sum(row.ns for row in kernels.values()),
            joined_ns=sum(row.ns for key, row in kernels.items() if key.joined),
            rows=rows,
            split=split,
        )

    def _join_graph(self, graph: GraphCall, rows: dict[_Key, _Row]) -> None:
        at = self._graphs.get(graph.key)
        elements, work = _elements(graph)
        launches: list[int | None] = [None] * len(elements)
        if at is not None:
            known = (at, tuple(elements))
            if known not in self._aligned:
                self._aligned[known] = align(elements, self._generated[at].kernels)
            launches = self._aligned[known]
        replayed = any(unit.name in torch_records.REPLAYS for unit, _ in work)
        for (unit, events), launch in zip(work, launches, strict=True):
            for event in events:
                if launch is not None:
                    key = _Key(LaunchKind.KERNEL, at, launch)
                elif replayed and unit.operator in torch_records.COPIES:
                    key = _inputs_key(event, unit, at)
                else:
                    key = _key(event, LaunchKind.KERNEL, unit)
                _add(rows, key, event, unit)

    def _only_launch(self, name: str, graphs: Iterable[GraphCall]) -> tuple[int, int] | None:
        """The only launch with a kernel's name in the graphs of a call, None if there are several."""
        launches = {
            (at, launch)
            for graph in graphs
            if (at := self._graphs.get(graph.key)) is not None
            for launch, kernel in enumerate(self._generated[at].kernels)
            if kernel.name == name
        }
        return launches.pop() if len(launches) == 1 else None


def _elements(graph: GraphCall) -> tuple[list[Element], list[tuple[WorkUnit, list[Event]]]]:
    """The elements launched by a call of a graph, in order, and their work; replays count kernel by kernel."""
    elements: list[Element] = []
    work: list[tuple[WorkUnit, list[Event]]] = []
    for unit in graph.units:
        if not unit.work:
            continue
        if unit.node.event.kind is EventKind.RUNTIME:
            for event in unit.work:
                known_by = KnownBy.COPY if event.kind is EventKind.COPY else KnownBy.DEVICE
                elements.append(Element(event.name, known_by))
                work.append((unit, [event]))
        else:
            elements.append(Element(unit.name, KnownBy.OPERATOR if unit.operator else KnownBy.RECORD))
            work.append((unit, unit.work))
    return elements, work


def _key(event: Event, kind: LaunchKind, unit: WorkUnit | None = None, stack: Stack = ()) -> _Key:
    """The key of work that no launch of a graph computes; a copy is a copy wherever it is."""
    kind = LaunchKind.COPY if event.kind is EventKind.COPY else kind
    return _Key(kind, name=event.name, operator=unit.operator if unit else "", stack=stack)


def _inputs_key(event: Event, unit: WorkUnit, graph: int | None) -> _Key:
    return _Key(LaunchKind.INPUTS, graph, name=event.name, operator=unit.operator)


def _add(rows: dict[_Key, _Row], key: _Key, event: Event, unit: WorkUnit | None = None) -> None:
    row = rows.setdefault(key, _Row())
    row.ns += event.ns
    row.count += 1
    row.operator = row.operator or (unit.operator if unit else "")
    row.names[event.name] += event.ns


def _launches(calls: Sequence[Mapping[_Key, _Row]]) -> tuple[MeasuredLaunch, ...]:
    """One row per key over all calls: graph launches in order, then the rest, longest first."""
    out = []
    for key in dict.fromkeys(key for rows in calls for key in rows):
        rows = [call.get(key, _Row()) for call in calls]
        low, median, high = quartiles([row.ns / _US for row in rows])
        names: Counter[str] = Counter()
        for row in rows:
            names.update(row.names)
        out.append(
            MeasuredLaunch(
                name=max(names, key=names.__getitem__),
                kind=key.kind,
                us=median,
                low_us=low,
                high_us=high,
                count=sum(row.count for row in rows) / len(rows),
                graph=key.graph,
                launch=key.launch,
                operator=next((row.operator for row in rows if row.operator), ""),
                stack=key.stack,
            )
        )
    return tuple(
        sorted(
            out,
            key=lambda row: (
                row.graph is None,
                row.graph or 0,
                -1 if row.launch is None else row.launch,
                -row.us,
                row.name,
            ),
        )
    )


def _gaps(calls: Sequence[idle_time.Split]) -> tuple[Gap, ...]:
    """Mean gaps over calls, by cause, longest first."""
    causes: dict[idle_time.IdleCause, list[int]] = {}
    for call in calls:
        for stretch in call.gaps:
            causes.setdefault(stretch.what, []).append(stretch.end - stretch.start)
    means = [
        Gap(cause.kind, sum(ns) / len(calls) / _US, len(ns) / len(calls), cause.what, cause.stack)
        for cause, ns in causes.items()
    ]
    return tuple(_folded(sorted(means, key=lambda gap: -gap.us)))


def _folded(gaps: Sequence[Gap]) -> list[Gap]:
    """The longest gaps; the rest summed by kind."""
    rest: dict[GapKind, Gap] = {}
    for gap in gaps[_GAPS:]:
        known = rest.get(gap.kind, Gap(gap.kind, 0.0, what="others"))
        rest[gap.kind] = replace(known, us=known.us + gap.us, count=known.count + gap.count)
    return [*gaps[:_GAPS], *rest.values()]
