"""The text of a notebook's cells as one module.

Invariant: each code cell is a marker line and then as many lines as the cell has, so that the text alone shows where
cells begin, and a line of the module is a line of a cell for as long as neither changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from fuselight.shared.notebooks.cells import PYTHON, Cell, read_python_cells
from fuselight.shared.notebooks.commands import MARKER, PythonCell, python_of


def python_of_cell(cell: Cell) -> PythonCell:
    """Return the Python of a cell; empty lines for a cell of another language."""
    python = python_of(cell.text)
    if cell.language == PYTHON:
        return python
    empty = ("",) * len(python.lines)
    return PythonCell(empty, frozenset(range(len(empty))), len(empty), cell.language)


def module_text(cells: Iterable[PythonCell]) -> str:
    """Join the cells of a notebook."""
    return "".join(f"{MARKER}\n{cell_text(cell)}" for cell in cells)


def cell_text(cell: PythonCell) -> str:
    """Return a cell as it is in the text of the module, after its marker."""
    return "".join(f"{line}\n" for line in cell.lines)


def module_of_notebook(data: str | bytes) -> str:
    """Return the cells of a notebook file as one module. Raises NotebookError."""
    return module_text(map(python_of_cell, read_python_cells(data)))


def split_module(text: str) -> Iterator[tuple[int, list[str]]]:
    """Return the lines of each cell in the text of a module, with the 1-based line of the first of them.

    A text without markers, as JupyterLab joins the cells of a notebook, is one cell.
    """
    lines = text.split("\n")
    starts = [row for row, line in enumerate(lines) if line == MARKER]
    if text and not starts:
        yield 1, lines
    for start, end in itertools.pairwise([*starts, len(lines)]):
        yield start + 2, lines[start + 1 : end]
