"""A comparison of two jobs in the terminal and as JSON: regressions first, then improvements, then what else differs.

Invariant: each difference is printed once. An empty part is not printed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from fuselight_server.cli.formats.findings import print_blocks
from fuselight_server.commands.sources import shown_path
from fuselight_server.jobs.comparison.data import comparison_as_data
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingState
from fuselight_server.jobs.comparison.rows import change_rows, condition_row, summary

if TYPE_CHECKING:
    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.comparison import ComparedJobs
    from fuselight_server.commands.opened_job import OpenedJob

_HEADINGS = {
    ChangeVerdict.REGRESSION: ("Regressions", "bold red"),
    ChangeVerdict.IMPROVEMENT: ("Improvements", "bold green"),
    ChangeVerdict.CHANGE: ("Other differences", "bold"),
}


def print_comparison(compared: ComparedJobs, terminal: Terminal) -> None:
    """Print what differs, the regressions first with the source of new findings."""
    comparison = compared.comparison
    terminal.print((_heading(compared), "bold"))
    for change in comparison.conditions:
        terminal.print(f"  {condition_row(change)}")
    parts = [_print_part(compared, verdict, terminal) for verdict in _HEADINGS]
    terminal.print("")
    for note in comparison.notes:
        terminal.print((f"note: {note}", "dim"))
    if not any(parts):
        terminal.print(("No differences.", "bold green"))
    terminal.print((summary(comparison), "bold"))


def _print_part(compared: ComparedJobs, verdict: ChangeVerdict, terminal: Terminal) -> bool:
    """Print the differences with a verdict; returns whether there are any."""
    new = [
        change.finding
        for change in compared.comparison.findings_in(FindingState.NEW)
        if change.verdict is verdict
    ]
    rows = list(change_rows(compared.comparison, verdict, shown_path))
    if not new and not rows:
        return False
    terminal.print("\n", _HEADINGS[verdict], "\n" if new else "")
    print_blocks(new, compared.outcome.sources, terminal)
    for row in rows:
        terminal.print(f"  {row}")
    return True


def _heading(compared: ComparedJobs) -> str:
    """`Job today against yesterday`; with their folders where both have the same name."""
    names = [compared.job.name, compared.base.name]
    if names[0] == names[1]:
        names = [f"{opened.name} ({_folder(opened)})" for opened in (compared.job, compared.base)]
    return f"Job {names[0]} against {names[1]}"


def _folder(opened: OpenedJob) -> str:
    return shown_path(os.path.dirname(opened.processes[0].log.file))  # noqa: PTH120 - paths stay text


def comparison_as_json(compared: ComparedJobs) -> str:
    """The comparison as one JSON object."""
    return json.dumps(comparison_as_data(compared.comparison), indent=2)
