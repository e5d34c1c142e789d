"""Findings as agents get them: the targets that ran, and what a run rests on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fuselight.shared.report import Failure, Report
from fuselight_server.base.formatting import cut_list
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.counts import counts

_MAX_CALLS = 5


def target_data(report: Report, outcome: CheckOutcome | None = None) -> dict[str, Any]:
    """What ran of a target, and what came of it."""
    calls = [call.text for call in report.inputs.calls] if report.inputs is not None else []
    numbers = counts(report)
    since = outcome.unchanged_since(report) if outcome is not None and report.inputs is not None else None
    return {
        "path": shown_path(report.target.path),
        "name": report.target.name or "__main__",
        "line": report.target.line,
        "graphs": numbers.graphs,
        "breaks": numbers.breaks,
        "recompilations": numbers.recompilations,
        "summary": _summary(report),
        "inputs": cut_list(calls, _MAX_CALLS),
        "inputs_from": report.inputs.rung.value if report.inputs is not None else "",
        "tier": report.tier.value,
        "torch": report.versions.torch or "",
        "unchanged_since": None if since is None else since.isoformat(timespec="seconds"),
    }


def failure_text(failure: Failure) -> str:
    """Why a run failed, with its line: `train.py:22: invalid syntax`."""
    if not failure.stack:
        return failure.message
    place = failure.stack[-1]
    return f"{shown_path(place.path)}:{place.line}: {failure.message}"


def _summary(report: Report) -> str:
    if report.inputs is None:
        why = failure_text(report.failures[0]) if report.failures else "no inputs are known"
        return f"not run: {why}"
    if report.failures and not (report.compiles or report.breaks):
        return "failed"
    if not (report.compiles or report.breaks):
        return "torch.compile compiled nothing"
    return str(counts(report))


def target_text(data: dict[str, Any]) -> str:
    """A target as text: `GPT2 (model.py:57): 3 graphs, 2 breaks; called GPT2()(i64[2, 32] % 256)`."""
    called = f"; called {', '.join(data['inputs'])}" if data["inputs"] else ""
    since = (
        f"; unchanged since {data['unchanged_since']}, so it did not run again"
        if data["unchanged_since"]
        else ""
    )
    return f"{data['name']} ({data['path']}:{data['line']}): {data['summary']}{called}{since}"


def evidence(reports: Iterable[Report]) -> str:
    """What the findings of these reports rest on."""
    called = [report for report in reports if report.inputs is not None]
    versions = sorted({report.versions.torch for report in called if report.versions.torch})
    if not versions:
        return "No call was made, so nothing was compiled: the findings rest on the source."
    return (
        f"torch {', '.join(versions)} traced and compiled the calls that are listed, without code generation. "
        "Nothing was timed, and other inputs may compile differently."
    )
