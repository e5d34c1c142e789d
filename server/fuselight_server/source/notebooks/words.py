"""Lines of a notebook's module in texts, named by their cells."""

from __future__ import annotations

import re

from fuselight_server.source.notebooks.module import NotebookModule

_MENTION = re.compile(
    r"`[^`]*`|[^\s`'\"()]+\.pyw? on lines? [\d, and-]+|(?P<file>[^\s`'\"()]+\.ipynb):(?P<row>\d+)(?::\d+)?"
    r"|(?:(?P<named>[^\s`'\"()]+\.ipynb) on )?\b(?:line (?P<line>\d+)|lines (?P<first>\d+)-(?P<last>\d+))\b"
)
"""Quoted code, lines of Python files, and lines of a notebook's module: `n.ipynb:3`, `n.ipynb on line 3`, `line 3`."""


def in_cells(text: str, name: str, module: NotebookModule, *, is_own: bool = True) -> str:
    """Return a text with the lines of the notebook `name` named by their cells: `line 12` as `cell 3, line 2`.

    `is_own`: whether a line without the name of a file is one of the notebook.
    """

    def words(mention: re.Match[str]) -> str:
        file = mention["file"] or mention["named"]
        if (file and not file.endswith(name)) or not (file or is_own):
            return mention[0]
        place = module.cell_and_row(int(mention["row"] or mention["line"] or mention["first"] or 0))
        if place is None:
            return mention[0]
        if mention["row"]:
            return f"{mention['file']}, {place.words}"
        if mention["line"]:
            return place.words
        last = place.row + 1 + int(mention["last"]) - int(mention["first"])
        return f"cell {place.cell.number}, lines {place.row + 1}-{last}"

    return _MENTION.sub(words, text) if "line" in text or ".ipynb:" in text else text
