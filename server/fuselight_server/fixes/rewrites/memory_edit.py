"""What an edit that may need less memory is, and what the names of a file stand for."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fuselight.shared.report import EditKind
from fuselight_server.fixes.syntax.file_chunks import chunks_of_text
from fuselight_server.fixes.syntax.file_tree import FileTree
from fuselight_server.fixes.syntax.tree import dotted


@dataclass(frozen=True)
class MemoryEdit:
    """One change of one file."""

    kind: EditKind
    title: str
    """What it does, with the code in backticks: `checkpoint `part(x)``."""
    path: str
    line: int
    """The line that changes, 1-based, in the text before it."""
    text: str
    """The whole new text of the file."""


def ordered_calls(tree: FileTree) -> list[cst.Call]:
    """The calls of a file in the order of its text."""
    return sorted((node for node in tree.all() if isinstance(node, cst.Call)), key=tree.range_of)


def imports_of(path: str, text: str) -> dict[str, str]:
    """What the names that a file imports at top level stand for: `F` for `torch.nn.functional`."""
    return {
        imported.name: imported.full
        for chunk in chunks_of_text(path, text)
        for imported in chunk.facts.imports
        if imported.scope == ()
    }


def full_name(imports: dict[str, str], node: cst.BaseExpression) -> str:
    """`torch.nn.functional.relu` for `F.relu`; the name as it is written where nothing imports its first part."""
    first, dot, rest = dotted(node).partition(".")
    return f"{imports.get(first, first)}{dot}{rest}"
