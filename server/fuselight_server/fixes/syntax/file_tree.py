"""A whole file as a syntax tree whose nodes know their lines and parents, for rewrites in several places of it.

Invariant: a new text differs from the old one in the replaced nodes alone. A file that does not parse has no tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

from fuselight_server.fixes.syntax.site import descendants, imported_name, parsed_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from libcst.metadata import CodeRange

_LONGEST = 400_000
"""Characters of a file that is parsed as a whole."""
Change = Callable[[cst.CSTNode], Any]
"""From a node, whose inner nodes have been changed, to what takes its place: a node or a sentinel of LibCST."""


@dataclass(frozen=True)
class FileTree:
    """A parsed file."""

    path: str
    text: str
    module: cst.Module
    ranges: Mapping[cst.CSTNode, CodeRange]
    parents: Mapping[cst.CSTNode, cst.CSTNode]

    @classmethod
    def of(cls, path: str, text: str) -> FileTree | None:
        """Parse a file; None where that fails, or where it is too long."""
        if len(text) > _LONGEST:
            return None
        try:
            return cls(path, text, *parsed_source(text))
        except (cst.ParserSyntaxError, RecursionError, UnicodeError):
            return None

    @property
    def torch(self) -> str:
        """The name that torch has in the file; empty where it is not imported."""
        return imported_name(self.path, self.text, "torch") or ""

    def line(self, node: cst.CSTNode) -> int:
        """First line of a node, 1-based."""
        return self.ranges[node].start.line

    def lines(self, function: cst.FunctionDef) -> range:
        """From the first decorator of a function to the line of its name."""
        first = function.decorators[0] if function.decorators else function
        return range(self.line(first), self.line(function.name) + 1)

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope(self, node: cst.CSTNode) -> cst.CSTNode:
        """The function, class or module whose body a node is in."""
        kinds = (cst.FunctionDef, cst.ClassDef, cst.Module)
        return next(parent for parent in self.above(node) if isinstance(parent, kinds))

    def qualified_name(self, node: cst.FunctionDef | cst.ClassDef) -> str:
        """`Net.forward`."""
        kinds = (cst.FunctionDef, cst.ClassDef)
        names = [parent.name.value for parent in self.above(node) if isinstance(parent, kinds)]
        return ".".join((*reversed(names), node.name.value))

    def all(self, below: cst.CSTNode | None = None) -> Iterator[cst.CSTNode]:
        """Each node of the file, or below a node."""
        return descendants(below or self.module)

    def loads(self, name: str, below: cst.CSTNode | None = None) -> list[cst.Name]:
        """Where a name is read, in the order of the text."""
        names = [node for node in self.all(below) if isinstance(node, cst.Name) and node.value == name]
        return sorted((node for node in names if self._is_load(node)), key=self._start)

    def stores(self, name: str) -> list[cst.Name]:
        """Where a name is bound by an assignment, a parameter, a loop or a definition, in the whole file."""
        names = [node for node in self.all() if isinstance(node, cst.Name) and node.value == name]
        return [node for node in names if not self._is_load(node) and not self._is_label(node)]

    def free_name(self, wanted: str) -> str:
        """A name that is not in the file."""
        taken = {node.value for node in self.all() if isinstance(node, cst.Name)}
        numbered = (f"{wanted}_{number}" for number in range(1, len(taken) + 2))
        return next(name for name in (wanted, *numbered) if name not in taken)

    def names_read(self, node: cst.CSTNode) -> set[str]:
        """Names that the nodes below a node read."""
        return {name.value for name in self.all(node) if isinstance(name, cst.Name) and self._is_load(name)}

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        return self.module.code_for_node(node)

    def is_before(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether a node starts before another one."""
        return self._start(first) < self._start(second)

    def _start(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self.ranges[node].start
        return start.line, start.column

    def _is_label(self, name: cst.Name) -> bool:
        """Whether a name is that of an attribute, of an argument or of an imported module."""
        parent = self.parents.get(name)
        return (
            (isinstance(parent, cst.Attribute) and parent.attr is name)
            or (isinstance(parent, cst.Arg) and parent.keyword is name)
            or any(isinstance(above, (cst.Import, cst.ImportFrom)) for above in self.above(name))
        )

    def _is_load(self, name: cst.Name) -> bool:
        if self._is_label(name):
            return False
        inner: cst.CSTNode = name
        for parent in self.above(name):
            if isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
                inner = parent
                continue
            if isinstance(parent, (cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For, cst.CompFor)):
                return parent.target is not inner
            if isinstance(parent, (cst.FunctionDef, cst.ClassDef)):
                return parent.name is not inner
            if isinstance(parent, cst.Param):
                return parent.name is not inner
            return not isinstance(parent, (cst.AssignTarget, cst.AsName, cst.Del, cst.NameItem))
        return True

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
