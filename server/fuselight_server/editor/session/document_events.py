"""What happens to documents and files, and the order in which the parts of the session take it in.

Invariants:

* An edit: the text that ran is kept before the edit replaces it; every tracked place moves with each change, by the
  positions of the text of that moment; then results are compared with the new text; only then is anything shown,
  verified or predicted from it, and last a file counts as saved that another program has written.
* A file that is opened, closed or written: results are compared with its text before anything runs because of it.

A save, after which nothing but runs changes, is an event of `run_requests.SaveRuns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fuselight_server.base.files import disk_text, within
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.environments import Environments
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.live import LivePredictions
from fuselight_server.editor.session.run_requests import SaveRuns
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.source.text_changes import Change

Edit = Callable[[], "Iterable[Change]"]
"""Makes one edit in the text of a document; returns how places in it move."""


class DocumentEvents:
    """Hands each event to every part that it concerns."""

    def __init__(
        self,
        session: Session,
        *,
        environments: Environments,
        stored: StoredResults,
        fixes: FixSession,
        live: LivePredictions,
        saves: SaveRuns,
    ) -> None:
        self._session, self._state, self._edits = session, session.state, session.edits
        self._environments, self._stored, self._fixes = environments, stored, fixes
        self._live, self._saves = live, saves
        self.on_edit: Callable[[], None] = lambda: None
        """Called after each edit."""

    def opened(self, document: Document) -> None:
        """Take in that a document was opened, perhaps with unsaved text."""
        self._state.open(document)
        if document.runnable:
            self._saves.on_disk.note(document.path)
            self._edits.opened(document.path)
            results = self._stored.show_for(document.path)
            self._session.tasks.start(results, "reading results of earlier sessions")
            if not self._session.early.keep_request(lambda: self._environments.look(document)):
                self._environments.look(document)

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
        self.on_edit()
        self._state.mark_findings([path])
        self._live.edited(path)
        self._saves.follow_disk(document)

    def closed(self, document: Document) -> None:
        """Remove a closed document; run the targets again whose results do not hold for the file on the disk.

        Closing without saving takes the edits back, so the tracked places move by the difference to the disk first;
        otherwise findings would stay on lines of a text that is gone.
        """
        path = document.path
        self._fixes.cancel(path=path)
        text = disk_text(path) if document.runnable else None
        changes = document.source.become(text) if text is not None else []
        for change in changes:
            self._edits.edited(path, change)
        if changes:
            self._state.compare_with_text(path, document.source)
        self._state.close(document.uri)
        self._saves.closed(path)
        self._live.closed(path)
        used = [self._state.captures[key] for key in self._saves.used_by_last_run(path)]
        if not changes and not any(path in result.changed_files for result in used):
            return
        if self._session.runs.in_flight or any(result.stale or path not in result.depends for result in used):
            self.changed_on_disk(path)

    def changed_on_disk(self, path: str) -> None:
        """Take in that a file was written, perhaps by another program. An open one counts once the editor follows."""
        self._saves.program_lines.forget_lines()
        if not self._session.early.over:
            return
        document = self._state.documents.at(path)
        if document is not None:
            if self._saves.on_disk.was_written_by_others(path):
                self._saves.follow_disk(document)
            return
        self._edits.changed_on_disk(path)
        self._saves.changed_on_disk(path)
        self._live.changed_on_disk(path)

    def remove_path(self, path: str) -> None:
        """Take in that a file or a folder was deleted, renamed or closed as a workspace folder."""
        self._session.runs.cancel([key for key in self._session.active() if within(key.path, path)])
        files = {file for result in self._state.captures.values() for file in result.depends}
        used = [file for file in files if within(file, path)]
        self._environments.forget_path(path)
        self._edits.remove_path(path)
        self._live.remove_path(path)
        for file in used:
            self._saves.run_users(file, "deleted")
