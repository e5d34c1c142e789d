"""A whole file as a syntax tree for rewrites in several places of it.

Invariant: a new text differs from the old one in the replaced nodes alone. A file that does not parse has no tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import libcst as cst

from fuselight_server.fixes.syntax.file_chunks import imported_name
from fuselight_server.fixes.syntax.tree import SyntaxTree, descendants, parsed_source

_LONGEST = 400_000
"""Characters of a file that is parsed as a whole."""
Change = Callable[[cst.CSTNode], Any]
"""From a node, whose inner nodes have been changed, to what takes its place: a node or a sentinel of LibCST."""


@dataclass(frozen=True)
class FileTree(SyntaxTree):
    """A parsed file."""

    path: str

    @classmethod
    def of(cls, path: str, text: str) -> FileTree | None:
        """Parse a file; None where that fails, or where it is too long."""
        if len(text) > _LONGEST:
            return None
        try:
            return cls(text, *parsed_source(text), path=path)
        except (cst.ParserSyntaxError, RecursionError, UnicodeError):
            return None

    @property
    def torch(self) -> str:
        """The name that torch has in the file; empty where it is not imported."""
        return imported_name(self.path, self.source, "torch") or ""

    def line(self, node: cst.CSTNode) -> int:
        """First line of a node, 1-based."""
        return self.ranges[node].start.line

    def lines(self, function: cst.FunctionDef) -> range:
        """From the first decorator of a function to the line of its name."""
        first = function.decorators[0] if function.decorators else function
        return range(self.line(first), self.line(function.name) + 1)

    def scope(self, node: cst.CSTNode) -> cst.CSTNode:
        """The function, class or module whose body a node is in."""
        kinds = (cst.FunctionDef, cst.ClassDef, cst.Module)
        return next(parent for parent in self.ancestors(node) if isinstance(parent, kinds))

    def qualified_name(self, node: cst.FunctionDef | cst.ClassDef) -> str:
        """`Net.forward`."""
        kinds = (cst.FunctionDef, cst.ClassDef)
        names = [parent.name.value for parent in self.ancestors(node) if isinstance(parent, kinds)]
        return ".".join((*reversed(names), node.name.value))

    def all(self, below: cst.CSTNode | None = None) -> Iterator[cst.CSTNode]:
        """Each node of the file, or below a node."""
        return descendants(below or self.module)

    def stores(self, name: str) -> list[cst.Name]:
        """Where a name is bound, in the whole file."""
        names = [node for node in self.all() if isinstance(node, cst.Name) and node.value == name]
        return [node for node in names if self.is_bound_at(node)]

    def is_before(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether a node starts before another one."""
        return self.range_of(first) < self.range_of(second)

    def changed(self, changes: Mapping[cst.CSTNode, Change]) -> str | None:
        """The text with some nodes replaced; None where the result does not parse."""
        new = self.module.visit(_Replacing(changes))
        text = new.code if isinstance(new, cst.Module) else ""
        try:
            cst.parse_module(text)
        except (cst.ParserSyntaxError, RecursionError):
            return None
        return text


class _Replacing(cst.CSTTransformer):
    """Replaces nodes by what their changes make of them, after the nodes below them."""

    def __init__(self, changes: Mapping[cst.CSTNode, Change]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Apply the change of a node."""
        change = self._changes.get(original_node)
        new: cst.CSTNodeT | cst.FlattenSentinel[cst.CSTNodeT] = updated_node
        if change is not None:
            new = change(updated_node)
        return new
