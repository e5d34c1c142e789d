"""Work of each profiled call: device work (on the CPU: kernels and operators) and what launched it.

Invariant: all device work of a window is in `Launched.units` or `Launched.strays`, exactly once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from fuselight.measure.profile import torch_records
from fuselight.measure.profile.intervals import Node, trees
from fuselight.measure.profile.recording import Event, EventKind, Recording, Window


@dataclass
class Region:
    """One run of a frame that Dynamo compiled."""

    compile_id: str
    node: Node
    graph_end: int | None = None
    """Time at which its graph returned: later work outside of inner regions is eager. None: it called no graph."""


@dataclass
class GraphCall:
    """One call of a compiled graph."""

    key: str
    node: Node
    units: list[WorkUnit] = field(default_factory=list)


@dataclass
class WorkUnit:
    """A launcher of device work: an operator, a kernel's record, or a runtime call without a record."""

    node: Node
    region: Region | None
    graph: GraphCall | None
    work: list[Event]
    """In order of time. On the CPU: the event itself; empty for an operator that touches no element."""
    feeds: GraphCall | None = None
    """The graph whose inputs it makes in the surrounding code, such as zero gradients that autograd fills in."""

    @property
    def name(self) -> str:
        """Name in the profile."""
        return self.node.event.name

    @property
    def operator(self) -> str:
        """`aten::addmm`, for an operator."""
        return self.name if torch_records.is_operator(self.name) else ""


@dataclass
class Launched:
    """The work of one profiled call."""

    window: Window
    roots: list[Node]
    """The outermost host events of all threads, in order of time."""
    units: list[WorkUnit] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    strays: list[Event] = field(default_factory=list)
    """Device work without a known launch."""
    launched: dict[int, Event] = field(default_factory=dict)
    """Runtime call that launched the work, by position in `work`."""
    work: list[Event] = field(default_factory=list)
    """Device work in order of time."""


def read_calls(recording: Recording, names: Mapping[str, frozenset[str]]) -> Iterator[Launched]:
    """Yield each profiled call. `names` maps the cache key of each graph to the names of its kernels."""
    host = [event for event in recording.events if not event.on_device]
    device = [event for event in recording.events if event.on_device]
    starts = [event.start_ns for event in host]
    device_starts = [event.start_ns for event in device]
    for window, later in zip_longest(recording.windows, recording.windows[1:]):
        first, last = bisect_left(starts, window.start_ns), bisect_left(starts, window.end_ns)
        of_call = [event for event in host[first:last] if event.name != torch_records.CALL]
        end = len(device) if later is None else bisect_left(device_starts, later.start_ns)
        work = device[bisect_left(device_starts, window.start_ns) : end]
        yield _read(window, of_call, work, names, on_device=recording.on_device)


def _read(
    window: Window,
    host: Sequence[Event],
    work: list[Event],
    names: Mapping[str, frozenset[str]],
    *,
    on_device: bool,
) -> Launched:
    call = Launched(window, trees(host), work=work)
    waiting: dict[int, list[int]] = {}
    for at, event in enumerate(work):
        waiting.setdefault(event.correlation or 0, []).append(at)
    strays = dict(enumerate(waiting.pop(0, [])))
    todo: list[tuple[Node, Region | None, GraphCall | None]] = [
        (node, None, None) for node in reversed(call.roots)
    ]
    while todo:
        node, region, graph = todo.pop()
        event = node.event
        if _is_unit(event, graph, names) or (
            event.kind is EventKind.RUNTIME and event.correlation in waiting
        ):
            unit = WorkUnit(node, region, graph, [])
            unit.work = _of_unit(unit, call, waiting) if on_device else _on_host(node)
            call.units.append(unit)
            if graph is not None:
                graph.units.append(unit)
            continue
        compile_id, key = torch_records.region(event.name), torch_records.graph_key(event.name)
        if compile_id is not None:
            region, graph = Region(compile_id, node), None
            call.regions.append(region)
        elif key is not None:
            graph = GraphCall(key, node)
            _end_graph(region, node)
        todo += [(child, region, graph) for child in reversed(node.children)]
    _find_feeding(call)
    rest = sorted([*strays.values(), *(at for group in waiting.values() for at in group)])
    call.strays = [work[at] for at in rest]
    return call


def _find_feeding(call: Launched) -> None:
    """Mark work outside of graphs, but within the code around a graph, as preparing that graph's inputs."""
    around: dict[int, GraphCall] = {}
    for unit in call.units:
        if unit.graph is not None:
            for node in unit.graph.node.above():
                if torch_records.is_wrapper(node.event.name):
                    around.setdefault(id(node), unit.graph)
    for unit in call.units if around else ():
        if unit.graph is None:
            within = (around[id(node)] for node in unit.node.above() if id(node) in around)
            graph = next(within, None)
            if graph is not None and unit.node.event.start_ns < graph.node.event.start_ns:
                unit.feeds = graph


def _is_unit(event: Event, graph: GraphCall | None, names: Mapping[str, frozenset[str]]) -> bool:
    if event.kind is EventKind.RUNTIME:
        return False
    if torch_records.is_operator(event.name):
        return True
    if graph is None:
        return False
    known = torch_records.kernel_name(event.name) in names.get(graph.key, ())
    return known or torch_records.GENERATED.fullmatch(event.name) is not None


def _of_unit(unit: WorkUnit, call: Launched, waiting: dict[int, list[int]]) -> list[Event]:
    """The device work that was launched within a unit, removed from the work without a launch."""
    marks: list[int] = []
    for node in unit.node.walk():
        if node.event.kind is EventKind.RUNTIME and node.event.correlation is not None:
            for at in waiting.pop(node.event.correlation, ()):
                call.launched[at] = node.event
                marks.append(at)
    return [call.work[at] for at in sorted(marks)]


def _on_host(node: Node) -> list[Event]:
    """On the CPU an operator is its own work, unless nothing in it touches an element."""
    operators = [node.event.name for node in node.walk() if torch_records.is_operator(node.event.name)]
    idle = operators and not any(torch_records.computes(name) for name in operators)
    return [] if idle else [node.event]


def _end_graph(region: Region | None, node: Node) -> None:
    """Record when the graph of a region returned, including autograd's node around it."""
    if region is None:
        return
    outermost = node
    for above in node.above():
        if above is region.node:
            region.graph_end = max(region.graph_end or 0, outermost.event.end_ns)
            return
        outermost = above
