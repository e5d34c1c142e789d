"""`fuselight accuracy` for people and as JSON (docs/accuracy.md): the verdict, what was compared, the wrong calls.

Invariant: what was not compared is always listed, and nothing is shown by color alone.
"""

from __future__ import annotations

import json
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.report import Report
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.findings import print_blocks
from fuselight_server.cli.formats.json import finding_as_json, problems_as_json
from fuselight_server.cli.formats.text_parts import print_heading, print_problems
from fuselight_server.commands.accuracy import AccuracyOutcome, state_of
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.findings.common.result_words import (
    not_compared,
    remarks,
    results_in_words,
    wrong_calls,
)

_MAX_LINES = 8
"""Reasons and remarks that are printed of a target."""


def print_accuracy(outcome: AccuracyOutcome, terminal: Terminal) -> None:
    """Each target with its verdict and what was not compared, then each difference with its line."""
    for report in outcome.check.reports:
        print_heading(report, f"accuracy: {accuracy_verdict(report)}", terminal)
        _print_coverage(report, terminal)
        print_problems(report, terminal)
        terminal.print()
    print_blocks(outcome.check.findings, outcome.check.sources, terminal)


def print_results(outcome: CheckOutcome, terminal: Terminal) -> None:
    """A line for each target of a check whose results were compared."""
    for report in outcome.reports:
        if report.results is not None:
            name = f"{format_target(report.target.name)} ({shown_path(report.target.path)})"
            terminal.print((f"Results of {name}: {results_in_words(report.results)}", "dim"))


def accuracy_verdict(report: Report) -> str:
    """`as eager (5 calls, 23 values compared)`."""
    return results_in_words(report.results) if report.results is not None else "not compared"


def _print_coverage(report: Report, terminal: Terminal) -> None:
    results = report.results
    if results is None or not results.call_count:
        return
    calls = format_count(results.call_count, "call")
    terminal.print(f"  the run made {calls} of compiled code")
    left_out = list(not_compared(results))
    for count, why in left_out[:_MAX_LINES]:
        terminal.print(f"  not compared: {format_count(count, 'call')}: {why}")
    terminal.print_more(len(left_out) - _MAX_LINES, "reason", indent=2)
    notes = remarks(results)
    for note in notes[:_MAX_LINES]:
        terminal.print(f"  note: {note}")
    terminal.print_more(len(notes) - _MAX_LINES, "note", indent=2)


def accuracy_as_json(outcome: AccuracyOutcome) -> str:
    """The comparison of each target, the findings, and what could not be determined."""
    data = {
        "schema": 1,
        "findings": [finding_as_json(finding, outcome.check.sources) for finding in outcome.check.findings],
        "targets": [_target(report) for report in outcome.check.reports],
        "problems": problems_as_json(outcome.check),
    }
    return json.dumps(data, indent=2)


def _target(report: Report) -> dict[str, Any]:
    return {
        "path": report.target.path,
        "name": report.target.name or MAIN,
        "line": report.target.line,
        "torch": report.versions.torch,
        **results_as_json(report),
        "failures": encode(report.failures),
    }


def results_as_json(report: Report) -> dict[str, Any]:
    """The verdict on a target, in a word and a line, and the compared calls as in the Report."""
    wrong = wrong_calls(report.results) if report.results is not None else ()
    return {
        "state": state_of(report).value,
        "verdict": accuracy_verdict(report),
        "wrong_calls": [call.index for call in wrong],
        "results": encode(report.results),
    }
