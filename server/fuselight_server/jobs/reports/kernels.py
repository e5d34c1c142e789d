"""The code that Inductor generated in a job → kernels with their source, in the order of their launches.

Invariant: nothing is measured or estimated. A launch has the lines of the nodes that the comment above it names. The
launch of a C++ kernel has no comment: it has those of the nodes that its name lists, between the library calls around.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fuselight.shared.generated_code import kernel_sources, without_sources
from fuselight.shared.report import (
    Frame,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    text_key,
)
from fuselight_server.jobs.reports.mapping import JobFiles
from fuselight_server.jobs.reports.texts import LogTexts
from fuselight_server.jobs.trace_log.graphs import GraphLine
from fuselight_server.jobs.trace_log.model import GraphKind, LoggedCompile, LoggedGraph

_AOT_ID = re.compile(r"^# AOT ID: \['\w*?_(?P<phase>inference|forward|backward)'\]", re.MULTILINE)
_COMMENT = re.compile(
    r"\s*# (?:Topologically Sorted )?Source Nodes: \[(?P<nodes>[^\]]*)\], Original ATen: \[(?P<operators>[^\]]*)\]"
)
_LAUNCH = re.compile(r"\s*(?:\w+ = )?(?P<name>[A-Za-z_]\w*)(?:\.run)?\(")
_LIBRARY = re.compile(r"\s*(?:[\w, ]+ = )?(?P<name>extern_kernels\.\w+)\(")
_OPERATOR = re.compile(
    r"\s*(?:[\w, ]+ = )?(?P<name>(?:torch\.ops\.(?!inductor\.)|aten\.)\w+(?:\.\w+){0,2})\("
)
_STARTS = "async_compile.wait("
_ENDS = ("def get_args(", "def benchmark_compiled_module(", "if __name__")
_LIBRARIES = (
    "extern_kernels.",
    *(f"torch.ops.{name}." for name in ("_c10d_functional", "c10d_functional", "symm_mem")),
)
"""What the names of library kernels and of collectives start with."""
_IN_NAME = re.compile(r"(?:cpp|triton_\w{3})_fused_(?P<operators>\w+)_\d+$")
_PHASES = {
    GraphKind.INFERENCE: Phase.INFERENCE,
    GraphKind.FORWARD: Phase.FORWARD,
    GraphKind.BACKWARD: Phase.BACKWARD,
}


@dataclass
class _Launch:
    """A launch in the wrapper."""

    name: str
    line: int
    text: str
    nodes: tuple[str, ...] | None
    """Of the comment above it; None without one."""
    operators: tuple[str, ...] = ()
    """`aten.addmm`, as the comment names them."""
    fused: list[FusedOperator] = field(default_factory=list)


def read_generated(
    compiled: LoggedCompile, number: int, frame: Frame, files: JobFiles, texts: LogTexts
) -> tuple[GeneratedGraph, ...]:
    """The generated graphs of a compile. `number`: its position among the graphs of its process."""
    codes = [(code, key) for code in compiled.output_codes if (key := texts.key(code.payload)) is not None]
    received = _keys(compiled.graphs, GraphKind.POST_GRAD, texts)
    joint = _keys(compiled.graphs, GraphKind.JOINT, texts)
    out = []
    for index, (_, key) in enumerate(codes):
        wrapper = texts.texts[key]
        phase = _phase(wrapper)
        sources = kernel_sources(wrapper)
        launches = _launches(wrapper, sources)
        _attribute(launches, _Nodes(compiled.graphs, phase, files, texts), sources)
        out.append(
            GeneratedGraph(
                compile_id=str(compiled.id),
                phase=phase,
                graph=number,
                text_key=key,
                aten_key=received[index] if len(received) == len(codes) else None,
                joint_key=joint[0] if joint and phase is Phase.FORWARD else None,
                kernels=tuple(
                    _kernel(launch, position, sources, texts) for position, launch in enumerate(launches)
                ),
                location=frame.location,
            )
        )
    return tuple(out)


def _keys(graphs: Iterable[LoggedGraph], kind: GraphKind, texts: LogTexts) -> list[str]:
    keys = (texts.key(graph.payload) for graph in graphs if graph.kind is kind)
    return [key for key in keys if key is not None]


def _phase(wrapper: str) -> Phase:
    phase = _AOT_ID.search(wrapper)
    return Phase.INFERENCE if phase is None else Phase(phase["phase"])


def _launches(wrapper: str, sources: Mapping[str, str]) -> list[_Launch]:
    """The launches in the order of the wrapper; a comment belongs to the first launch after it."""
    lines, shown = without_sources(wrapper), wrapper.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith(_STARTS)), -1) + 1
    launches: list[_Launch] = []
    comment: re.Match[str] | None = None
    for number, line in enumerate(lines[begin:], begin + 1):
        if line.startswith(_ENDS):
            break
        comment = _COMMENT.match(line) or comment
        name = _launched(line, sources)
        if name is None:
            continue
        is_cpp = name.startswith("cpp_")
        used = None if comment is None or is_cpp else comment
        launches.append(
            _Launch(
                name,
                number,
                shown[number - 1].strip(),
                None if used is None else _split(used["nodes"]),
                () if used is None else _split(used["operators"]),
            )
        )
        comment = None if used is not None else comment
    return launches


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _launched(line: str, sources: Mapping[str, str]) -> str | None:
    """What a line launches: a kernel of the module, a library's, or an operator; None for all other lines."""
    library = _LIBRARY.match(line)
    if library is not None:
        return library["name"]
    launch = _LAUNCH.match(line)
    if launch is not None and launch["name"] in sources:
        return launch["name"]
    operator = _OPERATOR.match(line)
    return None if operator is None else operator["name"]


class _Nodes:
    """The nodes of a compile's graphs, with their local lines."""

    def __init__(self, graphs: Sequence[LoggedGraph], phase: Phase, files: JobFiles, texts: LogTexts) -> None:
        self._files = files
        self.captured = self._named(graphs, GraphKind.DYNAMO, texts)
        kind = next(kind for kind, known in _PHASES.items() if known is phase)
        self.lowered = self._named(graphs, kind, texts)

    @staticmethod
    def _named(graphs: Sequence[LoggedGraph], kind: GraphKind, texts: LogTexts) -> dict[str, GraphLine]:
        last = [graph for graph in graphs if graph.kind is kind][-1:]
        return {node.name: node for graph in last for node in texts.lines(graph.payload)}

    def location(self, node: GraphLine) -> Location | None:
        """The local line of a node."""
        return None if node.location is None else self._files.location(node.location)

    @cached_property
    def ordered(self) -> tuple[GraphLine, ...]:
        """The nodes of operators, in order."""
        return tuple(self.lowered.values())

    def fused(self, node: GraphLine) -> FusedOperator:
        """The operator of a node, with its local line."""
        place = self.location(node)
        return FusedOperator(_operator(node), stack=() if place is None else (place,))

    def library_call(self, names: Sequence[str], bases: frozenset[str], own: str) -> Iterator[FusedOperator]:
        """The operators of a library call: its comment names those that computed its inputs, too, and its own last."""
        own_nodes = {
            place: node
            for node in self.ordered
            if _base(_operator(node)) == own and (place := self.location(node)) is not None
        }
        for name in reversed(names):
            named = self._node(name, bases)
            place = None if named is None else self.location(named)
            if place in own_nodes:
                yield self.fused(own_nodes[place])
                return
        last = next((name for name in reversed(names) if self._has_place(name, bases)), None)
        chosen = frozenset({own}) if own in bases else bases
        for operator in self.operators_at(() if last is None else (last,), chosen):
            if operator.stack:
                yield operator

    def _has_place(self, name: str, bases: frozenset[str]) -> bool:
        node = self._node(name, bases)
        return node is not None and self.location(node) is not None

    def operators_at(self, names: Sequence[str], bases: frozenset[str]) -> Iterator[FusedOperator]:
        """The operators of the named nodes, each once for each line; operators without a line at the end."""
        places: dict[Location, str] = {}
        for name in names:
            node = self._node(name, bases)
            place = None if node is None else self.location(node)
            if node is not None and place is not None:
                places.setdefault(place, node.operator)
        named: set[str] = set()
        covered: dict[Location, set[str]] = {}
        for node in self.lowered.values():
            place = self.location(node)
            operator = _operator(node)
            if place is None or place not in places or _base(operator) not in bases:
                continue
            named.add(_base(operator))
            covered.setdefault(place, set())
            if operator not in covered[place]:
                covered[place].add(operator)
                yield FusedOperator(operator, stack=(place,))
        for place, printed in places.items():
            if place not in covered:
                yield FusedOperator(printed.removeprefix("torch.ops."), stack=(place,))
        for base in sorted(bases - named):
            yield FusedOperator(f"aten.{base}", stack=tuple(places) if len(places) == 1 else ())

    def _node(self, name: str, bases: frozenset[str]) -> GraphLine | None:
        """The node of a name: both graphs may have one, then the operator decides."""
        lowered, captured = self.lowered.get(name), self.captured.get(name)
        if lowered is not None and (captured is None or _base(_operator(lowered)) in bases):
            return lowered
        return captured


def _operator(node: GraphLine) -> str:
    """`aten.addmm.default` of `torch.ops.aten.addmm.default`."""
    return node.operator.removeprefix("torch.ops.")


def _base(operator: str) -> str:
    """`addmm` of `aten.addmm.default`, `aten.addmm`, `torch.ops.aten.addmm.default` and `extern_kernels.addmm`."""
    parts = operator.removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _attribute(launches: Sequence[_Launch], nodes: _Nodes, sources: Mapping[str, str]) -> None:
    """Give each launch its operators."""
    positions = _positions(launches, nodes)
    for number, launch in enumerate(launches):
        if launch.nodes is not None:
            bases = frozenset(map(_base, launch.operators))
            if launch.name in sources:
                launch.fused += nodes.operators_at(launch.nodes, bases)
            else:
                launch.fused += nodes.library_call(launch.nodes, bases, _base(launch.name))
        elif launch.name in sources:
            launch.fused += _by_name(launch.name, nodes, *_bounds(number, positions))
        elif number in positions:
            launch.fused.append(nodes.fused(nodes.ordered[positions[number]]))
        else:
            launch.fused.append(FusedOperator(launch.name))


def _positions(launches: Sequence[_Launch], nodes: _Nodes) -> dict[int, int]:
    """Number of a launch of a library → position of the node that it computes: both in order, if there are as many."""
    computed: dict[str, list[int]] = {}
    for position, node in enumerate(nodes.ordered):
        computed.setdefault(_base(_operator(node)), []).append(position)
    launched: dict[str, list[int]] = {}
    for number, launch in enumerate(launches):
        launched.setdefault(_base(launch.name), []).append(number)
    return {
        number: position
        for base, numbers in launched.items()
        if len(numbers) == len(computed.get(base, ()))
        for number, position in zip(numbers, computed[base], strict=True)
    }


def _bounds(number: int, positions: Mapping[int, int]) -> tuple[int, int | None]:
    """The positions of the nodes of the library calls before and after a launch."""
    after = max((position for other, position in positions.items() if other < number), default=-1)
    return after, min((position for other, position in positions.items() if other > number), default=None)


def _by_name(name: str, nodes: _Nodes, after: int, before: int | None) -> Iterator[FusedOperator]:
    """A generated kernel without a comment: the operators in its name, between the library calls around it."""
    inside = _IN_NAME.match(name)
    if inside is None:
        return
    named = [
        (position, node)
        for position, node in enumerate(nodes.ordered)
        if f"_{_base(_operator(node))}_" in f"_{inside['operators']}_"
    ]
    between = [
        (position, node)
        for position, node in named
        if position > after and (before is None or position < before)
    ]
    yield from dict.fromkeys(nodes.fused(node) for _, node in between or named)


def _kernel(launch: _Launch, position: int, sources: Mapping[str, str], texts: LogTexts) -> Kernel:
    source = sources.get(launch.name)
    key = None
    if source is not None:
        key = text_key(source)
        texts.texts.setdefault(key, source)
    return Kernel(
        name=launch.name,
        kind=_kind(launch.name, is_generated=source is not None),
        launch=position,
        text_key=key,
        call=launch.text,
        wrapper_line=launch.line,
        operators=tuple(launch.fused),
    )


def _kind(name: str, *, is_generated: bool) -> KernelKind:
    if is_generated:
        if name.startswith("cpp_"):
            return KernelKind.CPP
        if name.startswith("triton_tem_"):
            return KernelKind.TEMPLATE
        return KernelKind.TRITON if name.startswith("triton_") else KernelKind.USER_TRITON
    return KernelKind.EXTERN if name.startswith(_LIBRARIES) else KernelKind.FALLBACK
