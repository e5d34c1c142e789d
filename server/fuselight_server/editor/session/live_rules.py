"""Predictions by rules, at once: they look at an edited text in another thread."""

from __future__ import annotations

import asyncio
import time
import traceback
from typing import TYPE_CHECKING

from fuselight_server.editor.rules import predict
from fuselight_server.editor.session.background import BackgroundTasks, log_failures
from fuselight_server.editor.session.live_edits import EditedTarget, encoded, other_changes
from fuselight_server.editor.session.live_runs import MOST_LIVE_RUNS
from fuselight_server.source.code_changes import code_changes
from fuselight_server.source.code_parts import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.session.live_runs import LiveRuns, RanTexts
    from fuselight_server.editor.session.shown_predictions import EditedFiles, ShownPredictions
    from fuselight_server.editor.session.state import State
    from fuselight_server.execution.runs.keys import Key

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
                for result in self._files.results(path)[:MOST_LIVE_RUNS]:
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
