"""Edits of files that ran, what traces find of them, and the predictions that are shown.

Invariant: an answer for a text that is no longer there is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from fuselight.shared.protocol import RETRACE_REASONS
from fuselight.shared.report import Report, Tier
from fuselight_server.base.finding import Finding
from fuselight_server.editor.results.captures import PROGRAM, CaptureResult
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.results.report_reading import line_reader
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.source.code_changes import CodeChanges, DeferredChange
from fuselight_server.source.document import LARGE

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


class EditedFiles:
    """The files whose edits are predicted, and the results that ran them."""

    def __init__(self, state: State) -> None:
        self._state = state

    def is_on(self, path: str) -> bool:
        """Whether edits of a file are predicted."""
        return self._state.trusted and self._state.folder_of(path).settings.live == "on"

    def readable(self, path: str) -> Document | None:
        """Return the document of a file whose edits are predicted."""
        document = self._state.documents.at(path)
        return (
            document if document is not None and not document.source.is_large and self.is_on(path) else None
        )

    def results(self, path: str) -> list[CaptureResult]:
        """Return the captures that ran a file, those of its own targets first, of these the newest first."""
        capture_results = [
            reported
            for result in self._state.captures.values()
            if result.key.name != PROGRAM
            and (reported := result.reported) is not None
            and path in reported.report.files
        ]
        return sorted(
            capture_results,
            key=lambda capture_result: (capture_result.key.path != path, -capture_result.generation),
        )

    def is_current(self, edit: EditedTarget) -> bool:
        """Whether an answer for a text still counts."""
        newest = self._state.captures.get(edit.result.key)
        return (
            newest is not None
            and newest.reported is edit.result
            and self._state.documents.at(edit.path) is edit.document
            and edit.document.source.version == edit.version
        )


class ShownPredictions:
    """Shows what rules and traces find."""

    def __init__(self, state: State, refresh: Callable[[], None]) -> None:
        """`refresh` draws the lenses again."""
        self._state = state
        self._refresh = refresh

    def drop(self, path: str, but: Collection[Key] = ()) -> None:
        """Drop what is predicted from edits of a file."""
        for key, file in list(self._state.predictions):
            if file == path and key not in but:
                self._state.drop_prediction(key, path)

    def take_rules(self, key: Key, path: str, findings: tuple[Finding, ...]) -> None:
        """Show the breaks that rules have found."""
        prediction = self._prediction(key, path)
        # A trace of the same text that was faster wins.
        if not prediction.is_current and prediction.take_rules(findings):
            self._state.predict(prediction)

    def take_early(self, key: Key, edit: EditedTarget, findings: tuple[Finding, ...]) -> None:
        """Show the breaks that a trace has found so far: the rest of its answer is not known yet."""
        prediction = self._prediction(key, edit.path)
        if prediction.take_early(edit.result, findings, (edit.ran, edit.now)):
            self._state.predict(prediction)
            self._refresh()

    def take_trace(
        self,
        key: Key,
        edit: EditedTarget,
        trace: FunctionTrace,
        changes: CodeChanges,
        *,
        includes_callers: bool = False,
    ) -> None:
        """Show the answer of a trace."""
        prediction = self._prediction(key, edit.path)
        prediction.deferred = changes.deferred
        texts = edit.ran, edit.now
        prediction.take_trace(
            edit.result,
            trace.report,
            trace.findings,
            changes.functions,
            texts,
            includes_callers=includes_callers,
        )
        self._state.predict(prediction)
        self._refresh()

    def show_same_code(self, result: CaptureResult, path: str, texts: tuple[str, str]) -> None:
        """Show that nothing differs but comments and the like."""
        prediction = self._prediction(result.key, path)
        prediction.take_same_code(result, texts)
        if any(prediction.findings()):
            self._state.predict(prediction)
        else:
            self._state.drop_prediction(result.key, path)
        self._refresh()

    def show_deferred(self, key: Key, path: str, deferred: tuple[DeferredChange, ...]) -> None:
        """Show why nothing is traced."""
        prediction = self._prediction(key, path)
        prediction.deferred = deferred
        prediction.forget_trace()
        self._state.predict(prediction)
        self._refresh()

    def show_too_large(self, path: str, results: Collection[CaptureResult]) -> None:
        """Say that a file is too large for predictions, once: this is called at each keystroke."""
        for key in [result.key for result in results]:
            known = self._state.predictions.get((key, path))
            if known is None or known.deferred != (TOO_LARGE,):
                self._state.drop_prediction(key, path)
                self.show_deferred(key, path, (TOO_LARGE,))

    def _prediction(self, key: Key, path: str) -> Prediction:
        prediction = self._state.predictions.get((key, path))
        return prediction if prediction is not None else Prediction(key, path)
