"""Edits of a notebook's module as edits of its cells.

Invariant: an edit of the module that would join or divide cells, or change a line that stands for a command of IPython,
is no edit of a cell, and is refused as a whole.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight_server.source.notebooks.module import ModuleCell, NotebookModule

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
SPANS_CELLS = "its change does not fit into a cell"
TOUCHES_COMMAND = "it changes a line with a command of IPython"


class NoCellEditError(Exception):
    """An edit of the module is no edit of a cell. The message says why, after the fix's title and a colon."""


@dataclass(frozen=True)
class CellEdit:
    """Text in the place of a part of a cell. Rows are 0-based; a column of None is the end of the row."""

    cell: ModuleCell
    start: tuple[int, int | None]
    end: tuple[int, int | None]
    text: str


def cell_edit(module: NotebookModule, start: tuple[int, int], end: tuple[int, int], text: str) -> CellEdit:
    """Return an edit from `start` to `end` of the module, lines 1-based, as one of a cell. Raises NoCellEditError."""
    if start == end == (1, 0) and module.cells:  # above the first marker, where an import may go
        start = end = (module.cells[0].first_line, 0)
    cell = _cell_of(module, start, end)
    first = start[0] - cell.first_line
    last = end[0] - cell.first_line
    if first < cell.python.first_row or any(
        row in cell.python.commands for row in _touched(first, last, start, end)
    ):
        raise NoCellEditError(TOUCHES_COMMAND)
    if last < cell.row_count:
        return CellEdit(cell, (first, start[1]), (last, end[1]), text)
    # It ends before the next cell: a line end that the last row does not have.
    if text and not text.endswith("\n"):
        raise NoCellEditError(SPANS_CELLS)
    final = (cell.row_count - 1, None)
    if first == cell.row_count:
        return CellEdit(cell, final, final, f"\n{text[:-1]}")
    if not text and first > 0 and start[1] == 0:
        return CellEdit(cell, (first - 1, None), final, "")
    return CellEdit(cell, (first, start[1]), final, text[:-1])


def _cell_of(module: NotebookModule, start: tuple[int, int], end: tuple[int, int]) -> ModuleCell:
    """The cell that an edit is in; the start of the line after a cell is the end of the cell."""
    place = module.cell_and_row(start[0])
    if place is None and start == end and start[1] == 0:
        place = module.cell_and_row(start[0] - 1)
    if place is None:
        raise NoCellEditError(SPANS_CELLS)
    after = place.cell.last_line + 1
    if end[0] > after or (end[0] == after and end[1] > 0):
        raise NoCellEditError(SPANS_CELLS)
    return place.cell


def _touched(first: int, last: int, start: tuple[int, int], end: tuple[int, int]) -> range:
    """The rows whose text an edit changes: whole rows do not touch the row after them."""
    return range(first, last + (end[1] > 0 or (start == end and start[1] > 0)))


def obstacle(module: NotebookModule, new: str) -> str:
    """Why the text of a module cannot become `new` by edits of its cells; empty where it can."""
    try:
        cell_edits(module, new)
    except NoCellEditError as error:
        return str(error)
    return ""


def cell_edits(module: NotebookModule, new: str) -> tuple[CellEdit, ...]:
    """Return the edits of cells that make the text of a module `new`, in their order. Raises NoCellEditError."""
    before = _LINE.findall(module.text)
    parts = _replaced(before, _LINE.findall(new))
    return tuple(cell_edit(module, (first, 0), (last, 0), text) for first, last, text in parts)


def _replaced(before: list[str], after: list[str]) -> Iterator[tuple[int, int, str]]:
    """The 1-based lines that differ, from the first to before the last, with their new text."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield start + 1, end + 1, "".join(after[new_start:new_end])
