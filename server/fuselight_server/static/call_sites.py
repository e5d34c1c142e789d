"""Where a call in the user's source gets one argument, and before which statement something may be put.

Invariant: an answer means that the statement, the call and the argument's plain name are beyond doubt, and that a new
statement above runs just before the call and under the same conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from libcst.metadata import CodePosition, CodeRange


@dataclass(frozen=True)
class CallSite:
    """`argument` is passed in the statement that starts on `line`, 1-based in the source that was given."""

    line: int
    argument: str


_HEADED = (cst.If, cst.For, cst.With)
"""Statements whose header is evaluated once, so that something can stand above it."""
_BARRIERS = (
    *(cst.IndentedBlock, cst.SimpleStatementSuite, cst.While, cst.Match, cst.Decorator, cst.Parameters),
    *(cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation),
)
"""Inside them the statement outside is no place to insert: what is in them runs again, later, or not at all."""


def call_site(
    source: str,
    line: int,
    *,
    parameter: str,
    parameters: Sequence[str],
    callee: str | None = None,
    column: int | None = None,
    end_column: int | None = None,
) -> CallSite | None:
    """The one call on `line` that passes something for `parameter`, if that is a plain name.

    `callee`: the last part of its name. `column` and `end_column`: the bytes of its line where it starts and ends; a
    call is then known for certain.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        finder = _Finder(source, line, wrapper.resolve(PositionProvider), parameter, tuple(parameters))
        wrapper.module.visit(finder)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    found = finder.found
    exact = [one for one in found if (one.column, one.end_column) == (column, end_column)]
    named = [one for one in found if one.callee == callee]
    sites = {one.site for one in exact or named or found}
    return sites.pop() if len(sites) == 1 else None


@dataclass(frozen=True)
class _FoundArgument:
    """A call that passes something for the parameter; `site` is None when that has no name."""

    callee: str
    column: int
    end_column: int
    site: CallSite | None


class _Finder(cst.CSTVisitor):
    def __init__(
        self,
        source: str,
        line: int,
        ranges: Mapping[cst.CSTNode, CodeRange],
        parameter: str,
        parameters: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.found: list[_FoundArgument] = []
        self._rows = source.split("\n")
        self._line = line
        self._ranges = ranges
        self._parameter = parameter
        self._parameters = parameters
        self._anchors: list[int | None] = [None]
        """Line of the statement above which to insert, None where that is not possible."""
        self._elif: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            self._elif.add(node.orelse)
        if isinstance(node, cst.SimpleStatementLine) or (
            isinstance(node, _HEADED) and node not in self._elif
        ):
            self._anchors.append(self._ranges[node].start.line)
        elif isinstance(node, (*_HEADED, *_BARRIERS)):
            self._anchors.append(None)
        elif isinstance(node, cst.Call):
            self._look_at(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.SimpleStatementLine, *_HEADED, *_BARRIERS)):
            self._anchors.pop()

    def _look_at(self, call: cst.Call) -> None:
        place, anchor = self._ranges[call], self._anchors[-1]
        if anchor is None or not place.start.line <= self._line <= place.end.line:
            return
        argument = self._argument(call.args)
        if argument is not None:
            site = CallSite(anchor, argument.value) if isinstance(argument, cst.Name) else None
            self.found.append(
                _FoundArgument(_last_name(call.func), self._bytes(place.start), self._bytes(place.end), site)
            )

    def _bytes(self, at: CodePosition) -> int:
        return len(self._rows[at.line - 1][: at.column].encode())

    def _argument(self, arguments: Sequence[cst.Arg]) -> cst.BaseExpression | None:
        value: cst.BaseExpression | None = None
        for index, argument in enumerate(arguments):
            if argument.keyword is not None:
                if argument.keyword.value == self._parameter:
                    value = argument.value
            elif argument.star:
                return None
            elif index < len(self._parameters) and self._parameters[index] == self._parameter:
                value = argument.value
        return value


def _last_name(function: cst.BaseExpression) -> str:
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""
