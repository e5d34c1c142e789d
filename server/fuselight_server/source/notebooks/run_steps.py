"""What a run of targets in a notebook does, in words: which cells run, and what is left out.

Invariant: the words come from the same reading of the text that decides in the worker what runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fuselight.shared.notebooks.run_selection import LeftOut, select_statements
from fuselight_server.source.notebooks.module import NotebookModule
from fuselight_server.source.reading import Reading

_NAMED = 4
"""Statements that a question names."""


@dataclass(frozen=True)
class NotebookSteps:
    """What runs."""

    cells: str
    """As in `run the cells up to cell 3 of n.ipynb`."""
    left_out: str
    """A sentence with a blank before it; empty where all of these cells run."""


def notebook_steps(module: NotebookModule, reading: Reading, names: Iterable[str]) -> NotebookSteps:
    """Say what runs for the targets `names` of a notebook."""
    wanted = set(names)
    lines = [target.def_line for target in reading.targets if target.name in wanted]
    last = max(lines, default=module.cells[-1].first_line)
    place = module.cell_and_row(last)
    number = place.cell.number if place is not None else module.cells[-1].number
    left_out = select_statements(module.text, last).left_out
    words = [_words(item, module) for item in left_out[:_NAMED]]
    if len(left_out) > _NAMED:
        words.append(f"{len(left_out) - _NAMED} more statements")
    return NotebookSteps(
        "the cell" if module.cells[0].number == number else f"the cells up to cell {number}",
        f" Left out: {'; '.join(words)}." if words else "",
    )


def _words(item: LeftOut, module: NotebookModule) -> str:
    place = module.cell_and_row(item.line)
    if place is None:
        return item.reason
    if item.is_broken:
        return f"cell {place.cell.number} (does not parse)"
    return f"{place.words} ({item.reason})"
