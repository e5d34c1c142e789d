"""Names for the lines of notebooks: `train.ipynb:cell 3` as a path, and the lines of its JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.notebooks.cells import SUFFIX, NotebookError
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.commands.sources import read_text
from fuselight_server.source.notebooks.file_edits import file_lines
from fuselight_server.source.notebooks.module import ModuleCell, NotebookModule, module_of_text

_CELL = re.compile(rf"(?P<file>.+{re.escape(SUFFIX)}):cell (?P<number>\d+)$")


@dataclass(frozen=True)
class NamedLine:
    """A line as a user names it: of the target's file, or of its cell in a notebook, unless the cell is named, too."""

    line: int
    cell: int | None = None

    def line_for(self, path: str) -> SourceLine:
        """The line, for a target in the file or the cell `path`."""
        return SourceLine(path if self.cell is None else path_of_cell(cell_of(path)[0], self.cell), self.line)


def cell_path(path: str, cell: ModuleCell) -> str:
    """Name a cell as if it were a file."""
    return path_of_cell(path, cell.number)


def path_of_cell(path: str, number: int) -> str:
    """Name the cell with this number as if it were a file."""
    return f"{path}:cell {number}"


def in_words(line: SourceLine) -> str:
    """`cell 3, line 2`, or `line 2` of a file that is no notebook."""
    number = cell_of(line.path)[1]
    return f"cell {number}, line {line.line}" if number is not None else f"line {line.line}"


def cell_line(path: str, module: NotebookModule, line: int) -> tuple[str, int] | None:
    """Name the cell of a line of the module, and its line in the cell, both 1-based; None for a line of no cell."""
    place = module.cell_and_row(line)
    return (cell_path(path, place.cell), place.row + 1) if place is not None else None


def cell_of(path: str) -> tuple[str, int | None]:
    """The file of a path by `cell_path`, and the number of the cell; the path itself if it is no cell's."""
    match = _CELL.match(path)
    return (match["file"], int(match["number"])) if match is not None else (path, None)


def line_in_file(path: str, line: int) -> tuple[str, int]:
    """The file of a cell's line, and the line of that file that has it; 1 where that is not known."""
    file, number = cell_of(path)
    if number is None:
        return path, line
    rows = _file_lines(file)
    row = rows[number - 1] if number <= len(rows) else ()
    return file, row[line - 1] if line <= len(row) else 1


def lines_in_file(span: Span) -> tuple[int, int]:
    """The first and the last line of a span in its file; of a notebook, those of its JSON."""
    if not span.path.endswith(SUFFIX):
        return span.line, span.last_line
    text = read_text(Path(span.path))
    module = module_of_text(text) if isinstance(text, str) else NotebookModule()
    places = (cell_line(span.path, module, line) for line in (span.line, span.last_line))
    first, last = (line_in_file(*place)[1] if place is not None else 1 for place in places)
    return first, last


def _file_lines(path: str) -> tuple[tuple[int, ...], ...]:
    try:
        return file_lines(read_regular(path))
    except (OSError, NotebookError, UnicodeDecodeError):
        return ()
