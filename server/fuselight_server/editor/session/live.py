"""Predictions while the user types: what the next run would find, by rules at once and by a trace after a pause.

After an edit, rules look at the text in another thread; after `fuselight.liveDelay` without a further edit, the changed
functions are traced again in a live run (`live_runs.py`). Invariant: a keystroke schedules work and waits for none of
it. An answer for a text that is no longer there is dropped. User code runs only where a save would run it: in a trusted
workspace whose user agreed, with the setting `fuselight.run` on `save`.
"""

from __future__ import annotations

import asyncio
import functools
import time
import traceback
from collections.abc import Callable

from fuselight.shared.protocol import RunRequest
from fuselight_server.base.background import BackgroundTasks, log_failures
from fuselight_server.base.files import within
from fuselight_server.base.finding import Finding
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.rules import predict
from fuselight_server.editor.session.live_edits import (
    EditedFiles,
    EditedTarget,
    ShownPredictions,
    changed_on_disk,
    encoded,
    other_changes,
)
from fuselight_server.editor.session.live_runs import (
    MAX_LIVE_RUNS,
    LiveRunHandle,
    LiveRuns,
    LiveWorker,
    RanTexts,
)
from fuselight_server.editor.session.live_traces import LiveTraces
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.code_changes import code_changes
from fuselight_server.source.code_parts import UnreadableError

_REST = 3.0
"""Times as long as rules have looked at a text, before they look at the next: a fast typist has the processor."""


class LiveRules:
    """Looks at files."""

    def __init__(
        self,
        state: State,
        files: EditedFiles,
        shown: ShownPredictions,
        *,
        texts: RanTexts,
        runs: LiveRuns,
        may_run: Callable[[Key], bool],
    ) -> None:
        """`may_run` says whether a save would run a target now: its live run is then started early."""
        self._state, self._files, self._shown = state, files, shown
        self._texts, self._runs, self._may_run = texts, runs, may_run
        self._tasks = BackgroundTasks(log_failures(state.log))
        self._ruling: set[str] = set()
        """Files that rules are looking at."""
        self._rules_failed = False

    @property
    def is_idle(self) -> bool:
        """Whether no file is looked at."""
        return not self._ruling

    def start(self, path: str) -> None:
        """Look at a file, unless that is in progress: it looks again if the text has changed."""
        if path not in self._ruling:
            self._ruling.add(path)
            self._tasks.start(self._rule(path), f"predicting from an edit of {path}")

    async def _rule(self, path: str) -> None:
        """Look at a file with rules, again if it is edited meanwhile: one look at a time, with rests between them."""
        try:
            while (document := self._files.readable(path)) is not None:
                version, text = document.source.version, document.source.text
                start = time.monotonic()
                findings_of_targets: list[tuple[EditedTarget, tuple[Finding, ...]]] = []
                for result in self._files.results(path)[:MAX_LIVE_RUNS]:
                    ran = self._texts.text(result, path)
                    if ran is not None and not other_changes(result, path):
                        edit = EditedTarget(result, document, version, ran, text)
                        findings_of_targets.append((edit, await self._by_rules(edit)))
                for edit, findings in findings_of_targets:
                    if self._files.is_current(edit):
                        self._shown.take_rules(edit.result.key, path, findings)
                        await self._start_early(edit)
                await asyncio.sleep(_REST * (time.monotonic() - start))
                if document.source.version == version:
                    return
        finally:
            self._ruling.discard(path)

    async def _start_early(self, edit: EditedTarget) -> None:
        """Start the live run of a target while the user types on: the first line may be half-typed for long."""
        key = edit.result.key
        if self._runs.of(key) is not None or not self._may_run(key):
            return
        try:
            is_code = bool(await asyncio.to_thread(code_changes, encoded(edit.ran), encoded(edit.now), ()))
        except UnreadableError:
            is_code = True
        if is_code and self._state.captures.get(key) is not None:
            await self._runs.start(edit.result)

    async def _by_rules(self, edit: EditedTarget) -> tuple[Finding, ...]:
        if self._rules_failed:
            return ()
        try:
            return await asyncio.to_thread(predict, edit.result.report, edit.path, edit.ran, edit.now)
        except Exception:  # noqa: BLE001 - any defect of ours: it is logged once, not at each keystroke
            self._rules_failed = True
            self._state.log(f"rules have failed and are off; traces go on:\n{traceback.format_exc()}")
            return ()


class LivePredictions:
    """Decides what is predicted when: an event schedules rules and traces."""

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
        self._texts = RanTexts(state)
        self._files = EditedFiles(state)
        self._shown = ShownPredictions(state, refresh)
        self.runs = LiveRuns(state, self._texts, worker=worker, plan=plan, moved=self._moved)
        self._rules = LiveRules(
            state, self._files, self._shown, texts=self._texts, runs=self.runs, may_run=may_run
        )
        self._tracing = LiveTraces(
            state,
            self._files,
            self._shown,
            texts=self._texts,
            runs=self.runs,
            may_run=may_run,
            again=self._begin_trace,
        )
        self._tasks = BackgroundTasks(log_failures(state.log))
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._traces: dict[str, asyncio.Task[None]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no prediction is under way."""
        return not (self._timers or self._traces) and self._rules.is_idle

    def before_edit(self, document: Document) -> None:
        """Keep the text that ran before an edit replaces it. Called on the path of each keystroke."""
        path = document.path
        for result in self._files.results(path):
            if path not in result.changed_files:
                self._texts.remember(result, path, document.source.text)

    def edited(self, path: str) -> None:
        """Predict from an edit of an open document, later. Called on the path of each keystroke."""
        self._stop(path)
        results = [result for result in self._files.results(path) if path in result.changed_files]
        document = self._state.documents.at(path)
        is_on = self._files.is_on(path)
        self._shown.drop(path, but={result.key for result in results} if is_on else ())
        if not results or document is None or not is_on:
            return
        if document.source.is_large:
            self._shown.show_too_large(path, results)
            return
        self._rules.start(path)
        delay = self._state.folder_of(path).settings.live_delay / 1000
        self._timers[path] = asyncio.get_running_loop().call_later(delay, self._begin_trace, path)

    def accepted(self, key: Key, request: RunRequest | None) -> None:
        """Take in that a run of a target has ended with a new result."""
        result = self._state.captures.get(key)
        if result is None or not result.has_data:
            return
        self._texts.accepted(key, request)
        self.runs.accepted(result)
        for path in result.changed_files:
            if self._state.documents.at(path) is not None:
                self.edited(path)

    def changed_on_disk(self, path: str) -> None:
        """Say why nothing is predicted from a change of a file that is not open."""
        for result in self._files.results(path) if self._files.is_on(path) else ():
            if path in result.changed_files:
                self._shown.show_deferred(result.key, path, (changed_on_disk(path),))
            else:
                self._state.drop_prediction(result.key, path)

    def closed(self, path: str) -> None:
        """Take in that a document was closed."""
        self._stop(path)
        self._shown.drop(path)
        open_now = {document.path for document in self._state.documents.values()}
        self.runs.end_where(lambda run: open_now.isdisjoint(run.files), "its files are closed")

    def remove_path(self, path: str) -> None:
        """Take in that a file or folder was deleted or renamed."""
        for timer in [timer for timer in {*self._timers, *self._traces} if within(timer, path)]:
            self._stop(timer)
        self.runs.end_where(
            lambda run: any(within(file, path) for file in (run.key.path, *run.files)), "a file of it is gone"
        )

    def restart(self, folder: str | None) -> None:
        """End what runs in the worker of a folder (None: all), and predict nothing until the next edit."""

        def concerns(path: str) -> bool:
            return folder in {None, self._state.folder_of(path).path}

        self.runs.end_where(lambda run: concerns(run.key.path), "its worker is stopped")
        self.runs.forgive()
        for path in [timer for timer in {*self._timers, *self._traces} if concerns(timer)]:
            self._stop(path)
        for key, path in [
            prediction for prediction in self._state.predictions if concerns(prediction[0].path)
        ]:
            self._state.drop_prediction(key, path)
        self._refresh()

    def settings_changed(self) -> None:
        """Apply a change of a setting or of the user's consent."""
        self.runs.end_where(
            lambda run: not self._files.is_on(run.key.path) or not self._may_run(run.key),
            "it is switched off",
        )
        for prediction in self._state.predictions.values():
            prediction.is_current = False  # rules answer again, for it may be that nothing is traced any more
        for document in [document for document in self._state.documents.values() if document.runnable]:
            self.edited(document.path)

    async def close(self) -> None:
        """End everything."""
        for path in {*self._timers, *self._traces}:
            self._stop(path)
        await self.runs.close()

    def _begin_trace(self, path: str) -> None:
        self._stop(path)
        task = self._traces[path] = self._tasks.start(
            self._tracing.trace(path), f"predicting from an edit of {path}"
        )
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
            if self._state.documents.at(path) is not None and path not in self._timers:
                self._begin_trace(path)
