"""Predictions while the user types: what the next run would find, by rules at once and by a trace after a pause.

After an edit, rules look at the text in another thread; after `fuselight.liveDelay` without a further edit, the changed
functions are traced again in a live run (`live_runs.py`). Invariant: a keystroke schedules work and waits for none of
it. An answer for a text that is no longer there is dropped. User code runs only where a save would run it: in a trusted
workspace whose user agreed, with the setting `fuselight.run` on `save`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.shared.protocol import RETRACE_REASONS, Refused
from fuselight.shared.report import Report, Tier
from fuselight_server.base.files import within
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.rules import predict
from fuselight_server.editor.session.background import BackgroundTasks, log_failures
from fuselight_server.editor.session.intake import PROGRAM, line_reader, thresholds_of
from fuselight_server.editor.session.live_runs import MOST_LIVE_RUNS, LiveRuns, RanTexts
from fuselight_server.explain.findings import findings
from fuselight_server.source.code_changes import CodeChanges, DeferredChange, code_changes
from fuselight_server.source.code_parts import UnreadableError
from fuselight_server.source.document import LARGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fuselight.shared.protocol import RunRequest
    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.session.live_runs import LiveRunHandle, LiveWorker
    from fuselight_server.editor.session.state import Document, Folder, State
    from fuselight_server.execution.runs.keys import Key

_REST = 3.0
"""Times as long as rules have looked at a text, before they look at the next: a fast typist has the processor."""
STARTING = "the tracer is starting"
TOO_LARGE = DeferredChange("", f"the file has more than {LARGE // 1000} kB", 1)
ON_DISK = "has changed on disk since the last run"
_RETRACE_SECONDS = 5.0
_CALLERS_SECONDS = 30.0
"""Time limit of the second trace, which nobody waits for and which the next edit ends."""
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


class LivePredictions:
    """Predicts what a run of the open files as they are now would find."""

    def __init__(
        self,
        state: State,
        *,
        worker: Callable[[Folder], LiveWorker | None],
        plan: Callable[[Key, str, RunRequest | None], RunRequest | None],
        may_run: Callable[[Key], bool],
        refresh: Callable[[], None],
    ) -> None:
        """Start with nothing predicted. For `worker` and `plan` see LiveRuns.

        `may_run` says whether a save would run a target now; `refresh` draws the lenses again.
        """
        self._state = state
        self._may_run, self._refresh = may_run, refresh
        self._tasks = BackgroundTasks(log_failures(state.log))
        self._texts = RanTexts(state)
        self.runs = LiveRuns(state, self._texts, worker=worker, plan=plan, moved=self._moved)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._traces: dict[str, asyncio.Task[None]] = {}
        self._ruling: set[str] = set()
        """Files that rules are looking at."""
        self._rules_failed = False

    @property
    def is_idle(self) -> bool:
        """Whether no prediction is under way."""
        return not (self._timers or self._traces or self._ruling)

    # Events

    def before_edit(self, document: Document) -> None:
        """Keep the text that ran before an edit replaces it. Called on the path of each keystroke."""
        path = document.path
        for result in self._results(path):
            if path not in result.changed_files:
                self._texts.remember(result, path, document.source.text)

    def edited(self, path: str) -> None:
        """Predict from an edit of an open document, later. Called on the path of each keystroke."""
        self._stop(path)
        results = [result for result in self._results(path) if path in result.changed_files]
        document = self._state.at(path)
        is_on = self._is_on(path)
        self._drop(path, but={result.key for result in results} if is_on else ())
        if not results or document is None or not is_on:
            return
        if document.source.is_large:
            self._say_too_large(path, results)
            return
        if path not in self._ruling:
            self._ruling.add(path)
            self._tasks.start(self._rule(path), f"predicting from an edit of {path}")
        delay = self._state.folder_of(path).settings.live_delay / 1000
        self._timers[path] = asyncio.get_running_loop().call_later(delay, self._begin_trace, path)

    def _say_too_large(self, path: str, results: Collection[CaptureResult]) -> None:
        """Say that a file is too large for predictions, once: this is called at each keystroke."""
        for key in [result.key for result in results]:
            known = self._state.predictions.get((key, path))
            if known is None or known.deferred != (TOO_LARGE,):
                self._state.drop_prediction(key, path)
                self._show_deferred(key, path, (TOO_LARGE,))

    def accepted(self, key: Key, request: RunRequest | None) -> None:
        """Take in that a run of a target has ended with a new result."""
        result = self._state.captures.get(key)
        if result is None or not result.has_data:
            return
        self._texts.accepted(key, request)
        self.runs.accepted(result)
        for path in result.changed_files:
            if self._state.at(path) is not None:
                self.edited(path)

    def changed_on_disk(self, path: str) -> None:
        """Say why nothing is predicted from a change of a file that is not open."""
        name = os.path.basename(path)  # noqa: PTH119 - paths stay text
        for result in self._results(path) if self._is_on(path) else ():
            if path in result.changed_files:
                self._show_deferred(result.key, path, (DeferredChange("", f"{name} {ON_DISK}", 1),))
            else:
                self._state.drop_prediction(result.key, path)

    def closed(self, path: str) -> None:
        """Take in that a document was closed."""
        self._stop(path)
        self._drop(path)
        open_now = {document.path for document in self._state.documents.values()}
        self.runs.end_where(lambda run: open_now.isdisjoint(run.files), "its files are closed")

    def gone(self, path: str) -> None:
        """Take in that a file or folder was deleted or renamed."""
        for one in [one for one in {*self._timers, *self._traces} if within(one, path)]:
            self._stop(one)
        self.runs.end_where(
            lambda run: any(within(file, path) for file in (run.key.path, *run.files)), "a file of it is gone"
        )

    def restart(self, folder: str | None) -> None:
        """End what runs in the worker of a folder (None: all), and predict nothing until the next edit."""

        def concerns(path: str) -> bool:
            return folder in {None, self._state.folder_of(path).path}

        self.runs.end_where(lambda run: concerns(run.key.path), "its worker is stopped")
        self.runs.forgive()
        for path in [one for one in {*self._timers, *self._traces} if concerns(one)]:
            self._stop(path)
        for key, path in [one for one in self._state.predictions if concerns(one[0].path)]:
            self._state.drop_prediction(key, path)
        self._refresh()

    def settings_changed(self) -> None:
        """Take in that a setting or the user's consent is another one now."""
        self.runs.end_where(
            lambda run: not self._is_on(run.key.path) or not self._may_run(run.key), "it is switched off"
        )
        for prediction in self._state.predictions.values():
            prediction.is_current = False  # rules answer again, for it may be that nothing is traced any more
        for document in [one for one in self._state.documents.values() if one.runnable]:
            self.edited(document.path)

    async def close(self) -> None:
        """End everything."""
        for path in {*self._timers, *self._traces}:
            self._stop(path)
        await self.runs.close()

    # When

    def _is_on(self, path: str) -> bool:
        return self._state.trusted and self._state.folder_of(path).settings.live == "on"

    def _readable(self, path: str) -> Document | None:
        """Return the document of a file whose edits are predicted."""
        document = self._state.at(path)
        return (
            document if document is not None and not document.source.is_large and self._is_on(path) else None
        )

    def _results(self, path: str) -> list[CaptureResult]:
        """Return the captures that ran a file, those of its own targets first, of these the newest first."""
        found = [
            reported
            for result in self._state.captures.values()
            if result.key.name != PROGRAM
            and (reported := result.reported) is not None
            and path in reported.report.files
        ]
        return sorted(found, key=lambda one: (one.key.path != path, -one.generation))

    def _is_current(self, edit: EditedTarget) -> bool:
        """Whether an answer for a text still counts."""
        newest = self._state.captures.get(edit.result.key)
        return (
            newest is not None
            and newest.reported is edit.result
            and self._state.at(edit.path) is edit.document
            and edit.document.source.version == edit.version
        )

    def _begin_trace(self, path: str) -> None:
        self._stop(path)
        task = self._traces[path] = self._tasks.start(self._trace(path), f"predicting from an edit of {path}")
        task.add_done_callback(functools.partial(self._trace_ended, path))

    def _trace_ended(self, path: str, task: asyncio.Task[None]) -> None:
        if self._traces.get(path) is task:
            del self._traces[path]

    def _stop(self, path: str) -> None:
        if (timer := self._timers.pop(path, None)) is not None:
            timer.cancel()
        if (task := self._traces.pop(path, None)) is not None:
            task.cancel()

    def _moved(self, run: LiveRunHandle) -> None:
        """Trace the edits that a live run became ready for, or say why it has ended; unless the user is typing."""
        for path in run.files:
            if self._state.at(path) is not None and path not in self._timers:
                self._begin_trace(path)

    def _drop(self, path: str, but: Collection[Key] = ()) -> None:
        """Drop what is predicted from edits of a file."""
        for key, file in list(self._state.predictions):
            if file == path and key not in but:
                self._state.drop_prediction(key, path)

    def _prediction(self, key: Key, path: str) -> Prediction:
        found = self._state.predictions.get((key, path))
        return found if found is not None else Prediction(key, path)

    # Rules

    async def _rule(self, path: str) -> None:
        """Look at a file with rules, again if it is edited meanwhile: one look at a time, with rests between them."""
        try:
            while (document := self._readable(path)) is not None:
                version, text = document.source.version, document.source.text
                start = time.monotonic()
                found: list[tuple[EditedTarget, tuple[Finding, ...]]] = []
                for result in self._results(path)[:MOST_LIVE_RUNS]:
                    ran = self._texts.text(result, path)
                    if ran is not None and not _other_changes(result, path):
                        edit = EditedTarget(result, document, version, ran, text)
                        found.append((edit, await self._by_rules(edit)))
                for edit, made in found:
                    if self._is_current(edit):
                        self._take_rules(edit.result.key, path, made)
                        await self._start_early(edit)
                await asyncio.sleep(_REST * (time.monotonic() - start))
                if document.source.version == version:
                    return
        finally:
            self._ruling.discard(path)

    async def _start_early(self, edit: EditedTarget) -> None:
        """Start the live run of a target while the user types on: the first line may be half-typed for long."""
        key = edit.result.key
        if self.runs.of(key) is not None or not self._may_run(key):
            return
        try:
            is_code = bool(await asyncio.to_thread(code_changes, _encoded(edit.ran), _encoded(edit.now), ()))
        except UnreadableError:
            is_code = True
        if is_code and self._state.captures.get(key) is not None:
            await self.runs.start(edit.result)

    async def _by_rules(self, edit: EditedTarget) -> tuple[Finding, ...]:
        if self._rules_failed:
            return ()
        try:
            return await asyncio.to_thread(predict, edit.result.report, edit.path, edit.ran, edit.now)
        except Exception:  # noqa: BLE001 - any defect of ours: it is logged once, not at each keystroke
            self._rules_failed = True
            self._state.log(f"rules have failed and are off; traces go on:\n{traceback.format_exc()}")
            return ()

    def _take_rules(self, key: Key, path: str, found: tuple[Finding, ...]) -> None:
        prediction = self._prediction(key, path)
        # A trace of the same text that was faster wins.
        if not prediction.is_current and prediction.take_rules(found):
            self._state.predict(prediction)

    # Traces

    async def _trace(self, path: str) -> None:
        document = self._readable(path)
        if document is not None:
            results = [result for result in self._results(path) if path in result.changed_files]
            await asyncio.gather(
                *(
                    self._trace_target(result, document, may_start=index < MOST_LIVE_RUNS)
                    for index, result in enumerate(results)
                )
            )

    async def _trace_target(self, result: CaptureResult, document: Document, *, may_start: bool) -> None:
        """Trace what edits have changed of one target, and show that if the text is still the same then."""
        path, key = document.path, result.key
        ran = self._texts.text(result, path)
        if ran is None:
            name = os.path.basename(path)  # noqa: PTH119 - paths stay text
            self._show_deferred(key, path, (DeferredChange("", f"{name} {ON_DISK}", 1),))
            return
        edit = EditedTarget(result, document, document.source.version, ran, document.source.text)
        run = self.runs.of(key)
        traced = run.traced(path) if run is not None else frozenset[str]()
        try:
            changes = await asyncio.to_thread(code_changes, _encoded(ran), _encoded(edit.now), traced)
        except UnreadableError:
            return  # half-typed: predictions on other lines stay
        if not self._is_current(edit):
            return
        why = "" if not changes else _other_changes(result, path)
        if changes and not why and run is None:
            why = await self._start(result, may_start=may_start)
            run = self.runs.of(key)
            if not self._is_current(edit) or (run is not None and run.ready is not None):
                self._begin_trace(
                    path
                )  # meanwhile a run has ended, or an edit of another file has started it
                return
        if not changes:
            self._show_same_code(result, path, (ran, edit.now))
        elif why:
            self._show_deferred(key, path, (DeferredChange("", why, 1),))
        elif run is not None and run.ready is None:
            self._show_deferred(key, path, (DeferredChange("", STARTING, 1),))
        elif run is not None:
            await self._retrace(run, edit, _with_reasons(changes, run.untraceable(path)))

    async def _start(self, result: CaptureResult, *, may_start: bool) -> str:
        """Start the live run of a target; returns why that cannot be. `_moved` traces when it is ready."""
        if not self._may_run(result.key):
            return "edits are traced only where a save runs the target"
        if not may_start:
            return f"edits are traced for {MOST_LIVE_RUNS} targets of a file"
        return await self.runs.start(result)

    async def _retrace(self, run: LiveRunHandle, edit: EditedTarget, changes: CodeChanges) -> None:
        """Trace the changed functions and show what that finds, then do the same with the target's own function.

        A break in a function that is called in a loop sends the caller to eager mode, which a trace of the function
        alone does not show. The first answer stays where the second trace fails.
        """
        names = [one.name for one in changes.functions]
        trace = await self._trace_changed(run, edit, names) if names else None
        if isinstance(trace, Refused):
            self._refused(trace, run, edit.path, changes)
        if isinstance(trace, Refused) or not self._is_current(edit):
            return
        if trace is not None:
            changes = _without_problems(trace[0], changes)
        if trace is None or not changes.functions:
            self._show_deferred(run.key, edit.path, changes.deferred)
            return
        self._show_trace(run.key, edit, trace, changes)
        entry, names = run.entry(edit.path), [one.name for one in changes.functions]
        if entry is None or entry in names or any(one.what == entry for one in changes.deferred):
            return
        trace = await self._trace_functions(
            run, edit, [*names, entry], _CALLERS_SECONDS, includes_callers=True
        )
        if trace is not None and not isinstance(trace, Refused) and not _problems(trace[0]):
            self._show_trace(run.key, edit, trace, changes, includes_callers=True)

    async def _trace_changed(
        self, run: LiveRunHandle, edit: EditedTarget, names: list[str]
    ) -> tuple[Report, tuple[Finding, ...]] | Refused | None:
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
        """Show the breaks that a trace has found so far: the rest of its answer is not known yet."""
        found = await asyncio.to_thread(self._findings, report, edit, includes_callers=False)
        if self._is_current(edit) and self._is_on(edit.path):
            prediction = self._prediction(run.key, edit.path)
            if prediction.take_early(edit.result, found, (edit.ran, edit.now)):
                self._state.predict(prediction)
                self._refresh()

    async def _trace_functions(
        self,
        run: LiveRunHandle,
        edit: EditedTarget,
        names: list[str],
        seconds: float,
        on_early: Callable[[Report], None] | None = None,
        *,
        includes_callers: bool = False,
    ) -> tuple[Report, tuple[Finding, ...]] | Refused | None:
        """Trace functions of a text, and return what that finds; None where the text is another by then."""
        start = time.monotonic()
        outcome = await run.retrace(edit.path, edit.now, names, seconds, on_early)
        if not self._is_current(edit):
            return None
        failed = isinstance(outcome, Refused) or _problems(outcome.report)
        took, what = 1000 * (time.monotonic() - start), ", ".join(names)
        self._state.log(
            f"live run of {run.key.words}: {'not ' if failed else ''}traced {what} in {took:.0f} ms"
        )
        if isinstance(outcome, Refused):
            return outcome
        found = await asyncio.to_thread(
            self._findings, outcome.report, edit, includes_callers=includes_callers
        )
        return (outcome.report, found) if self._is_current(edit) else None

    def _show_trace(
        self,
        key: Key,
        edit: EditedTarget,
        trace: tuple[Report, tuple[Finding, ...]],
        changes: CodeChanges,
        *,
        includes_callers: bool = False,
    ) -> None:
        prediction = self._prediction(key, edit.path)
        prediction.deferred = changes.deferred
        texts = edit.ran, edit.now
        prediction.take_trace(
            edit.result, *trace, changes.functions, texts, includes_callers=includes_callers
        )
        self._state.predict(prediction)
        self._refresh()

    def _findings(self, report: Report, edit: EditedTarget, *, includes_callers: bool) -> tuple[Finding, ...]:
        """Make the findings of a trace, off the event loop."""
        result = edit.result
        thresholds = thresholds_of(self._state.folder_of(result.key.path).settings)
        report = replace(
            report, tier=Tier.PREDICTED, inputs=result.report.inputs, target=result.report.target
        )
        return findings(
            report,
            thresholds=thresholds,
            read_line=line_reader({edit.path: edit.now}),
            includes_callers=includes_callers,
        )

    def _refused(self, outcome: Refused, run: LiveRunHandle, path: str, changes: CodeChanges) -> None:
        if outcome.reason == "no_live":
            self.runs.lost(run)
            self._begin_trace(path)
        elif outcome.reason not in {"cancelled", "syntax"}:
            why = RETRACE_REASONS.get(outcome.reason, "the trace failed")
            said = outcome.failure.message if outcome.failure is not None else why
            self._state.log(f"live run of {run.key.words}: {outcome.reason}: {said}")
            deferred = [DeferredChange(one.name, why, one.first) for one in changes.functions]
            self._show_deferred(run.key, path, (*changes.deferred, *deferred))

    def _show_same_code(self, result: CaptureResult, path: str, texts: tuple[str, str]) -> None:
        """Show that nothing differs but comments and the like."""
        prediction = self._prediction(result.key, path)
        prediction.take_same_code(result, texts)
        if any(prediction.findings()):
            self._state.predict(prediction)
        else:
            self._state.drop_prediction(result.key, path)
        self._refresh()

    def _show_deferred(self, key: Key, path: str, deferred: tuple[DeferredChange, ...]) -> None:
        """Show why nothing is traced."""
        prediction = self._prediction(key, path)
        prediction.deferred = deferred
        prediction.forget_trace()
        self._state.predict(prediction)
        self._refresh()


def _other_changes(result: CaptureResult, path: str) -> str:
    """Say which files besides one have changed since a run; empty for none."""
    others = sorted((result.changed_files & result.depends) - {path})
    if not others:
        return ""
    names = ", ".join(os.path.basename(one) for one in others)  # noqa: PTH119 - paths stay text
    return f"{names} has changed, too" if len(others) == 1 else f"{names} have changed, too"


def _with_reasons(changes: CodeChanges, why_not: dict[str, str]) -> CodeChanges:
    """Say why the arguments of a function were not kept, instead of that it was not traced."""
    deferred = tuple(replace(one, why=why_not.get(one.what, one.why)) for one in changes.deferred)
    return replace(changes, deferred=deferred)


def _problems(report: Report) -> dict[str, str]:
    """Say why functions could not be traced, by their names."""
    return {one.what: one.why for one in report.problems if one.stage == _RETRACE_STAGE}


def _without_problems(report: Report, changes: CodeChanges) -> CodeChanges:
    """Turn the functions that could not be traced into deferred changes."""
    problems = _problems(report)
    deferred = []
    for one in changes.functions:
        if one.name in problems:
            reason, _, detail = problems[one.name].partition(":")
            deferred.append(
                DeferredChange(one.name, RETRACE_REASONS.get(reason, detail.strip() or reason), one.first)
            )
    functions = tuple(one for one in changes.functions if one.name not in problems)
    return CodeChanges(functions, (*changes.deferred, *deferred))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
