"""`fuselight ops` for people: what is lacking first, then the counts of each level, then the path of each call.

Invariant: nothing is told by colour alone.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from rich.text import Text

from fuselight_server.cli.sources import shown_path
from fuselight_server.cli.targets import NO_TARGET
from fuselight_server.kernels import place_of
from fuselight_server.kernels.operators import LEVELS, counts, lacks, operators_at, short

if TYPE_CHECKING:
    from rich.console import Console

    from fuselight.report import OperatorPath, Report
    from fuselight_server.cli.outcome import Outcome
    from fuselight_server.kernels import Place

_PATHS = 60
"""Calls told of one target; the rest is one line that says how many."""
_PLACES = 4
"""Lines told of one operator that is lacking."""


def print_operators(outcome: Outcome, console: Console, opset: str | None) -> None:
    """Print every target, then what could not be learnt."""
    for report in outcome.reports:
        _print_target(report, outcome, console, opset)
    for problem in outcome.problems:
        console.print(f"cannot analyse {problem.what}: {problem.why}", soft_wrap=True)
    if not outcome.reports and not outcome.problems:
        console.print(NO_TARGET, soft_wrap=True)


def _print_target(report: Report, outcome: Outcome, console: Console, opset: str | None) -> None:
    head = f"{shown_path(report.target.path)}: {report.target.name or '__main__'}"
    console.print(Text.assemble((head, "bold"), " - what its calls decompose into"), soft_wrap=True)
    for failure in report.failures:
        console.print(Text(f"failed: {failure.message}. {failure.next_step}", "bold red"), soft_wrap=True)
    for problem in report.problems:
        console.print(f"not known: {problem.what}: {problem.why}", soft_wrap=True)
    if report.operators:
        if opset is not None:
            _print_lacking(report, outcome, console, opset)
        _print_counts(report, console)
        _print_paths(report, outcome, console)
    elif not report.failures:
        console.print("no operators: nothing of it is captured", soft_wrap=True)
    console.print()


def _print_lacking(report: Report, outcome: Outcome, console: Console, opset: str) -> None:
    found = lacks(report)
    if not found:
        console.print(f"\n{opset} lacks nothing of it")
        return
    noun = "operator" if len(found) == 1 else "operators"
    console.print(Text(f"\n{opset} lacks {len(found)} {noun}", "bold"))
    for lack in found:
        calls = f" for {', '.join(lack.calls)}" if lack.calls else ""
        console.print(
            Text.assemble("  ", (short(lack.operator), "bold red"), f" x {lack.count}{calls}"), soft_wrap=True
        )
        for place in itertools.islice(lack.places, _PLACES):
            console.print(Text(f"      {_line(place, outcome)}", "dim"), soft_wrap=True)
        if len(lack.places) > _PLACES:
            console.print(f"      ... and {len(lack.places) - _PLACES} more lines")


def _print_counts(report: Report, console: Console) -> None:
    for level, counted in counts(report).items():
        if not counted:
            continue
        console.print(Text(f"\n{LEVELS[level]}: {counted.total()} of {len(counted)} kinds", "bold"))
        words = ", ".join(f"{short(name)} {count}" for name, count in counted.most_common())
        console.print(f"  {words}", soft_wrap=True)


def _print_paths(report: Report, outcome: Outcome, console: Console) -> None:
    console.print(Text("\nby call", "bold"))
    for path in report.operators[:_PATHS]:
        place = place_of(path.stack, report.roots)
        times = f" x {path.count}" if path.count > 1 else ""
        name = path.call or "(no call)"
        console.print(
            Text.assemble("  ", (name, "bold cyan"), f"{times}  {path.phase.value}"), soft_wrap=True
        )
        where = _line(place, outcome) if place else "no line"
        console.print(Text(f"      {where}", "dim"), soft_wrap=True)
        _print_path(path, console)
    if len(report.operators) > _PATHS:
        console.print(f"  ... and {len(report.operators) - _PATHS} more calls: --format json has them all")


def _print_path(path: OperatorPath, console: Console) -> None:
    before: tuple[str, ...] | None = None
    for level in ("aten", "core", "prims", "inductor", "fallback"):
        operators = operators_at(path, level)
        if level == "fallback" and not operators:
            continue
        same = level == "core" and operators == before
        words = "the same" if same else ", ".join(_repeats(operators)) or "nothing"
        console.print(Text.assemble((f"      {LEVELS[level]}: ", "dim"), words), soft_wrap=True)
        before = operators


def _repeats(operators: tuple[str, ...]) -> list[str]:
    """`aten.mul x 2` for neighbours that are the same."""
    out = []
    for name, group in itertools.groupby(operators):
        count = len(list(group))
        out.append(f"{short(name)} x {count}" if count > 1 else short(name))
    return out


def _line(place: Place, outcome: Outcome) -> str:
    source = (outcome.sources.line(place.path, place.line) or "").strip()
    return f"{shown_path(place.path)}:{place.line}  {source}".rstrip()
