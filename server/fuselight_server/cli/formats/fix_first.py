"""The first lines of `check` and `fix`: what to fix first, and which other lines cost as much.

Invariant: nothing is printed where it goes without saying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.formatting import format_target
from fuselight_server.base.option_names import with_options
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.counts import runs_of
from fuselight_server.explain.findings.priority import Priority, advice, more_like_the_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.outcome import CheckOutcome

NO_CHANGE = "Nothing needs a change: the warnings say what to expect."
NO_KNOWN_CHANGE = (
    "No change is known that keeps later calls from compiling again: the warnings say what to expect."
)
NOT_TRIED = "Changes that may keep later calls from compiling again are not tried yet."


def print_first(
    outcome: CheckOutcome, terminal: Terminal, verified: Callable[[Priority], str] = lambda _: ""
) -> None:
    """Print the line to fix first. `verified` names a fix of it that has passed; empty where none has."""
    lines = outcome.priorities
    first = advice(lines)
    if first is None:
        if outcome.needs_no_change:
            words = NO_KNOWN_CHANGE if outcome.recompiles_repeatedly else NO_CHANGE
            is_tried = any(report.trials for report in outcome.reports)
            if words == NO_KNOWN_CHANGE and not is_tried and any(item.cures for item in outcome.findings):
                words = with_options(NOT_TRIED)
            terminal.print((words, "bold"), "\n")
        return
    counted = _counted_in(first) if len(runs_of(outcome.reports)) > 1 else ""
    words = f"{first.words(fix=verified(first), file=shown_path(first.cost.path))}{counted}"
    more = more_like_the_first(
        lines, lambda priority: f"{shown_path(priority.cost.path)}:{priority.cost.line}"
    )
    terminal.print((f"{words}\n{more}" if more else words, "bold"), "\n")


def _counted_in(first: Priority) -> str:
    """The target whose run has the counts, where several were run."""
    return f" (counted in {format_target(first.target)} of {shown_path(first.target_path)})"
