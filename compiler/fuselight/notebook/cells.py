"""Which cell a file of code is, as the kernel of a notebook has run it.

Invariant: a cell that IPython no longer knows has no text, rather than that of another cell.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from fuselight.shared.kernel_cells import CellText

_NUMBER = re.compile(r"In\[(\d+)\]$")


class KernelCells:
    """The cells that one shell has run."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def folder(self) -> str | None:
        """The folder of the files of cells; None where cells have no files, as for IPython in a terminal."""
        name = str(self._shell.compile.get_code_name("", "", 0))
        return os.path.dirname(name) if os.path.isabs(name) else None

    def cell(self, path: str) -> CellText | None:
        """The cell whose code is in the file `path`; None for a file of another kind."""
        named = self._shell.compile.format_code_name(path)
        code = "".join(linecache.getlines(path)) if named is not None else ""
        if named is None or not code:
            return None
        match = _NUMBER.match(named[1])
        number = int(match[1]) if match else 0
        # IPython has counted the cell already when it runs code that the cell has made.
        for of_cell in (number, number - 1):
            raw = self._raw(path, code, of_cell)
            if raw is not None:
                return CellText(path, f"cell [{of_cell}]", raw, code)
        return CellText(path, f"code run by cell [{number - 1}]" if number > 1 else "cell", code, code)

    def all(self) -> dict[str, CellText]:
        """Every cell that the shell knows, by the file of its code."""
        folder = self.folder
        paths = [path for path in list(linecache.cache) if folder is not None and path.startswith(folder)]
        cells = (self.cell(path) for path in paths)
        return {cell.path: cell for cell in cells if cell is not None}

    def running(self) -> tuple[CellText, int] | None:
        """The innermost cell on the stack of this thread, and its line."""
        return next(self._running(), None)

    def _running(self) -> Iterator[tuple[CellText, int]]:
        frame = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
        while frame is not None:
            cell = self.cell(frame.f_code.co_filename)
            if cell is not None:
                yield cell, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]

    def _raw(self, path: str, code: str, number: int) -> str | None:
        """The cell as the user wrote it, if the code is all of it, or the part below a magic."""
        history = self._shell.history_manager.input_hist_raw
        raw = str(history[number]) if 0 < number < len(history) else None
        is_whole = raw is not None and self._shell.compile.get_code_name(raw, code, number) == path
        return raw if raw is not None and (is_whole or code.strip() in raw) else None
