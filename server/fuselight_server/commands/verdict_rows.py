"""The verdict of a patch as rows of plain data and as text, for faces that show it.

Invariant: what was not compared is listed next to what was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.base.formatting import cut_list, format_line_ranges
from fuselight_server.commands.finding_rows import finding_data, problem_texts
from fuselight_server.commands.notebook_cells import verify_in_cells
from fuselight_server.commands.notebook_lines import cell_of
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.commands.verify import PatchVerdict, VerdictKind, VerifyOutcome
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.fixes.verification.comparison import TextComparison

_MAX_FINDINGS = 20
_MAX_CASES = 40
_VERDICTS = {
    VerdictKind.SAME: "The results are the same",
    VerdictKind.DIFFERS: "Refused: the results differ",
    VerdictKind.FAILS: "Refused",
    VerdictKind.UNVERIFIED: "Refused",
    VerdictKind.UNCONCERNED: "Not concerned",
}


def verify_data(outcome: VerifyOutcome) -> dict[str, Any]:
    """The verdict of all targets."""
    outcome = verify_in_cells(outcome)
    rows = [_verdict(verdict, outcome.new_sources) for verdict in outcome.verdicts]
    return {
        "verdict": outcome.kind.value,
        "passed": outcome.exit_code == 0,
        "why": outcome.why_unverified or _why(outcome),
        "targets": rows,
        "problems": problem_texts(outcome.checked.problems),
    }


def _why(outcome: VerifyOutcome) -> str:
    return next((_words(verdict) for verdict in outcome.verdicts if verdict.kind is outcome.kind), "")


def _words(verdict: PatchVerdict) -> str:
    """Why, with the changed lines that no ordinary call ran: equal results say nothing about them."""
    words = verdict.comparison.words
    texts = (
        (verdict.not_run, "of the new text"),
        (verdict.old_not_run, "of the old text"),
    )
    unrun = [f"{_places(lines)} {which}" for lines, which in texts if lines]
    if not unrun:
        return words
    joint = "and" if ", but " in words else "but"
    return f"{words}, {joint} no ordinary call ran {' or '.join(unrun)}"


def _places(lines: tuple[SourceLine, ...]) -> str:
    by_cell = (list(group) for _, group in itertools.groupby(lines, lambda line: cell_of(line.path)))
    return ", ".join(_line_ranges(group, lines[0]) for group in by_cell)


def _line_ranges(lines: list[SourceLine], reference: SourceLine) -> str:
    cell = cell_of(lines[0].path)[1]
    ranges = format_line_ranges(lines, reference if cell is None else lines[0])
    return ranges if cell is None else f"cell {cell}, {ranges}"


def _verdict(verdict: PatchVerdict, sources: SourceFiles) -> dict[str, Any]:
    report, comparison = verdict.before, verdict.comparison
    return {
        "target": report.target.name or "__main__",
        "path": shown_path(report.target.path),
        "verdict": verdict.kind.value,
        "why": _words(verdict),
        "class": verdict.fix_class.value if verdict.fix_class is not None else None,
        "before": _numbers(verdict.before),
        "after": _numbers(verdict.after) if verdict.has_run else None,
        "findings_fixed": cut_list(map(_line, verdict.fixed), _MAX_FINDINGS),
        "findings_new": [finding_data(finding, sources) for finding in verdict.new[:_MAX_FINDINGS]],
        "findings_next": [finding_data(finding, sources) for finding in verdict.next[:_MAX_FINDINGS]],
        "findings_kept": cut_list(map(_line, verdict.kept), _MAX_FINDINGS),
        "inputs": [call.text for call in report.inputs.calls[:5]] if report.inputs is not None else [],
        "compared": cut_list(comparison.tried, _MAX_CASES),
        "not_compared": _not_compared(comparison),
        "lines_not_run": _unrun(verdict.not_run),
        "old_lines_not_run": _unrun(verdict.old_not_run),
        "notes": [*comparison.notes, *comparison.memory],
        "torch": report.versions.torch or "",
    }


def _unrun(lines: tuple[SourceLine, ...]) -> list[str]:
    return cut_list((f"{shown_path(line.path)}:{line.line}" for line in lines), _MAX_FINDINGS)


def _not_compared(comparison: TextComparison) -> list[str]:
    """Which further calls were not compared, by the reason."""
    reasons = (
        ("raise an exception before and after the change", comparison.not_accepted),
        ("no time was left", comparison.not_reached),
    )
    return [f"{reason}: {', '.join(cut_list(names, _MAX_CASES))}" for reason, names in reasons if names]


def _numbers(report: Report) -> dict[str, int]:
    numbers = counts(report)
    return {"graphs": numbers.graphs, "breaks": numbers.breaks, "recompilations": numbers.recompilations}


def _line(finding: Finding) -> str:
    return f"{shown_path(finding.span.path)}:{finding.span.line}: {finding.code}: {finding.title}"


def verdict_lines(data: dict[str, Any]) -> Iterator[str]:
    """The verdict as text: for the terminal and for agents."""
    if not any(row["verdict"] == data["verdict"] for row in data["targets"]):
        yield f"{_VERDICTS[VerdictKind(data['verdict'])]}: {data['why']}."
    for row in data["targets"]:
        yield from _target_lines(row)
    yield from (f"not determined: {problem}" for problem in data["problems"])


def _target_lines(row: dict[str, Any]) -> Iterator[str]:
    kind = VerdictKind(row["verdict"])
    of_class = f" ({row['class']})" if row["class"] else ""
    yield f"{row['target']} ({row['path']}): {_VERDICTS[kind]}{of_class}: {row['why']}."
    if kind is VerdictKind.UNCONCERNED:
        return
    before, after = row["before"], row["after"]
    if after is None:
        numbers = ", ".join(f"{name} {number}" for name, number in before.items())
        yield f"  before: {numbers}; the new text did not run"
    else:
        changes = (f"{name} {before[name]} -> {after[name]}" for name in before)
        yield f"  before -> after: {', '.join(changes)}"
    yield from (f"  fixed: {text}" for text in row["findings_fixed"])
    yield from (
        f"  new: {new['path']}:{new['line']}: {new['code']}: {new['title']}" for new in row["findings_new"]
    )
    yield from (
        f"  next: {uncovered['code']} on {PurePath(uncovered['path']).name}:{uncovered['line']}"
        for uncovered in row["findings_next"]
    )
    yield from (f"  still there: {text}" for text in row["findings_kept"])
    if row["compared"]:
        yield f"  compared: {', '.join(row['compared'])}"
    if row["not_compared"]:
        yield f"  not compared: {'; '.join(row['not_compared'])}"
    yield from (f"  note: {note}" for note in row["notes"])
