"""Lines of a notebook's module in texts, named by their cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuselight_server.source.notebooks.module import NotebookModule

_MENTION = re.compile(
    r"`[^`]*`|[^\s`'\"()]+\.pyw? on lines? [\d, and-]+|(?:(?P<file>[^\s`'\"()]+\.ipynb) on )?"
    r"\b(?:line (?P<line>\d+)|lines (?P<first>\d+)-(?P<last>\d+))\b"
)


def in_cells(text: str, name: str, module: NotebookModule) -> str:
    """Return a text with the lines of the notebook `name` named by their cells: `line 12` as `cell 3, line 2`."""

    def words(mention: re.Match[str]) -> str:
        if mention["file"] and not mention["file"].endswith(name):
            return mention[0]
        place = module.place(int(mention["line"] or mention["first"] or 0))
        if place is None:
            return mention[0]
        if mention["line"]:
            return place.words
        last = place.row + 1 + int(mention["last"]) - int(mention["first"])
        return f"cell {place.cell.number}, lines {place.row + 1}-{last}"

    return _MENTION.sub(words, text) if "line" in text else text
