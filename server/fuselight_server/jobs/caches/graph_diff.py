"""Which lines of two printed graphs differ.

Invariant: a line counts as changed only if its operators, their constants or its quoted source differ. Names of nodes
and sizes do not count: an inserted operator renames the nodes below, and a changed input resizes all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from fuselight_server.jobs.caches.model import ChangedLine
from fuselight_server.jobs.trace_log.graphs import GraphLine, lines_of

MAX_LINES = 20
_MAX_NODES = 20_000
"""Nodes of a graph that are compared."""
_MAX_PAIRS = 1_000_000
"""Pairs of nodes between the equal ends of two graphs; of more, only the first differences are compared."""
_COMPARED_AT_MAX = 200
_FREED = re.compile(r";\s+(?:\w+ = )+None\s*$")
_WORD = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"^\s*(?P<name>[A-Za-z_]\w*)(?:: \"[^\"]*\")? = (?P<value>.+)$")
_INPUTS = re.compile(r"^\s*def forward\(self(?P<inputs>.*)\):", re.MULTILINE)
_INPUT = re.compile(r"(?P<name>\w+)(?:\s*: (?P<type>\"[^\"]*\"|[\w.]+))?")


@dataclass(frozen=True, slots=True)
class _PrintedNode:
    line: GraphLine
    value: str
    """As printed, without what frees variables."""
    pattern: str
    """The value without names of nodes."""
    flow: str
    """The value with the operator of each node in place of its name."""


def input_names(text: str) -> tuple[tuple[str, str], ...]:
    """Names and types of the inputs of a printed graph."""
    match = _INPUTS.search(text)
    if match is None:
        return ()
    return tuple((item["name"], (item["type"] or "").strip('"')) for item in _INPUT.finditer(match["inputs"]))


def changed_lines(before: str, after: str) -> tuple[ChangedLine, ...]:
    """The lines that differ between two printed graphs, in the order of the graph after the change."""
    old, new = _nodes(before), _nodes(after)
    for key in (_pattern, _flow, _source):
        changed = _changed(old, new, key)
        if changed:
            return changed[:MAX_LINES]
    return ()


def _pattern(node: _PrintedNode) -> str:
    return node.pattern


def _flow(node: _PrintedNode) -> str:
    return node.flow


def _source(node: _PrintedNode) -> str:
    return f"{node.flow}\n{(node.line.text or '').strip()}"


def _nodes(text: str) -> list[_PrintedNode]:
    printed = text.split("\n")
    unplaced = set(_unplaced(printed))
    nodes: list[_PrintedNode] = []
    operators = {name: f"<{name}>" for name, _ in input_names(text)}
    unnamed = dict.fromkeys(operators, "_")
    for line in lines_of(text):
        if len(nodes) >= _MAX_NODES:
            break
        match = _ASSIGNED.match(printed[line.printed - 1])
        value = _FREED.sub("", match["value"] if match else "").strip()
        pattern = _replaced(value, unnamed)
        flow = _replaced(value, operators)
        if line.printed in unplaced:
            line = replace(line, path=None, line=None, function=None, text=None)  # noqa: PLW2901 - that of the node above
        nodes.append(_PrintedNode(line, value, pattern, flow))
        operators[line.name], unnamed[line.name] = f"<{_replaced(line.operator, unnamed)}>", "_"
    return nodes


def _replaced(value: str, names: Mapping[str, str]) -> str:
    """The value with other names of nodes; names of torch and constants stay."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), value)


def _unplaced(printed: Sequence[str]) -> Iterator[int]:
    """1-based numbers of the lines that torch prints without a place in the source."""
    is_unplaced = False
    for number, text in enumerate(printed, 1):
        if text.lstrip().startswith("#"):
            is_unplaced = "No stacktrace found" in text
        elif is_unplaced:
            yield number


def _changed(
    old: Sequence[_PrintedNode], new: Sequence[_PrintedNode], key: Callable[[_PrintedNode], str]
) -> tuple[ChangedLine, ...]:
    old, new = _between_equal_ends(old, new, key)
    matcher = SequenceMatcher(None, list(map(key, old)), list(map(key, new)), autojunk=False)
    lines: dict[tuple[object, ...], ChangedLine] = {}
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        removed, added = _by_line(old[old_start:old_end]), _by_line(new[new_start:new_end])
        for index in range(max(len(removed), len(added))):
            left = removed[index] if index < len(removed) else None
            right = added[index] if index < len(added) else None
            where = right or left
            if where is not None:
                row = ChangedLine(where[0].line.location, _shown(left, right), _shown(right, left))
                lines.setdefault(
                    (row.location and (row.location.path, row.location.line), row.before, row.after), row
                )
    return tuple(lines.values())


def _between_equal_ends(
    old: Sequence[_PrintedNode], new: Sequence[_PrintedNode], key: Callable[[_PrintedNode], str]
) -> tuple[Sequence[_PrintedNode], Sequence[_PrintedNode]]:
    """The nodes without those that both graphs begin and end with; of very many, only the first."""
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and key(old[start]) == key(new[start]):
        start += 1
    end = 0
    while end < shorter - start and key(old[-1 - end]) == key(new[-1 - end]):
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) * len(new) > _MAX_PAIRS:
        return old[:_COMPARED_AT_MAX], new[:_COMPARED_AT_MAX]
    return old, new


def _by_line(nodes: Sequence[_PrintedNode]) -> list[list[_PrintedNode]]:
    """Consecutive nodes of one source line together."""
    groups: list[list[_PrintedNode]] = []
    for node in nodes:
        same = groups and (groups[-1][0].line.path, groups[-1][0].line.line) == (
            node.line.path,
            node.line.line,
        )
        if same:
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _shown(nodes: list[_PrintedNode] | None, others: list[_PrintedNode] | None) -> str | None:
    """The source of the nodes; where it is equal on both sides or not quoted, the operators."""
    if nodes is None:
        return None
    text = (nodes[0].line.text or "").strip()
    other = (others[0].line.text or "").strip() if others else None
    if text and text != other:
        return text
    return "; ".join(node.value for node in nodes[:3])
