"""Edits of a notebook's module as edits of cells: every one that fits, and no other."""

from __future__ import annotations

import pytest

from fuselight.shared.notebooks.cells import Cell
from fuselight_server.source.notebooks.edits import (
    SPANS_CELLS,
    TOUCHES_COMMAND,
    NoCellEditError,
    cell_edit,
    obstacle,
)
from fuselight_server.source.notebooks.module import module_of

CELLS = ("a = 1\nb = 2", "%%time\nc = 3\n!ls\nd = 4", "", "%%bash\nls")
MODULE = module_of(Cell(str(number), "python", text, number) for number, text in enumerate(CELLS))
LINES = MODULE.text.split("\n")


def after(start: tuple[int, int], end: tuple[int, int], text: str) -> tuple[str, str]:
    """The id and the new text of the cell that an edit of the module changes."""
    edit = cell_edit(MODULE, start, end, text)
    lines = CELLS[int(edit.cell.id)].split("\n")
    ends = [(row, len(lines[row]) if column is None else column) for row, column in (edit.start, edit.end)]
    (first, column), (last, end_column) = ends
    return edit.cell.id, "\n".join(
        [*lines[:first], lines[first][:column] + edit.text + lines[last][end_column:], *lines[last + 1 :]]
    )


@pytest.mark.parametrize(
    ("start", "end", "text", "cell", "new"),
    [
        ((2, 4), (2, 5), "7", "0", "a = 7\nb = 2"),
        ((2, 0), (2, 0), "z = 0\n", "0", "z = 0\na = 1\nb = 2"),
        ((2, 0), (3, 0), "", "0", "b = 2"),
        ((3, 0), (4, 0), "b = 3\nc = 4\n", "0", "a = 1\nb = 3\nc = 4"),
        ((3, 0), (4, 0), "", "0", "a = 1"),
        ((2, 0), (4, 0), "x\n", "0", "x"),
        ((2, 0), (4, 0), "", "0", ""),
        ((4, 0), (4, 0), "c = 3\n", "0", "a = 1\nb = 2\nc = 3"),
        ((1, 0), (1, 0), "import torch\n", "0", "import torch\na = 1\nb = 2"),
        ((6, 0), (6, 0), "k = 1\n", "1", "%%time\nk = 1\nc = 3\n!ls\nd = 4"),
        ((8, 0), (9, 0), "d = 5\n", "1", "%%time\nc = 3\n!ls\nd = 5"),
        ((10, 0), (10, 0), "e = 1", "2", "e = 1"),
    ],
)
def test_an_edit_within_a_cell(
    start: tuple[int, int], end: tuple[int, int], text: str, cell: str, new: str
) -> None:
    assert after(start, end, text) == (cell, new)


@pytest.mark.parametrize(
    ("start", "end", "text", "why"),
    [
        ((3, 0), (6, 0), "x\n", SPANS_CELLS),
        ((3, 0), (4, 5), "x\n", SPANS_CELLS),
        ((4, 0), (5, 0), "", SPANS_CELLS),
        ((3, 0), (4, 0), "b = 3", SPANS_CELLS),
        ((50, 0), (50, 0), "x\n", SPANS_CELLS),
        ((7, 0), (8, 0), "x\n", TOUCHES_COMMAND),
        ((6, 0), (8, 0), "x\n", TOUCHES_COMMAND),
        ((7, 4), (7, 4), "x", TOUCHES_COMMAND),
        ((5, 0), (5, 0), "import torch\n", TOUCHES_COMMAND),
        ((12, 0), (12, 0), "x\n", TOUCHES_COMMAND),
    ],
)
def test_an_edit_that_is_none_of_a_cell(
    start: tuple[int, int], end: tuple[int, int], text: str, why: str
) -> None:
    with pytest.raises(NoCellEditError, match=why):
        cell_edit(MODULE, start, end, text)


def test_a_new_text_has_an_obstacle_where_a_part_of_it_fits_into_no_cell() -> None:
    def changed(line: int, *text: str) -> str:
        return "\n".join([*LINES[: line - 1], *text, *LINES[line:]])

    assert obstacle(MODULE, MODULE.text) == ""
    assert obstacle(MODULE, changed(3, "b = 3", "c = 4")) == ""
    assert obstacle(MODULE, changed(4, "joined")) == SPANS_CELLS
    assert obstacle(MODULE, changed(7, "pass; x = 1")) == TOUCHES_COMMAND
