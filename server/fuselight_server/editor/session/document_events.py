"""What happens to documents and files, and the order in which the parts of the session take it in.

Invariants:

* An edit: the text that ran is kept before the edit replaces it; every tracked place moves with each change, by the
  positions of the text of that moment; then results are compared with the new text; only then is anything shown,
  verified or predicted from it, and last a file counts as saved that another program has written.
* A file that is opened, closed or written: results are compared with its text before anything runs because of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuselight_server.base.files import disk_text, within
from fuselight_server.editor.session.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.editor.session.background import BackgroundTasks
    from fuselight_server.editor.session.deliveries import UnrunnableTargets
    from fuselight_server.editor.session.disk_texts import DiskTexts
    from fuselight_server.editor.session.environment_notices import EnvironmentNotices
    from fuselight_server.editor.session.fix_session import FixSession
    from fuselight_server.editor.session.live import LivePredictions
    from fuselight_server.editor.session.run_edits import RunEdits
    from fuselight_server.editor.session.run_requests import RunRequests
    from fuselight_server.editor.session.save_runs import SaveRuns
    from fuselight_server.editor.session.state import Document, State
    from fuselight_server.editor.session.stored_results import StoredResults
    from fuselight_server.editor.session.target_runs import ProgramLines, TargetRuns
    from fuselight_server.editor.session.throttle import PendingUntilConfigured
    from fuselight_server.execution.runs.queue import Runs
    from fuselight_server.source.text_changes import Change

Edit = Callable[[], "Iterable[Change]"]
"""Makes one edit in the text of a document; returns how places in it move."""


class DocumentEvents:
    """Hands each event to every part that it concerns."""

    def __init__(
        self,
        state: State,
        runs: Runs,
        *,
        on_disk: DiskTexts,
        edits: RunEdits,
        stored: StoredResults,
        fixes: FixSession,
        live: LivePredictions,
        targets: TargetRuns,
        program_lines: ProgramLines,
        requests: RunRequests,
        saves: SaveRuns,
        unrunnable: UnrunnableTargets,
        environments: EnvironmentNotices,
        early: PendingUntilConfigured,
        tasks: BackgroundTasks,
    ) -> None:
        self._state, self._runs, self._on_disk = state, runs, on_disk
        self._edits, self._stored, self._fixes, self._live = edits, stored, fixes, live
        self._targets, self._program_lines = targets, program_lines
        self._requests, self._saves, self._unrunnable = requests, saves, unrunnable
        self._environments = environments
        self._early, self._tasks = early, tasks

    def opened(self, document: Document) -> None:
        """Take in that a document was opened, perhaps with unsaved text."""
        self._state.open(document)
        if document.runnable:
            self._on_disk.note(document.path)
            self._edits.opened(document.path)
            self._tasks.start(self._stored.show_for(document.path), "reading results of earlier sessions")
            if not self._early.keep(lambda: self.look_at_interpreter(document)):
                self.look_at_interpreter(document)

    def look_at_interpreter(self, document: Document) -> None:
        """Report an interpreter that cannot run anything, if its files show that."""
        self._tasks.start(self._environments.look(document), "looking at the interpreter")

    def changed(self, document: Document, version: int, edits: Iterable[Edit]) -> None:
        """Make the edits of an open document's text. Called on the path of each keystroke."""
        path = document.path
        self._live.before_edit(document)
        for edit in edits:
            for change in edit():
                self._edits.edited(path, change)
        document.version = version
        document.waits = document.waits and document.reading().syntax_error is not None
        self._state.compare_with_text(path, document.source)
        self._fixes.edited(path)
        self._state.mark_findings([path])
        self._live.edited(path)
        self._follow_disk(document)

    def saved(self, path: str, *, automatic: bool) -> None:
        """Take in a save of a file: run its targets, and those whose last run used it, if the settings say so."""
        self._program_lines.forget()
        if self._state.at(path) is not None:
            self._on_disk.note(path)
        if self._early.keep(lambda: self.saved(path, automatic=automatic)):
            return
        document = self._state.at(path)
        if document is None or not document.runnable:
            return
        if document.reading().syntax_error is not None and document.module is None:  # its other cells run
            self._state.log(f"no run of {path}: it does not parse")
            if not automatic:  # the editor also saves what is half-typed
                document.waits = True
                self._state.mark_results([path])
            return
        document.waits = False
        self._targets.drop_lost(path)
        self._saves.saved(path, automatic=automatic, later=lambda: self.saved(path, automatic=True))

    def closed(self, document: Document) -> None:
        """Remove a closed document; run the targets again whose results do not hold for the file on the disk."""
        path = document.path
        self._program_lines.forget(path)
        self._fixes.cancel(path=path)
        text = disk_text(path) if document.runnable else None
        changes = document.source.become(text) if text is not None else []
        for change in changes:
            self._edits.edited(path, change)
        if changes:
            self._state.compare_with_text(path, document.source)
        self._state.close(document.uri)
        self._on_disk.forget(path)
        self._live.closed(path)
        used = [self._state.captures[key] for key in self._saves.used_by_last_run(path)]
        if not changes and not any(path in result.changed_files for result in used):
            return
        if self._runs.in_flight or any(result.stale or path not in result.depends for result in used):
            self.changed_on_disk(path)

    def changed_on_disk(self, path: str) -> None:
        """Take in that a file was written, perhaps by another program. An open one counts once the editor follows."""
        self._program_lines.forget()
        if not self._early.over:
            return
        document = self._state.at(path)
        if document is not None:
            if self._on_disk.was_written_by_others(path):
                self._follow_disk(document)
            return
        self._edits.changed_on_disk(path)
        self._targets.drop_lost(path)
        self._saves.note(path, automatic=False)
        self._saves.run_after_save(path, (), Trigger("changed on disk", automatic=True))
        self._live.changed_on_disk(path)

    def gone(self, path: str) -> None:
        """Take in that a file or a folder was deleted, renamed or closed as a workspace folder."""
        self._runs.cancel([key for key in self._requests.active() if within(key.path, path)])
        files = {file for result in self._state.captures.values() for file in result.depends}
        used = [file for file in files if within(file, path)]
        self._unrunnable.forget(path)
        self._edits.gone(path)
        self._live.gone(path)
        for file in used:
            self._saves.run_after_save(file, (), Trigger("deleted", automatic=True))

    def _follow_disk(self, document: Document) -> None:
        """Take in a file that another program has written as a saved one, once the editor has its text."""
        if self._on_disk.has_followed(document.path, document.source):
            self.saved(document.path, automatic=False)
