"""What each profiled call launched: its work on the device (on the CPU: its kernels and operators), and from where.

Invariant: all device work of a window is in `Launched.units` or `Launched.strays`, once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from fuselight.measure import labels
from fuselight.measure.nesting import Node, trees
from fuselight.measure.recording import Event, EventKind, Recording, Window


@dataclass
class Region:
    """One run of a frame that Dynamo compiled."""

    compile_id: str
    node: Node
    graph_end: int | None = None
    """When its graph had returned: what runs later, and in no region inside, is eager. None: it has called none."""


@dataclass
class GraphCall:
    """One call of a compiled graph."""

    key: str
    node: Node
    units: list[Unit] = field(default_factory=list)


@dataclass
class Unit:
    """What brought work to the device: an operator, a kernel's record, or a bare call of the runtime."""

    node: Node
    region: Region | None
    graph: GraphCall | None
    work: list[Event]
    """In the order of time. On the CPU: the event itself; none for an operator that touches no element."""
    feeds: GraphCall | None = None
    """The graph whose inputs it makes, in the code around it: as autograd does, of gradients that nobody gave."""

    @property
    def name(self) -> str:
        """As the profiler has it."""
        return self.node.event.name

    @property
    def operator(self) -> str:
        """`aten::addmm`, where it is one."""
        return self.name if labels.is_operator(self.name) else ""


@dataclass
class Launched:
    """One profiled call."""

    window: Window
    roots: list[Node]
    """The outermost host events, in the order of time, of all threads."""
    units: list[Unit] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    strays: list[Event] = field(default_factory=list)
    """Device work of which no launch is known."""
    launched: dict[int, Event] = field(default_factory=dict)
    """By position in `work`: the call of the runtime that launched it."""
    work: list[Event] = field(default_factory=list)
    """Device work, in the order of time."""


def read_calls(recording: Recording, names: Mapping[str, frozenset[str]]) -> Iterator[Launched]:
    """Each profiled call. `names` are those of the kernels of each graph, by its cache key."""
    host = [event for event in recording.events if not event.on_device]
    device = [event for event in recording.events if event.on_device]
    starts = [event.start_ns for event in host]
    device_starts = [event.start_ns for event in device]
    for window, later in zip_longest(recording.windows, recording.windows[1:]):
        first, last = bisect_left(starts, window.start_ns), bisect_left(starts, window.end_ns)
        of_call = [event for event in host[first:last] if event.name != labels.CALL]
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
            unit = Unit(node, region, graph, [])
            unit.work = _of_unit(unit, call, waiting) if on_device else _on_host(node)
            call.units.append(unit)
            if graph is not None:
                graph.units.append(unit)
            continue
        compile_id, key = labels.region(event.name), labels.graph_key(event.name)
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
    """Note of work outside of graphs, but within the code around one, that it comes before that graph."""
    around: dict[int, GraphCall] = {}
    for unit in call.units:
        if unit.graph is not None:
            for node in unit.graph.node.above():
                if labels.is_wrapper(node.event.name):
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
    if labels.is_operator(event.name):
        return True
    if graph is None:
        return False
    known = labels.kernel_name(event.name) in names.get(graph.key, ())
    return known or labels.GENERATED.fullmatch(event.name) is not None


def _of_unit(unit: Unit, call: Launched, waiting: dict[int, list[int]]) -> list[Event]:
    """The device work that was launched within a unit, taken out of what waits for its launch."""
    found: list[int] = []
    for node in unit.node.walk():
        if node.event.kind is EventKind.RUNTIME and node.event.correlation is not None:
            for at in waiting.pop(node.event.correlation, ()):
                call.launched[at] = node.event
                found.append(at)
    return [call.work[at] for at in sorted(found)]


def _on_host(node: Node) -> list[Event]:
    """On the CPU, an operator is its own work, unless nothing in it touches an element."""
    operators = [one.event.name for one in node.walk() if labels.is_operator(one.event.name)]
    idle = operators and not any(labels.computes(name) for name in operators)
    return [] if idle else [node.event]


def _end_graph(region: Region | None, node: Node) -> None:
    """Note when the graph of a region has returned, with autograd's node around it."""
    if region is None:
        return
    outermost = node
    for above in node.above():
        if above is region.node:
            region.graph_end = max(region.graph_end or 0, outermost.event.end_ns)
            return
        outermost = above
