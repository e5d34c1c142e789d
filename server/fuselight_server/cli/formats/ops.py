"""`fuselight ops` as JSON (docs/operators.md), and for people: missing operators, counts of each level, each call.

Invariant: nothing is shown by color alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.report import OperatorPath, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.finding_parts import file_and_line
from fuselight_server.cli.formats.text_parts import print_heading, print_problems, shown_line
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.kernels.operators import LEVELS, counts, lacks, operators_at, short
from fuselight_server.explain.kernels.shares import place_of

_MAX_CALLS = 60
"""Calls that are printed of one target."""
_MAX_LINES = 4
"""Lines that are printed of one missing operator."""


def as_json(outcome: CheckOutcome, opset: str | None) -> str:
    """The operators of every target."""
    return json.dumps(
        {
            "schema": 1,
            "opset": opset,
            "targets": [_target(report) for report in outcome.reports],
            "problems": encode(outcome.problems),
        },
        indent=2,
    )


def _target(report: Report) -> dict[str, Any]:
    return {
        **file_and_line(report.target.path, report.target.line),
        "name": report.target.name or "__main__",
        "torch": report.versions.torch,
        "counts": {level: dict(counted.most_common()) for level, counted in counts(report).items()},
        "lacking": [
            {
                "operator": lack.operator,
                "count": lack.count,
                "calls": list(lack.calls),
                "lines": [[place.path, place.line] for place in lack.places],
            }
            for lack in lacks(report)
        ],
        "paths": [_path(path) for path in report.operators],
        "failures": encode(report.failures),
        "problems": encode(report.problems),
    }


def _path(path: OperatorPath) -> dict[str, Any]:
    stack = [[frame.path, frame.line] for frame in path.stack]
    return dataclasses.asdict(path) | {"phase": path.phase.value, "stack": stack}


def print_operators(outcome: CheckOutcome, terminal: Terminal, opset: str | None) -> None:
    """Print every target."""
    for report in outcome.reports:
        print_heading(report, "operators of each call", terminal)
        print_problems(report, terminal)
        if report.operators:
            if opset is not None:
                _print_missing(report, outcome, terminal, opset)
            _print_counts(report, terminal)
            _print_calls(report, outcome, terminal)
        elif not report.failures:
            terminal.print("no operators: nothing was captured")
        terminal.print()


def _print_missing(report: Report, outcome: CheckOutcome, terminal: Terminal, opset: str) -> None:
    missing = lacks(report)
    if not missing:
        terminal.print(f"\n{opset} supports every operator")
        return
    terminal.print((f"\n{opset} lacks {format_count(len(missing), 'operator')}", "bold"))
    for lacking_operator in missing:
        calls = f" for {', '.join(lacking_operator.calls)}" if lacking_operator.calls else ""
        terminal.print(
            "  ", (short(lacking_operator.operator), "bold red"), f" × {lacking_operator.count}{calls}"
        )
        for line in itertools.islice(lacking_operator.places, _MAX_LINES):
            terminal.print((f"      {_source_line(line, outcome)}", "dim"))
        terminal.print_more(len(lacking_operator.places) - _MAX_LINES, "line", indent=6)


def _print_counts(report: Report, terminal: Terminal) -> None:
    for level, counted in counts(report).items():
        if counted:
            terminal.print(
                (f"\n{LEVELS[level]}: {counted.total()} of {format_count(len(counted), 'kind')}", "bold")
            )
            operators = (f"{short(name)} {count}" for name, count in counted.most_common())
            terminal.print(f"  {', '.join(operators)}")


def _print_calls(report: Report, outcome: CheckOutcome, terminal: Terminal) -> None:
    terminal.print(("\nby call", "bold"))
    for path in report.operators[:_MAX_CALLS]:
        count = f" × {path.count}" if path.count > 1 else ""
        terminal.print("  ", (path.call or "(no call)", "bold cyan"), f"{count}  {path.phase.value}")
        terminal.print((f"      {_source_line(place_of(path.stack, report.roots), outcome)}", "dim"))
        _print_levels(path, terminal)
    if len(report.operators) > _MAX_CALLS:
        left_out = format_count(len(report.operators) - _MAX_CALLS, "more call")
        terminal.print(f"  ... and {left_out}: --format json lists all")


def _print_levels(path: OperatorPath, terminal: Terminal) -> None:
    before: tuple[str, ...] | None = None
    for level in ("aten", "core", "prims", "inductor", "fallback"):
        operators = operators_at(path, level)
        if level == "fallback" and not operators:
            continue
        is_same = level == "core" and operators == before
        text = "the same" if is_same else ", ".join(_grouped(operators)) or "nothing"
        terminal.print((f"      {LEVELS[level]}: ", "dim"), text)
        before = operators


def _grouped(operators: tuple[str, ...]) -> list[str]:
    """`aten.mul × 2` for equal neighbors."""
    out = []
    for name, group in itertools.groupby(operators):
        count = len(list(group))
        out.append(f"{short(name)} × {count}" if count > 1 else short(name))
    return out


def _source_line(line: SourceLine | None, outcome: CheckOutcome) -> str:
    source = (outcome.sources.line(line.path, line.line) or "").strip() if line else ""
    return f"{shown_line(line)}  {source}".rstrip()
