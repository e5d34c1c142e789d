"""The open notebooks: their cells as the client has them, and the one document that each of them is for the session.

Invariant: the text of the document is that of `module`, whose cells have the client's names, after every change. The
session and its results know the document alone; `handlers/notebook_messages.py` translates what crosses the wire.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.notebooks.cells import Cell
from fuselight.shared.notebooks.module_text import module_text
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.notebooks.module import ModuleCell, NotebookModule, module_of
from fuselight_server.source.text_changes import Change


@dataclass
class OpenCell:
    """A cell of an open notebook."""

    document: Document
    """Its own text; the session does not know it."""
    language: str
    is_code: bool = True


class Notebook:
    """An open notebook."""

    def __init__(self, uri: str, path: str | None, version: int, cells: Iterable[OpenCell]) -> None:
        """Start with the cells of the client. `path` is None where it is no file."""
        self.uri = uri
        self.cells = list(cells)
        module = self._current()
        self.document = Document(
            uri=uri,
            path=path or uri,
            version=version,
            source=SourceDocument(path or uri, module.text),
            runnable=path is not None,
            module=module,
        )

    @property
    def module(self) -> NotebookModule:
        """The cells as the document has them."""
        return self.document.module or NotebookModule()

    def cell(self, uri: str) -> OpenCell | None:
        """Return a cell by its URI."""
        return next((cell for cell in self.cells if cell.document.uri == uri), None)

    def _current(self) -> NotebookModule:
        code = [cell for cell in self.cells if cell.is_code]
        return module_of(
            Cell(cell.document.uri, cell.language, cell.document.source.text, number)
            for number, cell in enumerate(code, 1)
        )

    def follow_cells(self) -> list[Change]:
        """Make the text of the document that of the cells; returns how places in it move."""
        new = self._current()
        changes = list(_edits(self.document.source, self.module, new))
        self.document.module = new
        return changes


def _edits(source: SourceDocument, old: NotebookModule, new: NotebookModule) -> Iterator[Change]:
    """Edit cell by cell, the last one first, so that places in other cells stay as they are."""
    ids = [cell.id for cell in old.cells], [cell.id for cell in new.cells]
    matcher = difflib.SequenceMatcher(None, *ids, autojunk=False)
    for kind, start, end, new_start, new_end in reversed(matcher.get_opcodes()):
        if kind == "equal":
            pairs = zip(old.cells[start:end], new.cells[new_start:new_end], strict=True)
            for before, after in reversed(list(pairs)):
                yield from _cell_edits(source, before, after)
        else:
            text = module_text(cell.python for cell in new.cells[new_start:new_end])
            yield source.edit((_marker(old, start), 0), (_marker(old, end), 0), text)


def _cell_edits(source: SourceDocument, old: ModuleCell, new: ModuleCell) -> list[Change]:
    if old.python.lines == new.python.lines:
        return []
    end = (old.last_line, len(source.line_bytes(old.last_line)))
    return source.replace((old.first_line, 0), end, "\n".join(new.python.lines))


def _marker(module: NotebookModule, index: int) -> int:
    """The line of the marker before a cell, or after the last one."""
    if index < len(module.cells):
        return module.cells[index].first_line - 1
    return module.cells[-1].last_line + 1 if module.cells else 1


class OpenNotebooks:
    """All of them, by their own names and by those of their cells."""

    def __init__(self) -> None:
        self._by_uri: dict[str, Notebook] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uri)

    def add_notebook(self, notebook: Notebook) -> None:
        """Take in an opened notebook."""
        self._by_uri[notebook.uri] = notebook

    def remove(self, uri: str) -> Notebook | None:
        """Remove a closed notebook; None if it was not open."""
        return self._by_uri.pop(uri, None)

    def get(self, uri: object) -> Notebook | None:
        """Return a notebook by its URI."""
        return self._by_uri.get(uri) if isinstance(uri, str) else None

    def of_cell(self, uri: object) -> Notebook | None:
        """Return the notebook of a cell in the module."""
        if not isinstance(uri, str):
            return None
        return next((book for book in self._by_uri.values() if book.module.cell(uri) is not None), None)
