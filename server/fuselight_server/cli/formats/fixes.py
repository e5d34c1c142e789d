"""The fixes of `fuselight fix`, as a table and as JSON.

Invariant: each remedy that was considered has one row, which says what became of it and why.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.cli.formats.fix_first import print_first
from fuselight_server.cli.formats.json import SCHEMA, fix_first_as_json, problems_as_json
from fuselight_server.commands.fix import FixStatus
from fuselight_server.commands.sources import shown_path

if TYPE_CHECKING:
    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.fix import Attempt, FindingRefusal, FixOutcome

_HEADER = ("place", "code", "fix", "result", "why")


def print_fixes(outcome: FixOutcome, terminal: Terminal, *, diff_shown: bool) -> None:
    """Print which line to fix first, a table of the attempts, and how many there are of each result."""
    print_first(outcome.checked, terminal, outcome.verified_fix)
    attempts = outcome.attempts
    if attempts:
        terminal.print_table([_HEADER, *map(_row, attempts)])
    for note in dict.fromkeys(note for one in attempts for note in one.notes):
        terminal.print(f"note: {note}")
    totals = [
        f"{number} {status.value}"
        for status in FixStatus
        if (number := sum(one.status is status for one in attempts))
    ]
    terminal.print(
        (
            f"{format_count(len(attempts), 'fix', 'fixes')}: {format_list(totals)}."
            if attempts
            else "No fix.",
            "bold",
        )
    )
    for refused in dict.fromkeys(map(_refused, outcome.refusals)):
        terminal.print(f"not offered: {refused}")
    if outcome.unsolved:
        terminal.print(f"{format_count(outcome.unsolved, 'finding')} without a known fix.")
    if any(one.status is FixStatus.PASSED for one in attempts):
        shows = "" if diff_shown else "--diff shows the changes, "
        terminal.print(
            f"No file has changed: {shows}--write makes {'the changes' if diff_shown else 'them'}."
        )


def _row(one: Attempt) -> tuple[str, ...]:
    place = f"{shown_path(one.finding.span.path)}:{one.line}"
    return (place, one.finding.code, one.remedy.title, one.status.value, _why(one))


def _why(one: Attempt) -> str:
    """`3 -> 1 graphs, same results`, or the other count that falls."""
    if one.graphs is None or one.status not in {FixStatus.PASSED, FixStatus.WRITTEN}:
        return one.why
    if one.effect and one.graphs[1] >= one.graphs[0]:
        return f"{one.effect.replace('→', '->')}, {one.why}"
    return f"{one.graphs[0]} -> {format_count(one.graphs[1], 'graph')}, {one.why}"


def _refused(one: FindingRefusal) -> str:
    """`m.py:3: Use torch.where: ...`, in the line numbers of the last text."""
    span = one.finding.span
    return f"{shown_path(span.path)}:{span.line}: {one.refusal.title}: {one.refusal.reason}"


def fixes_as_json(outcome: FixOutcome) -> str:
    """The outcome as JSON text (docs/fixes.md)."""
    data = {
        "schema": SCHEMA,
        "fix_first": fix_first_as_json(outcome.checked, "", outcome.verified_fix),
        "fixes": [_fix(one) for one in outcome.attempts],
        "unsolved": outcome.unsolved,
        "refusals": [_refusal(one) for one in outcome.refusals],
        "diff": outcome.diff,
        "problems": problems_as_json(outcome.checked),
    }
    return json.dumps(data, indent=2)


def _refusal(one: FindingRefusal) -> dict[str, Any]:
    return {
        "path": one.finding.span.path,
        "line": one.finding.span.line,
        "code": one.finding.code,
        "kind": one.refusal.kind,
        "title": one.refusal.title,
        "reason": one.refusal.reason,
    }


def _fix(one: Attempt) -> dict[str, Any]:
    return {
        "path": one.finding.span.path,
        "line": one.line,
        "code": one.finding.code,
        "target": one.finding.target,
        "kind": one.remedy.kind,
        "title": one.remedy.title,
        "class": (one.fix_class if one.has_passed else one.remedy.fix_class).value,
        "changes": one.remedy.changes,
        "files": sorted(one.remedy.texts),
        "status": one.status.value,
        "why": one.why,
        "graphs_before": one.graphs[0] if one.graphs else None,
        "graphs_after": one.graphs[1] if one.graphs else None,
        "notes": list(one.notes),
        "excepted": list(one.excepted),
        "cases": {
            "tried": list(one.tried),
            "not_accepted": list(one.not_accepted),
            "not_reached": list(one.not_reached),
        },
    }
