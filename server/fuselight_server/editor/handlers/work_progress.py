"""Work-done progress of the client: of runs, verifications, logs that are read.

Invariant: a progress that was begun ends with its work, and a client that shows none gets none.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from lsprotocol import types

from fuselight.shared.report.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight_server.editor.handlers.server import Server

Identity = TypeVar("Identity", bound=Hashable)
"""What distinguishes the works."""


@dataclass(frozen=True)
class ShownWork:
    """Something that takes time, as the client shows it."""

    words: str
    title: str = "Fuselight"


class WorkProgress(Generic[Identity]):
    """The works that the client shows."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._shown: dict[Identity, tuple[str, ShownWork]] = {}
        """Token and work."""

    def show(self, works: Mapping[Identity, ShownWork]) -> None:
        """Begin, move on and end progress, so that the client shows these works."""
        if not self._server.state.client.progress:
            return
        for identity in self._shown.keys() - works.keys():
            token, _ = self._shown.pop(identity)
            self._server.progress(types.ProgressParams(token, types.WorkDoneProgressEnd()))
        for identity, work in works.items():
            if identity not in self._shown:
                self._shown[identity] = (str(uuid.uuid4()), work)
                self._server.spawn(self._begin(identity), "progress")
                continue
            token, before = self._shown[identity]
            if before.words != work.words:
                self._shown[identity] = (token, work)
                report = types.WorkDoneProgressReport(message=visible(work.words), cancellable=True)
                self._server.progress(types.ProgressParams(token, report))

    async def _begin(self, identity: Identity) -> None:
        # Messages are ordered, so a client that makes the token at once sees what follows; the answer is not awaited
        # before `begin`, else a short work would end before it had begun.
        if identity not in self._shown:
            return
        token, work = self._shown[identity]
        asked = self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token))
        begin = types.WorkDoneProgressBegin(title=work.title, message=visible(work.words), cancellable=True)
        self._server.progress(types.ProgressParams(token, begin))
        await asked

    def work_of(self, token: str | int) -> Identity | None:
        """The work that a token belongs to; None for a token that is not ours or is over."""
        return next((identity for identity, (shown, _) in self._shown.items() if shown == token), None)
