"""`fuselight forecast` as JSON (docs/forecast.md), and for people: a table of changes, then what to do.

Invariant: nothing is shown by color alone, and a function without a forecast is not said to need no compile.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fuselight.codec import encode
from fuselight_server.cli.formats.text_parts import print_heading, print_problems, shown_line
from fuselight_server.finding import SourceLine
from fuselight_server.findings.context import Context
from fuselight_server.findings.forecasts import expected_changes, has_unasked_parts
from fuselight_server.formatting import format_count

if TYPE_CHECKING:
    from fuselight.report import Report
    from fuselight_server.cli.outcome import CheckOutcome
    from fuselight_server.cli.terminal import Terminal
    from fuselight_server.findings.forecasts import ExpectedChange

_MOST_REMEDIES = 8
"""Remedies that are printed of one target."""
_LONGEST = 60
"""Characters of a cell."""
_HEADER = ("change", "recompiles", "likely", "further compiles", "line", "compiled for")


def as_json(outcome: CheckOutcome) -> str:
    """The forecasts of every target."""
    targets = [_target(report) for report in outcome.reports]
    return json.dumps({"schema": 1, "targets": targets, "problems": encode(outcome.problems)}, indent=2)


def _target(report: Report) -> dict[str, Any]:
    return {
        "path": report.target.path,
        "name": report.target.name or "__main__",
        "line": report.target.line,
        "torch": report.versions.torch,
        "seconds": report.phases.get("forecast"),
        "functions": [
            {
                "name": frame.function,
                "path": frame.location.path,
                "line": frame.location.line,
                "resumes_at": frame.resumes_at,
                "compiles": frame.compiles,
                "limit": frame.limit,
            }
            for frame in report.forecasts
        ],
        "changes": [_change(one) for one in expected_changes(Context.of(report))],
        "failures": encode(report.failures),
        "problems": encode(report.problems),
    }


def _change(one: ExpectedChange) -> dict[str, Any]:
    place = None if one.place is None else [one.place.path, one.place.line]
    return {
        "kind": one.kind.value,
        "change": one.what,
        "detail": one.detail,
        "subject": list(one.subject),
        "in": list(one.functions),
        "recompiles": one.recompiles,
        "likely": one.is_likely,
        "cost": one.cost,
        "further_compiles": one.further_compiles,
        "reason": one.reason,
        "guards": list(one.guards),
        "place": place,
        "remedies": list(one.remedies),
    }


def print_forecasts(outcome: CheckOutcome, terminal: Terminal, *, is_full: bool) -> None:
    """Print every target."""
    for report in outcome.reports:
        print_heading(report, "what would compile it again", terminal)
        print_problems(report, terminal)
        changes = expected_changes(Context.of(report))
        shown = [one for one in changes if one.recompiles or is_full]
        if shown:
            rows = [_HEADER, *(_row(one) for one in shown)]
            terminal.print_table(rows if is_full else [(change, *rest) for change, _, *rest in rows])
            _print_remedies(shown, terminal)
        _print_rest(report, changes, terminal, is_full=is_full)
        terminal.print()


def _row(one: ExpectedChange) -> tuple[str, ...]:
    line = "-" if one.place is None else shown_line(SourceLine(one.place.path, one.place.line))
    likely = "yes" if one.is_likely else "no"
    if not one.recompiles:
        return _cut(one.title), "no", likely, "-", "-", "-"
    return _cut(one.title), "yes", likely, str(one.further_compiles), line, _cut(one.reason) or "-"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _print_remedies(shown: list[ExpectedChange], terminal: Terminal) -> None:
    likely = [one for one in shown if one.recompiles and one.is_likely and one.remedies]
    if not likely:
        return
    terminal.print(("\nwhat to do (advice: not tried on this code)", "bold"))
    for one in likely[:_MOST_REMEDIES]:
        terminal.print(f"  {one.what}: {one.cost}")
        for remedy in one.remedies:
            terminal.print((f"      {remedy}", "dim"))
    terminal.print_more(len(likely) - _MOST_REMEDIES, "change", indent=2)


def _print_rest(
    report: Report, changes: tuple[ExpectedChange, ...], terminal: Terminal, *, is_full: bool
) -> None:
    if not report.forecasts:
        if not report.failures:
            terminal.print("no forecast: nothing was compiled, or a function changes what its guards check")
        return
    if has_unasked_parts(report):
        terminal.print("\nsome compiled code has no forecast: other changes may recompile it")
    others = sum(not one.recompiles for one in changes)
    if others and not is_full:
        terminal.print(f"\n{format_count(others, 'other change')} would not recompile: --all lists them")
