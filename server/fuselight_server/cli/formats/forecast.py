"""`fuselight forecast` as JSON (docs/forecast.md), and for people: a table of changes, then what to do.

Invariant: nothing is shown by color alone, and a function without a forecast is not said to need no compile.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from fuselight.shared.codec import encode
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_count
from fuselight_server.cli.formats.text_parts import print_heading, print_problems, shown_line
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import (
    expected_changes,
    folded,
    folded_text,
    has_unasked_parts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuselight.shared.report import Location, Report
    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.forecast import ChangeTrial, RemedyTrial, Trials
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange


Tried: TypeAlias = "Mapping[ExpectedChange, ChangeTrial]"
_MAX_REMEDIES = 8
"""Remedies that are printed of one target."""
_MAX_LINES = 12
"""Changed lines of one remedy."""
_LONGEST = 60
"""Characters of a cell."""
_HEADER = ("change", "recompiles", "likely", "further compiles", "line", "compiled for")


def as_json(outcome: CheckOutcome, trials: Trials | None = None) -> str:
    """The forecasts of every target; `trials`: the remedies that were tried."""
    targets = [
        _target(report, _changes(report, outcome), _of(report, trials or {})) for report in outcome.reports
    ]
    return json.dumps({"schema": 1, "targets": targets, "problems": encode(outcome.problems)}, indent=2)


def _of(report: Report, trials: Trials) -> Tried:
    """What was tried for the report's target."""
    return trials.get((report.target.path, report.target.name), {})


def _changes(report: Report, outcome: CheckOutcome) -> tuple[ExpectedChange, ...]:
    return expected_changes(Context.of(report, read_line=outcome.sources.line))


def _target(report: Report, changes: Sequence[ExpectedChange], tried: Tried) -> dict[str, Any]:
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
        "changes": [_change(change, tried.get(change)) for change in changes],
        "failures": encode(report.failures),
        "problems": encode(report.problems),
    }


def _change(change: ExpectedChange, trial: ChangeTrial | None) -> dict[str, Any]:
    place = None if change.place is None else [change.place.path, change.place.line]
    return {
        "kind": change.kind.value,
        "change": change.what,
        "detail": change.detail,
        "subject": list(change.subject),
        "in": list(change.functions),
        "recompiles": change.recompiles,
        "likely": change.is_likely,
        "cost": change.cost,
        "further_compiles": change.further_compiles,
        "reason": change.reason,
        "guards": list(change.guards),
        "place": place,
        "first_break": None
        if change.first_break is None
        else [change.first_break.path, change.first_break.line],
        "remedies": list(change.remedies),
        "tried": [] if trial is None else [_remedy(item) for item in trial.remedies],
        "not_tried": "" if trial is None else trial.why_not,
    }


def _remedy(trial: RemedyTrial) -> dict[str, Any]:
    return {
        "kind": trial.remedy.kind,
        "title": trial.remedy.title,
        "class": trial.remedy.fix_class.value,
        "verified": trial.verdict.passed,
        "why": trial.verdict.words,
        "diff": list(trial.diff),
    }


def print_forecasts(
    outcome: CheckOutcome, terminal: Terminal, trials: Trials | None = None, *, is_full: bool
) -> None:
    """Print every target; `trials`: the remedies that were tried."""
    for report in outcome.reports:
        print_heading(report, "what would compile it again", terminal)
        print_problems(report, terminal)
        changes = _changes(report, outcome)
        shown = [change for change in changes if change.recompiles or is_full]
        listed, breaks = (shown, []) if is_full else folded(shown)
        if shown := listed:
            rows = [_HEADER, *(_row(change) for change in shown)]
            terminal.print_table(rows if is_full else [(change, *rest) for change, _, *rest in rows])
            _print_remedies(shown, terminal, None if trials is None else _of(report, trials))
        _print_breaks(breaks, terminal)
        _print_rest(report, changes, terminal, is_full=is_full)
        terminal.print()


def _row(change: ExpectedChange) -> tuple[str, ...]:
    line = "-" if change.place is None else shown_line(SourceLine(change.place.path, change.place.line))
    likely = "yes" if change.is_likely else "no"
    if not change.recompiles:
        return _cut(change.title), "no", likely, "-", "-", "-"
    further = "raises" if change.raises else str(change.further_compiles)
    return _cut(change.title), "yes", likely, further, line, _cut(change.reason) or "-"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _print_remedies(shown: list[ExpectedChange], terminal: Terminal, tried: Tried | None) -> None:
    likely = [
        expected_change
        for expected_change in shown
        if expected_change.recompiles
        and expected_change.is_likely
        and (expected_change.remedies or expected_change.raises)
    ]
    if not likely:
        return
    hint = (
        "advice: not tried on this code, --verify tries changes of it"
        if tried is None
        else "verified: tried on this code"
    )
    terminal.print((f"\nwhat to do ({hint})", "bold"))
    for change in likely[:_MAX_REMEDIES]:
        terminal.print(f"  {change.what}: {change.cost}")
        trial = (tried or {}).get(change)
        for item in trial.remedies if trial else ():
            _print_trial(item, terminal)
        for remedy in change.remedies:
            terminal.print((f"      {'' if tried is None else 'advice: '}{remedy}", "dim"))
        if trial is not None and trial.why_not:
            terminal.print((f"      nothing was tried: {trial.why_not}", "dim"))
    terminal.print_more(len(likely) - _MAX_REMEDIES, "change", indent=2)


def _print_trial(trial: RemedyTrial, terminal: Terminal) -> None:
    terminal.print(f"      {trial.words}")
    for line in trial.diff[:_MAX_LINES] if trial.verdict.passed else ():
        terminal.print((f"          {line}", "dim"))
    if trial.verdict.passed:
        terminal.print_more(len(trial.diff) - _MAX_LINES, "changed line", indent=10)


def _print_breaks(breaks: list[tuple[Location, int]], terminal: Terminal) -> None:
    """Print what to fix first, for each break that separates code."""
    for number, (place, count) in enumerate(breaks):
        text = folded_text(shown_line(SourceLine(place.path, place.line)), count)
        start = "" if number else "\n"
        terminal.print(f"{start}{text[0].upper()}{text[1:]}: --all lists them")


def _print_rest(
    report: Report, changes: tuple[ExpectedChange, ...], terminal: Terminal, *, is_full: bool
) -> None:
    if not report.forecasts:
        if not report.failures:
            terminal.print("no forecast: nothing was compiled, or a function changes what its guards check")
        return
    if has_unasked_parts(report):
        terminal.print("\nsome compiled code has no forecast: other changes may recompile it")
    others = sum(not change.recompiles for change in changes)
    if others and not is_full:
        terminal.print(f"\n{format_count(others, 'other change')} would not recompile: --all lists them")
