"""Predictions by traces: the changed functions of a text are traced again in the live run of a target.

Invariant: user code runs only where a save would run it. An answer is shown only while its text is there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fuselight.shared.protocol import RETRACE_REASONS, Refused
from fuselight.shared.report import Report
from fuselight_server.base.background import BackgroundTasks, log_failures
from fuselight_server.base.finding import Finding
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.predictions import STARTING
from fuselight_server.editor.results.report_reading import thresholds_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.live_edits import (
    EditedFiles,
    EditedTarget,
    FunctionTrace,
    ShownPredictions,
    changed_on_disk,
    encoded,
    other_changes,
    problems,
    trace_findings,
    with_reasons,
    without_problems,
)
from fuselight_server.editor.session.live_runs import MAX_LIVE_RUNS, LiveRunHandle, LiveRuns, RanTexts
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.code_changes import CodeChanges, DeferredChange, code_changes
from fuselight_server.source.code_parts import UnreadableError

_RETRACE_SECONDS = 5.0
_CALLERS_SECONDS = 30.0
"""Time limit of the second trace, which nobody waits for and which the next edit ends."""


class LiveTraces:
    """Traces the edits of files."""

    def __init__(
        self,
        state: State,
        files: EditedFiles,
        shown: ShownPredictions,
        *,
        texts: RanTexts,
        runs: LiveRuns,
        may_run: Callable[[Key], bool],
        again: Callable[[str], None],
    ) -> None:
        """`may_run` says whether a save would run a target now; `again` begins another trace of a file."""
        self._state, self._files, self._shown = state, files, shown
        self._texts, self._runs = texts, runs
        self._may_run, self._again = may_run, again
        self._tasks = BackgroundTasks(log_failures(state.log))

    async def trace(self, path: str) -> None:
        """Trace what edits of a file have changed of each target."""
        document = self._files.readable(path)
        if document is not None:
            results = [result for result in self._files.results(path) if path in result.changed_files]
            await asyncio.gather(
                *(
                    self._trace_target(result, document, may_start=index < MAX_LIVE_RUNS)
                    for index, result in enumerate(results)
                )
            )

    async def _trace_target(self, result: CaptureResult, document: Document, *, may_start: bool) -> None:
        """Trace what edits have changed of one target, and show that if the text is still the same then."""
        path, key = document.path, result.key
        ran = self._texts.text(result, path)
        if ran is None:
            self._shown.show_deferred(key, path, (changed_on_disk(path),))
            return
        edit = EditedTarget(result, document, document.source.version, ran, document.source.text)
        run = self._runs.of(key)
        traced = run.traced(path) if run is not None else frozenset[str]()
        try:
            changes = await asyncio.to_thread(code_changes, encoded(ran), encoded(edit.now), traced)
        except UnreadableError:
            return  # half-typed: predictions on other lines stay
        if not self._files.is_current(edit):
            return
        why = "" if not changes else other_changes(result, path)
        if changes and not why and run is None:
            why = await self._start(result, may_start=may_start)
            run = self._runs.of(key)
            if not self._files.is_current(edit) or (run is not None and run.ready is not None):
                self._again(path)  # meanwhile a run has ended, or an edit of another file has started it
                return
        if not changes:
            self._shown.show_same_code(result, path, (ran, edit.now))
        elif why:
            self._shown.show_deferred(key, path, (DeferredChange("", why, 1),))
        elif run is not None and run.ready is None:
            self._shown.show_deferred(key, path, (DeferredChange("", STARTING, 1),))
        elif run is not None:
            await self._retrace(run, edit, with_reasons(changes, run.untraceable(path)))

    async def _start(self, result: CaptureResult, *, may_start: bool) -> str:
        """Start the live run of a target; returns why that cannot be. `_moved` traces when it is ready."""
        if not self._may_run(result.key):
            return "edits are traced only where a save runs the target"
        if not may_start:
            return f"edits are traced for {MAX_LIVE_RUNS} targets of a file"
        return await self._runs.start(result)

    async def _retrace(self, run: LiveRunHandle, edit: EditedTarget, changes: CodeChanges) -> None:
        """Trace the changed functions and show what that finds, then do the same with the target's own function.

        A break in a function that is called in a loop sends the caller to eager mode, which a trace of the function
        alone does not show. The first answer stays where the second trace fails.
        """
        names = [function.name for function in changes.functions]
        trace = await self._trace_changed(run, edit, names) if names else None
        if isinstance(trace, Refused):
            self._refused(trace, run, edit.path, changes)
        if isinstance(trace, Refused) or not self._files.is_current(edit):
            return
        if trace is not None:
            changes = without_problems(trace.report, changes)
        if trace is None or not changes.functions:
            self._shown.show_deferred(run.key, edit.path, changes.deferred)
            return
        self._shown.take_trace(run.key, edit, trace, changes)
        entry, names = run.entry(edit.path), [function.name for function in changes.functions]
        if entry is None or entry in names or any(change.what == entry for change in changes.deferred):
            return
        trace = await self._trace_functions(
            run, edit, [*names, entry], _CALLERS_SECONDS, includes_callers=True
        )
        if trace is not None and not isinstance(trace, Refused) and not problems(trace.report):
            self._shown.take_trace(run.key, edit, trace, changes, includes_callers=True)

    async def _trace_changed(
        self, run: LiveRunHandle, edit: EditedTarget, names: list[str]
    ) -> FunctionTrace | Refused | None:
        """Trace the changed functions of a text as `_trace_functions` does; show its breaks before it has ended."""
        shown: list[asyncio.Task[None]] = []

        def on_early(report: Report) -> None:
            work = self._show_early(run, edit, report)
            shown.append(self._tasks.start(work, "showing breaks before the end of a trace"))

        try:
            return await self._trace_functions(run, edit, names, _RETRACE_SECONDS, on_early)
        finally:  # the trace has ended, or nobody waits for it any more
            for task in shown:
                task.cancel()

    async def _show_early(self, run: LiveRunHandle, edit: EditedTarget, report: Report) -> None:
        findings = await self._findings(report, edit, includes_callers=False)
        if self._files.is_current(edit) and self._files.is_on(edit.path):
            self._shown.take_early(run.key, edit, findings)

    async def _trace_functions(
        self,
        run: LiveRunHandle,
        edit: EditedTarget,
        names: list[str],
        seconds: float,
        on_early: Callable[[Report], None] | None = None,
        *,
        includes_callers: bool = False,
    ) -> FunctionTrace | Refused | None:
        """Trace functions of a text, and return what that finds; None where the text is another by then."""
        start = time.monotonic()
        outcome = await run.retrace(edit.path, edit.now, names, seconds, on_early)
        if not self._files.is_current(edit):
            return None
        failed = isinstance(outcome, Refused) or problems(outcome.report)
        took, what = 1000 * (time.monotonic() - start), ", ".join(names)
        self._state.log(
            f"live run of {run.key.words}: {'not ' if failed else ''}traced {what} in {took:.0f} ms"
        )
        if isinstance(outcome, Refused):
            return outcome
        findings = await self._findings(outcome.report, edit, includes_callers=includes_callers)
        return FunctionTrace(outcome.report, findings) if self._files.is_current(edit) else None

    async def _findings(
        self, report: Report, edit: EditedTarget, *, includes_callers: bool
    ) -> tuple[Finding, ...]:
        """Make the findings of a trace, off the event loop."""
        thresholds = thresholds_of(self._state.folder_of(edit.result.key.path).settings)
        return await asyncio.to_thread(
            trace_findings, report, edit, thresholds, includes_callers=includes_callers
        )

    def _refused(self, outcome: Refused, run: LiveRunHandle, path: str, changes: CodeChanges) -> None:
        if outcome.reason == "no_live":
            self._runs.lost(run)
            self._again(path)
        elif outcome.reason not in {"cancelled", "syntax"}:
            why = RETRACE_REASONS.get(outcome.reason, "the trace failed")
            message = outcome.failure.message if outcome.failure is not None else why
            self._state.log(f"live run of {run.key.words}: {outcome.reason}: {message}")
            deferred = [DeferredChange(function.name, why, function.first) for function in changes.functions]
            self._shown.show_deferred(run.key, path, (*changes.deferred, *deferred))
