"""A comparison of two releases of torch in the terminal and as JSON: regressions first.

Invariant: each difference is printed once. An empty part is not printed.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import encode
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.cli.formats.findings import print_blocks
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.commands.sources import shown_path
from fuselight_server.jobs.comparison.data import comparison_as_data
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingState
from fuselight_server.upgrades.model import KernelLineChange, LineKernels, TargetComparison, TargetState
from fuselight_server.upgrades.numerics import result_change
from fuselight_server.upgrades.rows import as_job, reworded_rows, state_row, target_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.upgrade import UpgradeOutcome

SCHEMA = 1
HEADINGS = {
    ChangeVerdict.REGRESSION: ("Regressions", "bold red"),
    ChangeVerdict.IMPROVEMENT: ("Improvements", "bold green"),
    ChangeVerdict.CHANGE: ("Other differences", "bold"),
}


def target_name(target: TargetComparison) -> str:
    """`model.py: Net`."""
    return f"{shown_path(target.path)}: {format_target(target.name)}"


def print_upgrade(outcome: UpgradeOutcome, terminal: Terminal) -> None:
    """Print what differs, regressions first, then a summary."""
    comparison = outcome.comparison
    terminal.print((heading(outcome), "bold"))
    for note in comparison.notes:
        terminal.print((f"note: {note}", "dim"))
    for verdict in HEADINGS:
        _print_part(outcome, verdict, terminal)
    terminal.print("")
    for target in comparison.targets:
        for note in target.notes:
            terminal.print((f"note: {target_name(target)}: {note}", "dim"))
    same = [target_name(target) for target in comparison.targets if target.is_same]
    if same:
        terminal.print(f"No difference in {format_count(len(same), 'target')}: {', '.join(same)}")
    terminal.print((summary(outcome), "bold"))


def heading(outcome: UpgradeOutcome) -> str:
    """`torch 2.11.0 -> 2.14.1`."""
    before, after = outcome.comparison.before, outcome.comparison.after
    return f"torch {before.torch} -> {after.torch}"


def summary(outcome: UpgradeOutcome) -> str:
    """Count targets and regressions."""
    targets = outcome.comparison.targets
    states = Counter(target.state for target in targets)
    findings = Counter(change.state for target in targets for change in target.findings)
    parts = [format_count(len(targets), "target")]
    parts += [f"{states[state]:,} {state.value}" for state in TargetState if states[state]]
    counted = ", ".join(f"{findings[state]:,} {state.value}" for state in FindingState)
    kinds = outcome.comparison.regressions
    listed = ", ".join(f"{count:,} of {kind.value}" for kind, count in kinds.items())
    regressions = format_count(sum(kinds.values()), "regression") + (f" ({listed})" if listed else "")
    return f"{': '.join((parts[0], ', '.join(parts[1:])))}. Findings: {counted}. {regressions}."


def new_findings(target: TargetComparison, verdict: ChangeVerdict) -> list[Finding]:
    """The findings that are new with a verdict, and those of the comparison itself."""
    new = [change.finding for change in target.findings_in(FindingState.NEW) if change.verdict is verdict]
    wanted = {ChangeVerdict.REGRESSION: True, ChangeVerdict.CHANGE: False}.get(verdict)
    own = [finding for finding in target.own if (finding.severity >= Severity.WARNING) is wanted]
    return [*new, *own]


def part_rows(target: TargetComparison, verdict: ChangeVerdict, outcome: UpgradeOutcome) -> list[str]:
    """All rows of a target under a verdict."""
    versions = outcome.comparison.before, outcome.comparison.after
    rows = list(target_rows(target, verdict, shown_path, (versions[0].torch, versions[1].torch)))
    state = state_row(target, versions)
    if state and verdict is state_verdict(target):
        rows.insert(0, state)
    if verdict is ChangeVerdict.CHANGE:
        rows += reworded_rows(target, shown_path)
    return rows


def state_verdict(target: TargetComparison) -> ChangeVerdict:
    """How it is to be read that one side alone ran a target."""
    if target.is_undecided:
        return ChangeVerdict.CHANGE
    return {
        TargetState.ONLY_BEFORE: ChangeVerdict.REGRESSION,
        TargetState.ONLY_AFTER: ChangeVerdict.IMPROVEMENT,
        TargetState.NEITHER: ChangeVerdict.CHANGE,
    }.get(target.state, ChangeVerdict.SAME)


def _print_part(outcome: UpgradeOutcome, verdict: ChangeVerdict, terminal: Terminal) -> None:
    parts = [
        (target, new_findings(target, verdict), part_rows(target, verdict, outcome))
        for target in outcome.comparison.targets
    ]
    parts = [part for part in parts if part[1] or part[2]]
    if parts:
        terminal.print("\n", HEADINGS[verdict])
    for target, new, rows in parts:
        terminal.print("\n", (target_name(target), "bold"))
        print_blocks(new, outcome.sources, terminal)
        for row in rows:
            terminal.print(f"  {row}")


def upgrade_as_json(outcome: UpgradeOutcome) -> str:
    """The comparison as one JSON object."""
    comparison = outcome.comparison
    data = {
        "schema": SCHEMA,
        "before": encode(comparison.before),
        "after": encode(comparison.after),
        "regressions": {kind.value: count for kind, count in comparison.regressions.items()},
        "notes": list(comparison.notes),
        "targets": [_target_data(target, outcome) for target in comparison.targets],
        "problems": encode(outcome.problems),
    }
    return json.dumps(data, indent=2)


def _target_data(target: TargetComparison, outcome: UpgradeOutcome) -> dict[str, Any]:
    compared = comparison_as_data(as_job(target))
    return {
        "path": shown_path(target.path),
        "name": target.name or "__main__",
        "state": target.state.value,
        "regressions": [kind.value for kind in target.regressions()],
        "findings": [
            {
                "state": change.state.value,
                "finding": finding_as_json(change.finding, outcome.sources),
                "before": None
                if change.before is None
                else {
                    "code": change.before.code,
                    "title": change.before.title,
                    "line": change.before.span.line,
                },
            }
            for change in target.findings
        ],
        "own_findings": [finding_as_json(finding, outcome.sources) for finding in target.own],
        "results": [{"change": result_change(call).value, **encode(call)} for call in target.calls],
        "times": [
            {
                "target": time.target,
                "configuration": time.configuration,
                "path": None if time.place is None else shown_path(time.place.path),
                "line": None if time.place is None else time.place.line,
                "before_us": time.before_us,
                "after_us": time.after_us,
                "change": time.part,
                "verdict": time.verdict.value,
            }
            for time in target.times
        ],
        "is_undecided": target.is_undecided,
        "uncompared": [finding_as_json(change.finding, outcome.sources) for change in target.uncompared],
        "functions": compared["functions"],
        "device": target.device,
        "lines": [_line_data(change) for change in target.lines],
        "notes": list(target.notes),
    }


def _line_data(change: KernelLineChange) -> dict[str, Any]:
    return {
        "path": shown_path(change.place.path),
        "line": change.place.line,
        "before": _kernels_data(change.before),
        "after": _kernels_data(change.after),
        "is_fused_differently": change.is_fused_differently,
    }


def _kernels_data(side: LineKernels | None) -> dict[str, Any] | None:
    if side is None:
        return None
    groups: Iterable[Any] = sorted(side.fused_with.items())
    return {
        "kernels": side.kernels,
        "estimate_us": side.estimate_us,
        "fused_with": [
            {"lines": [[shown_path(line.path), line.line] for line in lines], "kernels": count}
            for lines, count in groups
        ],
    }
