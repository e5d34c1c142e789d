"""The cells of a notebook as one module, with a map between its lines and those of the cells.

Invariant: each line of a Python cell is a line of the module, in the order of the cells, and columns are the same.
Lines of the module are 1-based, rows of a cell 0-based. The marker line before each cell belongs to no cell.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from fuselight.shared.notebooks.cells import Cell, read_python_cells
from fuselight.shared.notebooks.commands import PythonCell
from fuselight.shared.notebooks.module_text import module_text, python_of_cell, split_module
from fuselight.shared.notebooks.run_selection import broken_cells


@dataclass(frozen=True)
class ModuleCell:
    """A code cell in the module."""

    id: str
    number: int
    """As `Cell.number`."""
    first_line: int
    """The line of the module that is its first row."""
    python: PythonCell

    @property
    def row_count(self) -> int:
        """The number of its rows; at least 1."""
        return len(self.python.lines)

    @property
    def last_line(self) -> int:
        """The line of the module that is its last row."""
        return self.first_line + self.row_count - 1


@dataclass(frozen=True)
class CellPlace:
    """A row of a cell."""

    cell: ModuleCell
    row: int
    """0-based."""

    @property
    def words(self) -> str:
        """As in messages: `cell 3, line 2`."""
        return f"cell {self.cell.number}, line {self.row + 1}"


@dataclass(frozen=True)
class CellNote:
    """Why a cell, or a part of it, is no part of the program."""

    line: int
    """Of the module."""
    message: str
    """In words that follow `cell 3`: `does not parse: invalid syntax`."""


@dataclass(frozen=True)
class NotebookModule:
    """A notebook as a module."""

    cells: tuple[ModuleCell, ...] = ()

    @cached_property
    def text(self) -> str:
        """The text of the module; empty for a notebook without code cells."""
        return module_text(cell.python for cell in self.cells)

    @cached_property
    def _first_lines(self) -> list[int]:
        return [cell.first_line for cell in self.cells]

    @cached_property
    def _by_id(self) -> dict[str, ModuleCell]:
        return {cell.id: cell for cell in self.cells}

    def cell(self, cell_id: str) -> ModuleCell | None:
        """Return the cell with an id."""
        return self._by_id.get(cell_id)

    def cell_and_row(self, line: int) -> CellPlace | None:
        """Return the cell and the row of a line of the module; None for a marker and beyond the last cell."""
        index = bisect.bisect_right(self._first_lines, line) - 1
        if index < 0 or line > self.cells[index].last_line:
            return None
        return CellPlace(self.cells[index], line - self.cells[index].first_line)

    def line(self, cell_id: str, row: int) -> int | None:
        """Return the line of the module that is a row of a cell; None for an unknown cell, and beyond its rows."""
        cell = self.cell(cell_id)
        return cell.first_line + row if cell is not None and 0 <= row < cell.row_count else None

    @cached_property
    def notes(self) -> tuple[CellNote, ...]:
        """The cells that are no part of the program, in their order."""
        notes = [CellNote(cell.line, cell.reason) for cell in broken_cells(self.text)]
        notes += (
            CellNote(cell.first_line, f"is not Python but `{cell.python.other}`")
            for cell in self.cells
            if cell.python.other
        )
        return tuple(sorted(notes, key=lambda note: note.line))


def module_of(cells: Iterable[Cell]) -> NotebookModule:
    """Return the module of the code cells of a notebook, in their order."""
    placed: list[ModuleCell] = []
    line = 2
    for cell in cells:
        placed.append(ModuleCell(cell.id, cell.number, line, python_of_cell(cell)))
        line = placed[-1].last_line + 2
    return NotebookModule(tuple(placed))


def module_of_text(text: str) -> NotebookModule:
    """Return the module with a text, whose cells have no commands: that is known of their notebook alone."""
    parts = list(split_module(text))
    cells = []
    for number, (line, lines) in enumerate(parts, 1):
        rows = lines[:-1] if number == len(parts) and lines[-1:] == [""] else lines
        cells.append(ModuleCell(str(number), number, line, PythonCell(tuple(rows))))
    return NotebookModule(tuple(cells))


def parse_notebook(data: str | bytes) -> NotebookModule:
    """Return the module of the content of a notebook file. Raises NotebookError, which says what is wrong with it."""
    return module_of(read_python_cells(data))
