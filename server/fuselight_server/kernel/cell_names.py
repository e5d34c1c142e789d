"""A report of a kernel, with cells in the place of the files that IPython compiled.

Invariant: lines are those of the cell as the user wrote it. Where IPython has joined or dropped lines, a line that it
compiled is that of the same text in the cell, or a line of those that replaced it.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuselight.shared.kernel_cells import CellText
    from fuselight.shared.report import Report

_LINES = ("line", "end_line")
_LINES_OF_FRAME = ("frame_line", "rest_from", "resumed")
"""Lines of the function whose place is next to them."""


@dataclass(frozen=True)
class NamedCell:
    """A cell by the path that stands for it, so that it is shown as `cell [3]`."""

    path: str
    text: str
    lines: Sequence[int]
    """The line in the cell of each line that IPython compiled."""

    def line(self, compiled: int) -> int:
        """The cell's line of a compiled line, both 1-based."""
        return self.lines[min(compiled, len(self.lines)) - 1] if self.lines and compiled > 0 else compiled


def named_cells(cells: Mapping[str, CellText]) -> dict[str, NamedCell]:
    """The cells by the files of their code. A label under the working folder is shown without a folder."""
    folder = Path.cwd()
    return {
        path: NamedCell(str(folder / cell.label), cell.text, _lines(cell.code, cell.text))
        for path, cell in cells.items()
    }


def _lines(code: str, text: str) -> Sequence[int]:
    compiled, written = code.splitlines(), text.splitlines()
    if len(compiled) == len(written):
        return range(1, len(written) + 1)
    lines: list[int] = []
    matcher = difflib.SequenceMatcher(None, compiled, written, autojunk=False)
    for _, start, end, first, last in matcher.get_opcodes():
        lines += (min(first + offset, max(last - 1, first)) + 1 for offset in range(end - start))
    return [max(1, min(line, len(written))) for line in lines]


def with_cell_names(report: Report, cells: Mapping[str, NamedCell]) -> Report:
    """The report with the path and the lines of the cells."""
    renamed: Report = _Renaming(cells).renamed(report)
    return dataclasses.replace(renamed, roots=(*report.roots, str(Path.cwd())))


@dataclass(frozen=True)
class _Renaming:
    cells: Mapping[str, NamedCell]

    def renamed(self, value: Any) -> Any:
        """A value of the report, whatever it holds."""
        if isinstance(value, tuple):
            return tuple(map(self.renamed, value)) if value else value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self.renamed(item) for key, item in value.items()}
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changes = {name: self.renamed(getattr(value, name)) for name in _names(type(value))}
        cell = self.cells.get(getattr(value, "path", ""))
        if cell is not None:
            changes |= {
                name: cell.line(line) for name in _LINES if (line := getattr(value, name, None)) is not None
            }
        changes |= self._lines_of_frame(value)
        return dataclasses.replace(value, **changes)

    def _lines_of_frame(self, value: Any) -> dict[str, int]:
        places = (getattr(value, "location", None), *getattr(value, "stack", ())[:1])
        cell = next(
            (self.cells[place.path] for place in places if getattr(place, "path", "") in self.cells), None
        )
        if cell is None:
            return {}
        lines = ((name, getattr(value, name, None)) for name in _LINES_OF_FRAME)
        return {name: cell.line(line) for name, line in lines if line is not None}

    def _text(self, text: str) -> str:
        """A text with the names of cells: messages of torch have paths."""
        known = self.cells.get(text)
        if known is not None:
            return known.path
        for path, cell in self.cells.items() if self._folder and self._folder in text else ():
            text = text.replace(path, Path(cell.path).name)
        return text

    @functools.cached_property
    def _folder(self) -> str:
        return str(Path(next(iter(self.cells))).parent) if self.cells else ""


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
