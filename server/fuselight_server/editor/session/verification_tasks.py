"""Verifications in progress: one at a time runs, the others wait for their turn.

Invariant: a verification that somebody waits for is never automatic, and waits for no automatic one.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.editor.session.background import BackgroundTasks, trace_of

if TYPE_CHECKING:
    from collections.abc import Container

    from fuselight_server.editor.session.state import State


class InterruptedVerificationError(Exception):
    """A run did not reach its end, for a reason outside the user's code. Nothing is known of the fix."""


@dataclass
class VerificationTask:
    """One in progress, or waiting for its turn."""

    title: str
    """What is verified, as `Use torch.where`."""
    path: str
    task: asyncio.Task[Any]
    token: CancelToken
    """What a cancel ends it by."""
    is_automatic: bool
    words: str = ""
    """Its progress."""


class VerificationTasks:
    """Starts and cancels verifications."""

    def __init__(self, state: State) -> None:
        """Start with none."""
        self._state = state
        self.on_change: Callable[[], None] = lambda: None
        """Called when a verification begins, moves on or ends."""
        self.active: dict[str, VerificationTask] = {}
        self.turn = asyncio.Lock()
        """Held by the one that runs."""
        self._tasks = BackgroundTasks(self._log_failure)
        """Those in progress, and those that are canceled and have not ended."""

    def start(
        self,
        identity: str,
        title: str,
        path: str,
        verify: Callable[[CancelToken], Coroutine[Any, Any, object]],
    ) -> VerificationTask:
        """Begin a verification, or return the one in progress; automatic until somebody waits for it."""
        active = self.active.get(identity)
        if active is None:
            token = CancelToken()
            task = token.bind(self._tasks.start(verify(token), title))
            active = self.active[identity] = VerificationTask(title, path, task, token, is_automatic=True)
            task.add_done_callback(functools.partial(self._ended, identity))
            self.on_change()
        return active

    def cancel(self, identity: str | None = None, *, path: str | None = None) -> None:
        """Cancel one verification, those of a file, or all."""
        for known, active in list(self.active.items()):
            if identity in {None, known} and path in {None, active.path}:
                self._cancel(known)

    def cancel_automatic(self, but: Container[str]) -> None:
        """Cancel those that nobody waits for."""
        for identity, active in list(self.active.items()):
            if active.is_automatic and identity not in but:
                self._cancel(identity)

    def is_automatic(self, identity: str) -> bool:
        """Whether nobody waits for a verification."""
        active = self.active.get(identity)
        return active is None or active.is_automatic

    def show(self, identity: str) -> Callable[[str], None]:
        """Return what shows the progress of a verification."""

        def show(words: str) -> None:
            active = self.active.get(identity)
            if active is not None and active.words != words:
                active.words = words
                self.on_change()

        return show

    async def close(self) -> None:
        """Cancel every verification, and wait for their ends."""
        self.cancel()
        await self._tasks.wait()

    def _cancel(self, identity: str) -> None:
        """Cancel a verification. Its run takes a moment to end: from now on it can begin again."""
        self.active.pop(identity).token.cancel()
        self.on_change()

    def _log_failure(self, title: str, error: BaseException) -> None:
        trace = "" if isinstance(error, InterruptedVerificationError) else f"\n{trace_of(error)}"
        self._state.log(f"`{title}` was not verified: {error!r}{trace}")

    def _ended(self, identity: str, task: asyncio.Task[Any]) -> None:
        active = self.active.get(identity)
        if active is not None and active.task is task:
            del self.active[identity]
            self.on_change()


async def result_of(task: asyncio.Task[Any], seconds: float | None) -> Any:
    """What a task returns; None if that takes longer, or it was canceled or interrupted. The task goes on."""
    await asyncio.wait({task}, timeout=seconds)
    if not task.done() or task.cancelled() or isinstance(task.exception(), InterruptedVerificationError):
        return None
    return task.result()
