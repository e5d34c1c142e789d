"""The user interface over LSP: diagnostics, status, progress, lenses, inlay hints, questions.

Invariant: what is shown is read from the state at that moment, and is sent again only after a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lsprotocol import types

from fuselight_server.base.consent_store import first_call_of
from fuselight_server.editor.handlers.diagnostics import publish
from fuselight_server.editor.handlers.kept_consent import KeptConsent
from fuselight_server.editor.handlers.protocol import CONFIRM_RUN, REPORT_CHANGED, STATUS, without_links
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.handlers.status import TimedRunNotifications, statuses
from fuselight_server.editor.handlers.work_progress import ShownWork, WorkProgress
from fuselight_server.editor.messages.answers import ConfirmRun, FileChanged, FolderStatus
from fuselight_server.editor.results.run_progress import describe
from fuselight_server.editor.results.shown_findings import path_is_file
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.ui import Question, agents_of
from fuselight_server.execution.runs.keys import Key

_MAX_TEXTS = 20
"""Texts of kernels that are kept current."""
LENS_SECONDS = 0.3
"""Least time between two refreshes of the lenses: progress comes more often."""


class LspUi:
    """Implements `fuselight_server.editor.handlers.server.ClientUi` on LSP."""

    def __init__(self, server: Server) -> None:
        """Show things to the client of `server`."""
        self._server = server
        self._published: dict[str, list[types.Diagnostic]] = {}
        """The diagnostics that each file was sent last."""
        self._progress: WorkProgress[int] = WorkProgress(server)
        self.benches = TimedRunNotifications()
        self._consent = KeptConsent(server, self)
        self._statuses: dict[str | None, FolderStatus] = {}
        self._lens_timer: asyncio.TimerHandle | None = None
        self._status_due = False
        self._hints_due = False

    def findings_changed(self, paths: Iterable[str]) -> None:
        """Publish what is known of these files."""
        server = self._server
        paths = self.benches.update(server).union(paths)
        documents = [server.state.documents.at(path) for path in paths]
        unread = {
            document.path: document
            for document in documents
            if document is not None and not document.source.is_read
        }
        if server.state.client.push:
            publish(server, self._published, paths - unread.keys())
            for document in unread.values():
                server.spawn(self._when_read(document), "reading a large file")
        elif server.state.client.diagnostic_refresh and self._lens_timer is None:
            server.spawn(server.workspace_diagnostic_refresh_async(None), "refreshing diagnostics")

    async def _when_read(self, document: Document) -> None:
        """Publish what is known of a large document once it is read, if no later change does so."""
        version = document.version
        await document.source.read()
        if document.version == version and self._server.state.documents.get(document.uri) is document:
            publish(self._server, self._published, [document.path])

    def results_changed(self, paths: Iterable[str]) -> None:
        """Let views of these files' reports be drawn again."""
        for path in sorted(set(paths)):
            if path_is_file(path):
                changed: FileChanged = {"uri": self._server.uri_of(path)}
                self._server.announce(REPORT_CHANGED, changed)
        self.benches.update(self._server)
        self.refresh_lenses()
        self.refresh_hints()
        for uri in list(self._server.shown_texts)[-_MAX_TEXTS:]:
            refresh = types.TextDocumentContentRefreshParams(uri=uri)
            self._server.spawn(
                self._server.workspace_text_document_content_refresh_async(refresh), "refreshing a text"
            )

    def runs_changed(self) -> None:
        """Show which runs wait, move or ended."""
        running = self._server.analysis.runs.in_flight.values()
        self._progress.show({id(run): ShownWork(describe(run)) for run in running})
        self.benches.update(self._server)
        self.refresh_lenses()
        self.status_changed()

    def status_changed(self) -> None:
        """Send the statuses that differ from those that were sent, when the loop has done what it was at."""
        if not self._status_due:
            self._status_due = True
            asyncio.get_running_loop().call_soon(self._send_statuses)

    def _send_statuses(self) -> None:
        if not self._server.analysis.early.over:
            self._status_due = False
        elif self._lens_timer is not None and not any(status["running"] for status in statuses(self._server)):
            # A user who reads "ready" looks at the lenses: they are refreshed first, without a delay.
            self._lens_timer.cancel()
            self._refresh()
            asyncio.get_running_loop().call_soon(self._notify_of_statuses)
        else:
            self._notify_of_statuses()

    def _notify_of_statuses(self) -> None:
        self._status_due = False
        now = statuses(self._server)
        folders = {status["folder"] for status in now}
        self._statuses = {folder: shown for folder, shown in self._statuses.items() if folder in folders}
        for status in now:
            if self._statuses.get(status["folder"]) != status:
                self._statuses[status["folder"]] = status
                self._server.announce(STATUS, status)

    def refresh_lenses(self) -> None:
        """Let the client ask for lenses again, soon and not too often."""
        if self._server.state.client.lens_refresh and self._lens_timer is None:
            self._lens_timer = asyncio.get_running_loop().call_later(LENS_SECONDS, self._refresh)

    def _refresh(self) -> None:
        self._lens_timer = None
        self._server.spawn(self._server.workspace_code_lens_refresh_async(None), "refreshing lenses")

    def refresh_hints(self) -> None:
        """Let the client ask for inlay hints again, once the loop has finished its current step."""
        if self._server.state.client.hint_refresh and not self._hints_due:
            self._hints_due = True
            asyncio.get_running_loop().call_soon(self._refresh_hints)

    def _refresh_hints(self) -> None:
        self._hints_due = False
        self._server.spawn(self._server.workspace_inlay_hint_refresh_async(None), "refreshing inlay hints")

    def run_of(self, token: str | int) -> Key | None:
        """Return the run that a progress token belongs to; None where it is over."""
        identity, running = self._progress.work_of(token), self._server.analysis.runs.in_flight.values()
        return next((run.job.key for run in running if id(run) == identity), None)

    def say(self, text: str, *, error: bool) -> None:
        """Tell the user."""
        kind = types.MessageType.Error if error else types.MessageType.Info
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=without_links(text)))

    async def offer(self, text: str, actions: Iterable[str]) -> str | None:
        """Show a message with buttons; return the one that was pressed."""
        request = types.ShowMessageRequestParams(
            type=types.MessageType.Info,
            message=without_links(text),
            actions=[types.MessageActionItem(title=title) for title in actions],
        )
        item = await self._server.window_show_message_request_async(request)
        return item.title if item else None

    async def confirm(self, question: Question) -> str:
        """Put a question to the user; return one of its answers, `later` where it was closed without one."""
        if self._server.state.client.confirm_run:
            program = self._server.uri_of(question.program) if question.program else None
            folder = question.folder.uri or question.folder.path
            if question.is_for_agents:
                program = agents_of(folder)
            params: ConfirmRun = {
                "folder": folder,
                "program": first_call_of(program) if program and question.is_part else program,
                "message": question.message,
                "detail": question.detail,
                "answers": [{"title": title, "answer": answer} for title, answer in question.answers.items()],
                "explicit": question.explicit,
            }
            answer = await self._server.protocol.send_request_async(CONFIRM_RUN, params)
            chosen = answer.get("answer") if isinstance(answer, dict) else getattr(answer, "answer", None)
            return str(chosen)
        return await self._consent.answer(question)

    def forget_answers(self, folder: Folder) -> None:
        """Forget the answers about a folder and its programs that are kept here."""
        if not self._server.state.client.confirm_run:
            self._consent.forget_folder(folder)
