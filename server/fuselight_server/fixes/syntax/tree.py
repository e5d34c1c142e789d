"""Source as a syntax tree whose nodes know where they are, what is around them, and what a name does in its place.

Invariant: ranges are offsets in the characters of the parsed source. Comments that act on their own line never move.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from libcst.metadata import CodePosition, CodeRange

_KEPT = 4
"""Sources that stay parsed: a file has several findings, and each of their fixes is a new text."""
_KEPT_NODES = 1 << 14
"""Nodes whose children are kept: those of some large functions."""
_TOOLS = re.compile(
    r"#+\s*(?:type:|noqa|pragma|fuselight|fmt:|pylint|ruff|mypy|pyright|nosec|isort|yapf|flake8|NOQA)"
)
"""Comments that act on their own line, so that they cannot move."""


@dataclass(frozen=True)
class SyntaxTree:
    """Parsed source."""

    source: str
    module: cst.Module
    ranges: Mapping[cst.CSTNode, CodeRange]
    parents: Mapping[cst.CSTNode, cst.CSTNode]

    # Places.

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(at.end() for at in re.finditer("\n", self.source))]

    def _offset(self, at: CodePosition) -> int:
        return self._starts[at.line - 1] + at.column

    def range_of(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last offset of a node, its parentheses left out."""
        there = self.ranges[node]
        return self._offset(there.start), self._offset(there.end)

    def outer_range(self, node: cst.BaseExpression) -> tuple[int, int]:
        """First and last offset of an expression with its parentheses."""
        start, end = self.range_of(node)
        if node.lpar:
            start = self.range_of(node.lpar[0])[0]
            end = self.range_of(node.rpar[-1])[1]
        return start, end

    def contains(self, node: cst.CSTNode, offset: int) -> bool:
        """Whether an offset is in a node."""
        start, end = self.range_of(node)
        return start <= offset < end

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node as it is written, its parentheses left out."""
        start, end = self.range_of(node)
        return self.source[start:end]

    def operand(self, node: cst.BaseExpression) -> str:
        """The text of an expression so that an attribute can follow."""
        if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
            return self.code(node)
        return f"({self.code(node)})"

    def operand_of(self, node: cst.BaseExpression) -> str:
        """The text of an expression as the operand of an operator."""
        return self.code(node) if isinstance(node, (cst.Integer, cst.Float)) else self.operand(node)

    # Nodes.

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def is_plain(self, node: cst.CSTNode) -> bool:
        """Whether the node runs once each time that the body of its function reaches it."""
        inner = node
        for parent in self.ancestors(node):
            if isinstance(
                parent,
                (
                    *(cst.FormattedString, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp),
                    *(cst.GeneratorExp, cst.Decorator, cst.Parameters, cst.Annotation, cst.ClassDef),
                ),
            ):
                return False
            if isinstance(parent, cst.FunctionDef):
                return inner is parent.body
            inner = parent
        return False

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function around a node."""
        return next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, cst.FunctionDef)), None
        )

    def line_of(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The line of a simple statement that has the line to itself, None where it shares it."""
        line = next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, cst.SimpleStatementLine)),
            None,
        )
        return line if line is not None and len(line.body) == 1 else None

    # Names.

    def assigned(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression | None]:
        """What a function assigns to a name, None where it binds it in another way than `name = value`."""
        expressions: list[cst.BaseExpression | None] = []
        for node in descendants(function.body):
            if isinstance(node, cst.Name) and node.value == name and self.is_bound_at(node):
                statement = self.parents[self.parents[node]]
                expressions.append(statement.value if isinstance(statement, cst.Assign) else None)
        return expressions

    def loads(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Where a name is read below a node, in the order of the text; of a function: in its body."""
        scope = scope.body if isinstance(scope, cst.FunctionDef) else scope
        names = (node for node in descendants(scope) if isinstance(node, cst.Name) and node.value == name)
        return sorted((node for node in names if self.is_read_at(node)), key=self.range_of)

    def names_bound(self, nodes: Iterable[cst.CSTNode]) -> set[str]:
        """The names that statements bind, nested functions included."""
        children = (descendant for node in nodes for descendant in descendants(node))
        return {child.value for child in children if isinstance(child, cst.Name) and self.is_bound_at(child)}

    def names_read(self, node: cst.CSTNode) -> set[str]:
        """The names that the nodes below a node read."""
        return {
            child.value
            for child in descendants(node)
            if isinstance(child, cst.Name) and self.is_read_at(child)
        }

    def is_declared(self, function: cst.FunctionDef, name: str) -> bool:
        """Whether a function says that a name is of the module or of a function around it."""
        declared = (
            descendant
            for descendant in descendants(function.body)
            if isinstance(descendant, (cst.Global, cst.Nonlocal))
        )
        return any(item.name.value == name for node in declared for item in node.names)

    def is_read_at(self, name: cst.Name) -> bool:
        """Whether a name is read there."""
        return not self.is_label(name) and not self.is_bound_at(name)

    def is_label(self, name: cst.Name) -> bool:
        """Whether a name is that of an attribute, of a keyword argument or of an imported module."""
        parent = self.parents.get(name)
        return (
            (isinstance(parent, cst.Attribute) and parent.attr is name)
            or (isinstance(parent, cst.Arg) and parent.keyword is name)
            or any(isinstance(ancestor, (cst.Import, cst.ImportFrom)) for ancestor in self.ancestors(name))
        )

    def is_bound_at(self, name: cst.Name) -> bool:
        """Whether a name is the target of a binding there: of an assignment, a definition, a parameter, an import."""
        inner: cst.CSTNode = name
        for parent in self.ancestors(name):
            if isinstance(parent, cst.Attribute) and parent.value is inner and self._is_imported(parent):
                inner = parent  # `import torch.nn` binds `torch`
                continue
            if isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
                inner = parent
                continue
            if isinstance(parent, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor)):
                return parent.target is inner
            if isinstance(parent, (cst.FunctionDef, cst.ClassDef, cst.Param, cst.MatchAs, cst.MatchStar)):
                return parent.name is inner
            if isinstance(parent, cst.ImportAlias):
                return parent.name is inner and parent.asname is None
            return isinstance(parent, (cst.AssignTarget, cst.AsName, cst.Del, cst.NameItem))
        return False

    def _is_imported(self, path: cst.Attribute) -> bool:
        return any(isinstance(ancestor, cst.ImportAlias) for ancestor in self.ancestors(path))

    # Layout.

    @cached_property
    def newline(self) -> str:
        """The line end of the chunk."""
        return "\r\n" if "\r\n" in self.source else "\n"

    def indentation(self, node: cst.CSTNode) -> str | None:
        """The blanks before a statement, None where something else precedes it on its line."""
        start = self.range_of(node)[0]
        before = self.source[self.source.rfind("\n", 0, start) + 1 : start]
        return before if not before.strip(" \t") else None

    def step(self, node: cst.CSTNode) -> str:
        """One level of indentation, as the innermost block around a node uses it."""
        block = next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, cst.IndentedBlock)), None
        )
        return (block.indent if block is not None else None) or self.module.default_indent

    def comments(self, start: int, end: int) -> list[str] | None:
        """The comments between two offsets, in order; None if one of them acts on its line and so cannot move."""
        comments = sorted(
            (self.range_of(node)[0], node.value)
            for node in self.parents
            if isinstance(node, cst.Comment) and start <= self.range_of(node)[0] < end
        )
        texts = [text for _, text in comments]
        return None if any(_TOOLS.match(text) for text in texts) else texts

    def end_of_line(self, offset: int) -> int:
        """Offset of the line end after `offset`."""
        end = self.source.find("\n", offset)
        end = len(self.source) if end < 0 else end
        return end - 1 if self.source[end - 1 : end] == "\r" else end

    def free_name(self, node: cst.CSTNode, wanted: str) -> str:
        """A name that does not occur in the function around a node."""
        function = self.function(node) or self.module
        taken = {descendant.value for descendant in descendants(function) if isinstance(descendant, cst.Name)}
        return next(
            name
            for name in (wanted, *(f"{wanted}_{number}" for number in range(1, len(taken) + 2)))
            if name not in taken
        )


@functools.lru_cache(maxsize=_KEPT_NODES)
def children_of(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes directly below a node, which LibCST finds by a visit of the whole node each time."""
    return tuple(node.children)


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes below it."""
    waiting = [node]
    while waiting:
        descendant = waiting.pop()
        yield descendant
        waiting += children_of(descendant)


def calls_in(node: cst.CSTNode) -> list[cst.Call]:
    """The calls in a node, itself included."""
    return [descendant for descendant in descendants(node) if isinstance(descendant, cst.Call)]


def is_flag(node: cst.BaseExpression) -> bool:
    """Whether an expression is `True` or `False`."""
    return isinstance(node, cst.Name) and node.value in {"True", "False"}


def dotted(node: cst.BaseExpression) -> str:
    """`torch.nn.Linear` for such an expression, empty for any other."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join((node.value, *reversed(parts))) if isinstance(node, cst.Name) else ""


_Parsed = tuple[cst.Module, "Mapping[cst.CSTNode, CodeRange]", "Mapping[cst.CSTNode, cst.CSTNode]"]


@functools.lru_cache(maxsize=_KEPT)
def parsed_source(source: str) -> _Parsed:
    """A chunk, the ranges of its nodes and the parent of each. Raises ParserSyntaxError or RecursionError."""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    waiting: list[cst.CSTNode] = [wrapper.module]
    while waiting:
        node = waiting.pop()
        for child in children_of(node):
            parents[child] = node
            waiting.append(child)
    return wrapper.module, wrapper.resolve(PositionProvider), parents
