"""A report of a kernel, with cells in the place of the files that IPython compiled.

Invariant: lines are those of the cell as the user wrote it. Where IPython has joined or dropped lines, a line that it
compiled is that of the same text in the cell, or a line of those that replaced it.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.kernel_cells import CellText
from fuselight.shared.report import Report
from fuselight_server.commands.renamed_lines import renamed


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
    folder = str(Path(next(iter(cells))).parent) if cells else ""

    def place(path: str, line: int) -> tuple[str, int] | None:
        cell = cells.get(path)
        return (cell.path, cell.line(line)) if cell is not None else None

    def text(words: str) -> str:
        """A text with the names of cells: messages of torch have paths."""
        known = cells.get(words)
        if known is not None:
            return known.path
        for path, cell in cells.items() if folder and folder in words else ():
            words = words.replace(path, Path(cell.path).name)
        return words

    return dataclasses.replace(renamed(report, place, text), roots=(*report.roots, str(Path.cwd())))
