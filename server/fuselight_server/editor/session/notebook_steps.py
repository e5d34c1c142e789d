"""What a run of targets in a notebook does, in words: which cells run, and what is left out.

Invariant: the words come from the same reading of the text that decides in the worker what runs.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.notebooks.module_text import split_module
from fuselight.shared.notebooks.run_selection import select_statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.notebooks.run_selection import LeftOut
    from fuselight_server.editor.session.state import Document

_NAMED = 4
"""Statements that a question names."""


@dataclass(frozen=True)
class NotebookSteps:
    """What runs."""

    cells: str
    """As in `run cells 1 to 3`."""
    left_out: str
    """A sentence with a blank before it; empty where all of these cells runs."""


def notebook_steps(document: Document, names: Iterable[str]) -> NotebookSteps:
    """Say what runs for the targets `names` of a notebook."""
    wanted = set(names)
    lines = [target.def_line for target in document.reading().targets if target.name in wanted]
    text = document.source.text
    firsts = [first for first, _ in split_module(text)]
    last = max(lines, default=document.source.line_count)
    number = bisect.bisect_right(firsts, last)
    left_out = select_statements(text, last).left_out
    words = [_words(item, firsts) for item in left_out[:_NAMED]]
    if len(left_out) > _NAMED:
        words.append(f"{len(left_out) - _NAMED} more statements")
    return NotebookSteps(
        "cell 1" if number <= 1 else f"cells 1 to {number}",
        f" Left out: {'; '.join(words)}." if words else "",
    )


def _words(item: LeftOut, firsts: list[int]) -> str:
    number = bisect.bisect_right(firsts, item.line)
    if item.is_broken:
        return f"cell {number} (does not parse)"
    return f"cell {number}, line {item.line - firsts[number - 1] + 1} ({item.reason})"
