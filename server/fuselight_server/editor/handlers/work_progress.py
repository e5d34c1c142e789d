"""Work-done progress of the client: of runs, verifications, logs that are read.

Invariant: a progress that was begun ends with its work, and a client that shows none gets none. The client gets at most
one report of a work in `REPORT_SECONDS`; `begin` and `end` do not wait, and the last report comes before `end`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from lsprotocol import types

from fuselight.shared.report.visible import visible
from fuselight_server.editor.handlers.server import Server

Progress: TypeAlias = types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd

Identity = TypeVar("Identity", bound=Hashable)
"""What distinguishes the works."""
REPORT_SECONDS = 0.1
"""Least time between two reports of a work: a verification has almost 200 steps a second."""


@dataclass(frozen=True)
class ShownWork:
    """Something that takes time, as the client shows it."""

    words: str
    title: str = "Fuselight"


class WorkProgress(Generic[Identity]):
    """The works that the client shows."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._shown: dict[Identity, _TokenProgress] = {}

    def show(self, works: Mapping[Identity, ShownWork]) -> None:
        """Begin, move on and end progress, so that the client shows these works."""
        if not self._server.state.client.progress:
            return
        for identity in self._shown.keys() - works.keys():
            self._shown.pop(identity).end()
        for identity, work in works.items():
            if identity in self._shown:
                self._shown[identity].update(work)
            else:
                self._shown[identity] = _TokenProgress(self._server, work)
                self._server.spawn(self._shown[identity].begin(), "progress")

    def work_of(self, token: str | int) -> Identity | None:
        """The work that a token belongs to; None for a token that is not ours or is over."""
        return next((identity for identity, shown in self._shown.items() if shown.token == token), None)


class _TokenProgress:
    """The messages of one work, which has a token of its own."""

    def __init__(self, server: Server, work: ShownWork) -> None:
        self._server = server
        self._work = work
        self._sent: str | None = None
        """The words that the client shows; None before `begin`."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs while no report may be sent."""
        self._has_ended = False
        self.token = str(uuid.uuid4())

    async def begin(self) -> None:
        """Begin, unless the work has ended."""
        # Messages are ordered, so a client that makes the token at once sees what follows; the answer is not awaited
        # before `begin`, else a short work would end before it had begun. pygls sends nothing for its asynchronous
        # request until that is awaited, and VS Code drops what comes for a token that it does not know.
        if self._has_ended:
            return
        params = types.WorkDoneProgressCreateParams(self.token)
        created = self._server.window_work_done_progress_create(params)
        title, words = self._work.title, visible(self._work.words)
        self._send(types.WorkDoneProgressBegin(title=title, message=words, cancellable=True))
        self._note_sent()
        await asyncio.wrap_future(created)

    def update(self, work: ShownWork) -> None:
        """Report the work: now, or when the next report may be sent."""
        self._work = work
        if self._sent is not None and self._timer is None:
            self._report()

    def end(self) -> None:
        """Report what was held back, and end."""
        self._has_ended = True
        if self._sent is None:
            return
        self._report()
        if self._timer is not None:
            self._timer.cancel()
        self._send(types.WorkDoneProgressEnd())

    def _report(self) -> None:
        """Report the work, if the client does not show it as it is."""
        if self._sent == self._work.words:
            return
        self._send(types.WorkDoneProgressReport(message=visible(self._work.words), cancellable=True))
        self._note_sent()

    def _note_sent(self) -> None:
        self._sent = self._work.words
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._may_report)

    def _may_report(self) -> None:
        self._timer = None
        self._report()

    def _send(self, value: Progress) -> None:
        self._server.progress(types.ProgressParams(self.token, value))


class VerificationProgress:
    """Shows the verifications in progress, and cancels the one that the user cancels."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._progress: WorkProgress[str] = WorkProgress(server)
        """By the id of the offer."""
        self._active: tuple[str, ...] = ()

    def update(self) -> None:
        """Begin, move on and end what the client shows."""
        server, active = self._server, self._server.analysis.fixes.tasks.active
        if self._active != tuple(active):  # not at each step: a status counts findings
            self._active = tuple(active)
            server.ui.status_changed()
        self._progress.show(
            {
                identity: ShownWork(f"verifying {task.title}{f': {task.words}' if task.words else ''}")
                for identity, task in active.items()
            }
        )

    def cancel(self, token: str | int) -> bool:
        """Cancel the verification that a token belongs to; False where it is none."""
        identity = self._progress.work_of(token)
        if identity is not None:
            self._server.analysis.fixes.cancel(identity)
        return identity is not None
