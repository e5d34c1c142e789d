"""The first difference between two printed graphs, on the user's line.

Invariant: nodes are compared by source line, operator and constants; their names, and what normalization drops, do not
count. A line is exact only if the log or the source proves it; else it is the nearest line before.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Location
from fuselight_server.jobs.ranks.cures import cure_of_constant, cure_of_inputs, input_words
from fuselight_server.jobs.ranks.normalization import comparable_graph, is_collective, path_tail
from fuselight_server.jobs.trace_log.facts import function_and_resumption
from fuselight_server.jobs.trace_log.graphs import GraphLine, lines_of
from fuselight_server.jobs.trace_log.libraries import is_library

SourceLines = Callable[[str], Sequence[str] | None]

_MAX_COMPARED = 2_000
"""Nodes after the first difference in which the graphs are matched again."""
_ASSIGNED = re.compile(r"^\s+\w+(?:: \"[^\"]*\")? = (.*?)(?:;  .*)?$")
_NAME = re.compile(r"(?<![\w.'])[A-Za-z_]\w*(?![\w(.'])")
_WORD = re.compile(r"'[^']*'|[\w.]+(?:[-+]\d+)?|\S")
_KEPT_WORDS = frozenset({"None", "True", "False", "inf", "nan"})
_INPUT = re.compile(r"(\w+): \"([^\"]*)\"")
_CALLED = re.compile(r"_c10d_functional\w*\.(\w+)")
_GUARD_SOURCE = re.compile(
    r"  # (?P<text>[^\n]*)  # (?P<path>[^#\n:]+?):(?P<line>\d{1,9}) in (?P<function>[\w<>]+)"
)
_CONTEXTS = {
    "_enter_autocast": ("autocast",),
    "_set_grad_enabled": ("no_grad", "enable_grad", "set_grad_enabled"),
}
"""Operators that stand for a context: what the source calls."""
_SUFFIX = re.compile(r"(?:_into_tensor|_tensor|_single|_coalesced|_)$")


class GraphChange(Enum):
    """What the first difference of two graphs is."""

    OPERATOR = "operator"
    COLLECTIVE = "collective"
    CONSTANT = "constant"
    INPUT = "input"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node as it is compared."""

    line: GraphLine
    value: str
    """What it computes, without names."""
    names: frozenset[str]
    """The names in it."""

    @property
    def key(self) -> tuple[str, int | None, str]:
        """Source line and operator."""
        return path_tail(self.line.path or ""), self.line.line, operator_name(self.line.operator)

    @property
    def collective(self) -> str | None:
        """The collective that it starts."""
        match = _CALLED.search(self.line.operator)
        return match[1] if match is not None and is_collective(match[1]) else None


@dataclass(frozen=True, slots=True)
class ComparedGraph:
    """A printed graph as it is compared."""

    inputs: tuple[tuple[str, str], ...]
    """Names and types."""
    nodes: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True)
class GraphDifference:
    """The first difference. `left` and `right` are what each graph has there; None: nothing."""

    change: GraphChange
    left: str | None
    right: str | None
    left_line: Location | None
    right_line: Location | None
    is_exact: bool
    subject: str = ""
    """The input or the operator that differs."""
    cure: str = ""
    """What makes the ranks equal again; empty: the kind of the change decides."""


_BothLines = tuple["UserLines", ...]
"""Those of both graphs."""


def parse_graph(text: str) -> ComparedGraph:
    """A printed graph as it is compared."""
    printed = text.split("\n")
    head: list[str] = []
    for number, line in enumerate(printed):
        if line.lstrip().startswith("def forward(") or head:
            head.append(line)
        if head and line.rstrip().endswith("):"):
            break
        if number > 100_000:  # noqa: PLR2004 - no signature is longer
            break
    inputs = tuple(_INPUT.findall("\n".join(head)))
    nodes = tuple(_node(line, printed[line.printed - 1]) for line in lines_of(text))
    return ComparedGraph(inputs, nodes)


def _node(line: GraphLine, printed: str) -> GraphNode:
    return GraphNode(line, _value(printed), frozenset(re.findall(r"\w+", printed.partition(";  ")[0])))


def _value(printed: str) -> str:
    match = _ASSIGNED.match(comparable_graph(printed))
    value = match[1] if match is not None else printed
    return _NAME.sub(lambda name: name[0] if name[0] in _KEPT_WORDS else "%", value)


def first_difference(
    left: str,
    right: str,
    *,
    guards: tuple[str, str] = ("", ""),
    lines: SourceLines | None = None,
    home: Location | None = None,
) -> GraphDifference | None:
    """Where two graphs differ first. `guards`: the printed guards of each, which quote source lines."""
    first, second = parse_graph(left), parse_graph(right)
    places = tuple(UserLines(text, lines, home) for text in guards)
    return (
        _in_collectives(first, second, places)
        or _in_operators(first, second, places)
        or _in_inputs(first, second, places)
        or _in_constants(first, second, places)
    )


def _in_collectives(left: ComparedGraph, right: ComparedGraph, places: _BothLines) -> GraphDifference | None:
    sides = [
        [(index, node.collective, node.value) for index, node in enumerate(graph.nodes) if node.collective]
        for graph in (left, right)
    ]
    if len(sides[0]) == len(sides[1]) and left.inputs != right.inputs:
        keys = [
            [name for _, name, _ in side] for side in sides
        ]  # sizes differ, and with them what a constant is
    else:
        keys = [[value for _, _, value in side] for side in sides]
    if keys[0] == keys[1]:
        return None
    first = _common(*keys)
    items = [side[first] if first < len(side) else None for side in sides]
    texts = [None if item is None else _collective_text(item, items) for item in items]
    where = [
        None if item is None else place.of_collective(graph, item[0])
        for item, graph, place in zip(items, (left, right), places, strict=True)
    ]
    spots = [None if place is None else place[0] for place in where]
    is_exact = all(place is None or place[1] for place in where)
    return GraphDifference(GraphChange.COLLECTIVE, texts[0], texts[1], spots[0], spots[1], is_exact)


def _collective_text(
    item: tuple[int, str | None, str], items: Sequence[tuple[int, str | None, str] | None]
) -> str:
    """The collective's name, with its constants if the names are equal."""
    names = {other[1] for other in items if other is not None}
    if len(names) > 1 or None in items:
        return str(item[1])
    constants = re.findall(r"'\w+'|(?<![\w.])\d+", item[2].partition("(")[2])
    return f"{item[1]}({', '.join(['...', *constants])})"


def _common(left: Sequence[object], right: Sequence[object]) -> int:
    """Number of equal items at the start."""
    for index, (first, second) in enumerate(zip(left, right, strict=False)):
        if first != second:
            return index
    return min(len(left), len(right))


def _in_operators(left: ComparedGraph, right: ComparedGraph, places: _BothLines) -> GraphDifference | None:
    keys = [[node.key for node in graph.nodes] for graph in (left, right)]
    if keys[0] == keys[1]:
        return None
    start = _common(*keys)
    tails = [side[start : start + _MAX_COMPARED] for side in keys]
    opcodes = difflib.SequenceMatcher(None, tails[0], tails[1], autojunk=False).get_opcodes()
    _, first, first_end, second, second_end = next(code for code in opcodes if code[0] != "equal")
    nodes = [
        left.nodes[start + first] if first < first_end else None,
        right.nodes[start + second] if second < second_end else None,
    ]
    where = [
        None if node is None else place.of_node(graph, start + index)
        for node, graph, index, place in zip(nodes, (left, right), (first, second), places, strict=True)
    ]
    spots = [None if place is None else place[0] for place in where]
    is_exact = all(place is None or place[1] for place in where)
    texts = [None if node is None else operator_name(node.line.operator) for node in nodes]
    return GraphDifference(GraphChange.OPERATOR, texts[0], texts[1], spots[0], spots[1], is_exact)


def _in_inputs(left: ComparedGraph, right: ComparedGraph, places: _BothLines) -> GraphDifference | None:
    if left.inputs == right.inputs:
        return None
    types = [dict(graph.inputs) for graph in (left, right)]
    for name in dict.fromkeys([*types[0], *types[1]]):
        first, second = (_comparable_type(side.get(name)) for side in types)
        if first != second and name in types[0] and name in types[1]:
            full = types[0][name], types[1][name]
            texts = input_words(*_shown_types(*full))
            spots = [place.of_input(graph, name) for graph, place in zip((left, right), places, strict=True)]
            return GraphDifference(
                GraphChange.INPUT,
                texts[0],
                texts[1],
                spots[0],
                spots[1],
                is_exact=True,
                subject=input_name(name),
                cure=cure_of_inputs(input_name(name), *full),
            )
    return None


def _comparable_type(text: str | None) -> str | None:
    return None if text is None else comparable_graph(text)


def _shown_types(left: str, right: str) -> tuple[str, str]:
    """Two types without what they share: `f32[4, 8]`, with strides and device only if these differ."""
    parts = [re.match(r"(?P<shape>\w+\[[^\]]*\])(?P<rest>.*)", text) for text in (left, right)]
    if None in parts or parts[0]["shape"] == parts[1]["shape"]:  # type: ignore[index]
        return left, right
    return parts[0]["shape"], parts[1]["shape"]  # type: ignore[index]


def _in_constants(left: ComparedGraph, right: ComparedGraph, places: _BothLines) -> GraphDifference | None:
    for index, (first, second) in enumerate(zip(left.nodes, right.nodes, strict=False)):
        if first.value == second.value:
            continue
        words = [_WORD.findall(node.value) for node in (first, second)]
        position = _common(*words)
        texts = [side[position] if position < len(side) else None for side in words]
        where = [place.of_node(graph, index) for graph, place in zip((left, right), places, strict=True)]
        return GraphDifference(
            GraphChange.CONSTANT,
            texts[0],
            texts[1],
            where[0][0],
            where[1][0],
            where[0][1] and where[1][1],
            subject=operator_name(first.line.operator),
            cure=cure_of_constant(operator_name(first.line.operator), texts[0], texts[1]),
        )
    return None


def operator_name(printed: str) -> str:
    """`torch.sin`, `l_x_.sin` and `torch.ops.aten.sin.default` as `sin`."""
    parts = printed.split(".")
    if printed.startswith("torch.ops.") and len(parts) > 3:  # noqa: PLR2004 - torch, ops, library, name
        return parts[3]
    return parts[-1] or printed


def input_name(name: str) -> str:
    """`L_x_` as `x`, `L_self_modules_a_parameters_weight_` as `self.a.weight`."""
    if not name.startswith("L_"):
        return name
    words = name.removeprefix("L_").rstrip("_")
    return re.sub(r"_(?:modules|parameters|buffers)_", ".", words)


class UserLines:
    """Finds the user's lines of the nodes of a graph."""

    def __init__(self, guards: str, lines: SourceLines | None, home: Location | None = None) -> None:
        """`guards`: as printed for the compile. `lines`: the source of a file. `home`: the compiled function."""
        self._guards = guards
        self._home = home if home is not None and not is_library(home.path) else None
        self._lines = lines

    def of_node(self, graph: ComparedGraph, index: int) -> tuple[Location | None, bool]:
        """The line of a node, and whether it is exact."""
        line = graph.nodes[index].line
        if graph.nodes[index].collective is not None:
            return self.of_collective(graph, index)
        if line.path is None or is_library(line.path):
            return self._of_library(graph, index)
        return _location(line), True

    def _of_library(self, graph: ComparedGraph, index: int) -> tuple[Location | None, bool]:
        """The line that called a library: of a context such as autocast, from the source."""
        line = graph.nodes[index].line
        before, after = self._neighbor(graph, index, -1) or self._home, self._neighbor(graph, index, 1)
        for called in _CONTEXTS.get(operator_name(line.operator), ()):
            calls = list(self._calls(called, before, after))
            if len(calls) == 1:
                return calls[0], True
        near = before or after
        if near is None and line.path is not None:
            return _location(line), True
        return near, False

    def of_input(self, graph: ComparedGraph, name: str) -> Location | None:
        """The first line that uses an input."""
        for index, node in enumerate(graph.nodes):
            if node.names & {name, name.lower()}:
                return self.of_node(graph, index)[0]
        return None

    def of_collective(self, graph: ComparedGraph, index: int) -> tuple[Location | None, bool]:
        """The user's call of a collective: torch names only its own line."""
        node = graph.nodes[index]
        if node.line.path is not None and not is_library(node.line.path):
            return _location(node.line), True
        before, after = self._neighbor(graph, index, -1) or self._home, self._neighbor(graph, index, 1)
        called = _SUFFIX.sub("", node.collective or "")
        calls = list(self._calls(called, before, after))
        if len(calls) == 1:
            return calls[0], True
        quoted = self._quoted(called, graph)
        inside = [place for place in quoted if _is_between(place, before, after)]
        if len(inside) == 1:
            return inside[0], True
        if len(quoted) == 1 and not calls:
            helper = quoted[0].function
            callers = list(self._calls(helper, before, after)) if helper else []
            return (callers[0] if len(callers) == 1 else quoted[0]), True
        return before or after, False

    @staticmethod
    def _neighbor(graph: ComparedGraph, index: int, step: int) -> Location | None:
        """The nearest user's line before or after a node."""
        position = index + step
        while 0 <= position < len(graph.nodes):
            line = graph.nodes[position].line
            if line.path is not None and line.line is not None and not is_library(line.path):
                return _location(line)
            position += step
        return None

    def _calls(self, called: str, before: Location | None, after: Location | None) -> Iterator[Location]:
        """Calls of a collective in the source between two lines of one function."""
        place = before or after
        source = None if place is None or self._lines is None else self._lines(place.path)
        if place is None or source is None:
            return
        first, last = _range(source, before, after)
        for number in _lines_with_call("\n".join(source), called):
            if first <= number <= last:
                yield Location(place.path, number, function=place.function)

    def _quoted(self, called: str, graph: ComparedGraph) -> list[Location]:
        """Lines with a call of the collective that the guards quote, on paths that the graph names."""
        paths = {node.line.path for node in graph.nodes if node.line.path and not is_library(node.line.path)}
        places: dict[tuple[str, int], Location] = {}
        for match in _GUARD_SOURCE.finditer(self._guards):
            if re.search(rf"\b{re.escape(called)}\w*\(", match["text"]) is None:
                continue
            known = [path for path in paths if path.endswith(match["path"].strip())]
            if len(known) == 1:
                number = int(match["line"])
                places[known[0], number] = Location(known[0], number, function=match["function"])
        return list(places.values())


def _is_between(place: Location, before: Location | None, after: Location | None) -> bool:
    return all(
        other is None or (other.path == place.path and sign * other.line <= sign * place.line)
        for other, sign in ((before, 1), (after, -1))
    )


def _range(source: Sequence[str], before: Location | None, after: Location | None) -> tuple[int, int]:
    """The lines between two, within the function that has them."""
    first, last = _function_lines(source, (before or after).line)  # type: ignore[union-attr]
    start = before.line if before is not None and first <= before.line <= last else first
    if after is not None and (before is None or after.path == before.path) and start <= after.line <= last:
        return start, after.line
    return start, last


def _function_lines(source: Sequence[str], line: int) -> tuple[int, int]:
    tree = try_parse_python("\n".join(source))
    best = 1, len(source)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            span = node.lineno, node.end_lineno or node.lineno
            if span[0] <= line <= span[1] and span[1] - span[0] <= best[1] - best[0]:
                best = span
    return best


def _lines_with_call(text: str, called: str) -> Iterator[int]:
    tree = try_parse_python(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name.startswith(called):
                yield node.lineno


def _location(line: GraphLine) -> Location:
    function = None if line.function is None else function_and_resumption(line.function)[0]
    return Location(line.path or "", line.line or 0, function=function)
