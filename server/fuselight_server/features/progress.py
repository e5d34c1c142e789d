"""Work-done progress: one per run, with a button that cancels it.

Invariant: every progress that was begun is ended, when its run is over and not before.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight_server.features.status import describe

if TYPE_CHECKING:
    from fuselight_server.features.server import Server
    from fuselight_server.runs.keys import Key
    from fuselight_server.runs.queue import Running


class ProgressBars:
    """The progress that the client shows, by run."""

    def __init__(self) -> None:
        """Start with none."""
        self._shown: dict[int, tuple[str, Running, str]] = {}

    def update(self, server: Server) -> None:
        """Begin, move on and end progress, so that it shows the runs that are in flight."""
        if not server.state.client.progress:
            return
        runs = {id(run): run for run in server.analysis.runs.in_flight.values()}
        for identity in [one for one in self._shown if one not in runs]:
            token, _, _ = self._shown.pop(identity)
            _send(server, token, types.WorkDoneProgressEnd())
        for identity, run in runs.items():
            words = describe(run)
            if identity not in self._shown:
                token = str(uuid.uuid4())
                self._shown[identity] = (token, run, words)
                server.spawn(self._begin(server, identity, token, words), "progress")
            elif self._shown[identity][2] != words:
                token = self._shown[identity][0]
                self._shown[identity] = (token, run, words)
                _send(server, token, types.WorkDoneProgressReport(message=words, cancellable=True))

    async def _begin(self, server: Server, identity: int, token: str, words: str) -> None:
        # Messages are ordered, so a client that makes the token at once sees what follows; the answer is not awaited
        # before `begin`, else a short run would end before it had begun.
        asked = server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token=token))
        if identity in self._shown:
            begin = types.WorkDoneProgressBegin(title="Fuselight", message=words, cancellable=True)
            _send(server, token, begin)
        await asked

    def key(self, token: str | int) -> Key | None:
        """Return what a token's run is about; None for a token that is not ours or is over."""
        for shown, run, _ in self._shown.values():
            if shown == token:
                return run.job.key
        return None


def cancelled(server: Server, params: types.WorkDoneProgressCancelParams) -> None:
    """Answer `window/workDoneProgress/cancel`."""
    key = server.ui.run_of(params.token)
    if key is not None:
        server.analysis.runs.cancel([key])


def _send(
    server: Server,
    token: str,
    value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd,
) -> None:
    server.progress(types.ProgressParams(token=token, value=value))
