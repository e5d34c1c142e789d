"""The text of a notebook that fixes change, which is written back into its cells.

Invariant: as of a file's text, and the file differs in the lines of the cells alone. A new text that is not that of the
written file is an obstacle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.notebooks.cells import SUFFIX, NotebookError
from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight_server.base.diff_text import TextChange
from fuselight_server.fixes.verification.file_texts import FileText
from fuselight_server.source.notebooks.edits import NoCellEditError, cell_edits
from fuselight_server.source.notebooks.file_edits import cell_texts, edited_file
from fuselight_server.source.notebooks.module import NotebookModule, parse_notebook

_NOT_WRITTEN = "its cells cannot be written as text of this form"


@dataclass(frozen=True)
class NotebookText(FileText):
    """A notebook as it was read. `text` is the module of its cells."""

    @classmethod
    def read(cls, path: str) -> NotebookText:
        """Read a notebook. Raises OSError, and NotebookError, a ValueError."""
        data = read_regular(path)
        return cls(path, data, "utf-8", module_of_notebook(data))

    @cached_property
    def _module(self) -> NotebookModule:
        return parse_notebook(self.data)

    def encoded(self, text: str) -> bytes:
        """The content of the file with a text of its module. Raises NoCellEditError and NotebookError."""
        return edited_file(self.data, cell_edits(self._module, text))

    def changes(self, text: str) -> Iterator[TextChange]:
        """What a new text of the module changes, by cell."""
        pairs = zip(cell_texts(self.data), cell_texts(self.encoded(text)), strict=True)
        for number, (old, new) in enumerate(pairs, 1):
            if old != new:
                yield TextChange(f"{self.path}:cell {number}", old, new, is_cell=True)

    def obstacle(self, text: str) -> str:
        """Why a text of the module cannot be written into the file now; empty if it can."""
        try:
            if module_of_notebook(self.encoded(text)) != text:
                return _NOT_WRITTEN
        except (NoCellEditError, NotebookError) as error:
            return str(error)
        return super().obstacle(text)


def text_of_file(path: str) -> FileText | None:
    """The text of a module or a notebook; None if it cannot be read."""
    kind = NotebookText if path.endswith(SUFFIX) else FileText
    try:
        return kind.read(path)
    except (OSError, SyntaxError, ValueError, LookupError):
        return None
