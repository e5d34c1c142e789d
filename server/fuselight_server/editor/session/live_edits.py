"""Edits of files that ran, and what traces find of them: data and pure functions."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.shared.protocol import RETRACE_REASONS
from fuselight.shared.report import Report, Tier
from fuselight_server.editor.session.report_reading import line_reader
from fuselight_server.explain.findings import findings
from fuselight_server.source.code_changes import CodeChanges, DeferredChange
from fuselight_server.source.document import LARGE

if TYPE_CHECKING:
    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.session.state import Document
    from fuselight_server.explain.findings import Thresholds

STARTING = "the tracer is starting"
TOO_LARGE = DeferredChange("", f"the file has more than {LARGE // 1000} kB", 1)
_RETRACE_STAGE = "retrace"
"""Stage of the problems of a report that concern one function."""


@dataclass(frozen=True)
class EditedTarget:
    """A text of an open file that the last run of a target had otherwise."""

    result: CaptureResult
    document: Document
    version: int
    ran: str
    """The text that ran."""
    now: str

    @property
    def path(self) -> str:
        """The edited file."""
        return self.document.path


@dataclass(frozen=True)
class FunctionTrace:
    """What a trace of some functions has found."""

    report: Report
    findings: tuple[Finding, ...]


def trace_findings(
    report: Report, edit: EditedTarget, thresholds: Thresholds, *, includes_callers: bool
) -> tuple[Finding, ...]:
    """Make the findings of a trace."""
    result = edit.result
    report = replace(report, tier=Tier.PREDICTED, inputs=result.report.inputs, target=result.report.target)
    return findings(
        report,
        thresholds=thresholds,
        read_line=line_reader({edit.path: edit.now}),
        includes_callers=includes_callers,
    )


def changed_on_disk(path: str) -> DeferredChange:
    """Say that the text of a file that ran is lost, or that nothing is predicted from a file that is not open."""
    name = os.path.basename(path)  # noqa: PTH119 - paths stay text
    return DeferredChange("", f"{name} has changed on disk since the last run", 1)


def other_changes(result: CaptureResult, path: str) -> str:
    """Say which files besides one have changed since a run; empty for none."""
    others = sorted((result.changed_files & result.depends) - {path})
    if not others:
        return ""
    names = ", ".join(os.path.basename(text) for text in others)  # noqa: PTH119 - paths stay text
    return f"{names} has changed, too" if len(others) == 1 else f"{names} have changed, too"


def with_reasons(changes: CodeChanges, why_not: dict[str, str]) -> CodeChanges:
    """Say why the arguments of a function were not kept, instead of that it was not traced."""
    deferred = tuple(replace(change, why=why_not.get(change.what, change.why)) for change in changes.deferred)
    return replace(changes, deferred=deferred)


def problems(report: Report) -> dict[str, str]:
    """Say why functions could not be traced, by their names."""
    return {problem.what: problem.why for problem in report.problems if problem.stage == _RETRACE_STAGE}


def without_problems(report: Report, changes: CodeChanges) -> CodeChanges:
    """Turn the functions that could not be traced into deferred changes."""
    reasons = problems(report)
    deferred = []
    for function in changes.functions:
        if function.name in reasons:
            reason, _, detail = reasons[function.name].partition(":")
            deferred.append(
                DeferredChange(
                    function.name, RETRACE_REASONS.get(reason, detail.strip() or reason), function.first
                )
            )
    functions = tuple(
        changed_function for changed_function in changes.functions if changed_function.name not in reasons
    )
    return CodeChanges(functions, (*changes.deferred, *deferred))


def encoded(text: str) -> bytes:
    """The bytes of a text, which may have lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
