"""The nodes of a printed graph, with the source lines that torch names.

Invariant: torch prints only the innermost line of each node, and only where it changes: a node without a line of its
own has that of the node above. The text of the line is what the job ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.report import Location
from fuselight_server.jobs.trace_log.model import LoggedGraph
from fuselight_server.jobs.trace_log.payloads import read_text

_FILE = re.compile(
    r"^\s*#.*?\bFile: (?P<path>.+?):(?P<line>\d{1,9})(?: in (?P<function>[^,\n]+))?(?:, code: (?P<text>.*))?$"
)
_NODE = re.compile(r"^\s+(?P<name>[A-Za-z_]\w*)(?:: \"(?P<type>[^\"]*)\")? = (?P<value>.+)$")
_CALL = re.compile(r"(?P<operator>[A-Za-z_][\w.]*)\(")
_INFIX = re.compile(r"[\w.()-]+ (?P<operator>[-+*/%@&|^<>=!]{1,2}) ")
_ITEM = re.compile(r"[\w.]+\[")
_PREFIX = re.compile(r"[-~](?=\w)")
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class GraphLine:
    """A node of a printed graph. `path` and `line` are None where torch names no source line above it."""

    path: str | None
    line: int | None
    function: str | None
    text: str | None
    """The line of source as the job ran it."""
    name: str
    operator: str
    """As printed: `torch.ops.aten.addmm.default`, `torch.relu`, `linear.relu`, `+`; `getitem` for a subscript."""
    type: str | None
    """Shape and dtype as printed: `f32[4, 4][4, 1]cpu`."""
    printed: int
    """1-based line in the text of the graph."""

    @property
    def location(self) -> Location | None:
        """The line of source, with its path in the job."""
        if self.path is None or self.line is None:
            return None
        return Location(self.path, self.line, function=self.function)


def read_lines(graph: LoggedGraph) -> tuple[GraphLine, ...]:
    """The nodes of a graph of a log. Raises LogError."""
    return tuple(lines_of(read_text(graph.payload)))


def lines_of(text: str) -> Iterator[GraphLine]:
    """The nodes in a printed graph, in order; inputs and outputs are none."""
    path = line = function = quoted = None
    for number, printed in enumerate(text.split("\n"), 1):
        if len(printed) > _LONGEST:
            printed = printed[:_LONGEST]  # noqa: PLW2901 - the start names the operator
        source = _FILE.match(printed)
        if source is not None:
            path, line = source["path"], int(source["line"])
            function, quoted = source["function"], source["text"]
            continue
        node = _NODE.match(printed)
        operator = None if node is None else _operator(node["value"])
        if node is not None and operator is not None:
            yield GraphLine(path, line, function, quoted, node["name"], operator, node["type"], number)


def _operator(value: str) -> str | None:
    """The operator of a printed value; None for a renamed input or an attribute."""
    call = _CALL.match(value)
    if call is not None:
        return None if call["operator"].startswith("fx_pytree.") else call["operator"]
    infix = _INFIX.match(value)
    if infix is not None:
        return infix["operator"]
    if _ITEM.match(value):
        return "getitem"
    return value[0] if _PREFIX.match(value) else None
