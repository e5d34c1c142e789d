"""Verifications of fixes: their runs beside the queue, in the worker of the folder, and those in progress.

Invariants:

* A run starts no sooner than the user has agreed to runs of the target.
* One verification runs at a time, the others wait. One that somebody waits for is never automatic, and waits for no
  automatic one.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Container, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from fuselight.shared.protocol import Answer, Progress, RunRequest
from fuselight.shared.report import Culprit, Report
from fuselight_server.base.background import BackgroundTasks, trace_of
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.editor.session.consent import RUN, UNTRUSTED, AskedRuns, RunPermissions, Trigger
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.ui import Ui
from fuselight_server.editor.session.workers import Workers, worker_key
from fuselight_server.execution.runs.keys import Key, WorkerKey

_Result = TypeVar("_Result")
_SILENT_SECONDS = 2.0
"""How long a chosen fix is verified before the user reads that it is."""


async def announced(ui: Ui, text: str, verification: Coroutine[Any, Any, _Result]) -> _Result:
    """Wait for a verification that the user has chosen, and say `text` if it takes long."""
    notice = asyncio.get_running_loop().call_later(_SILENT_SECONDS, lambda: ui.say(text, error=False))
    try:
        return await verification
    finally:
        notice.cancel()


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


Execute = Callable[["RunRequest", Callable[["Progress"], None]], Awaitable["Report"]]
"""Runs a request outside the queue. Raises InterruptedVerificationError; canceling it cancels the run."""


@dataclass(frozen=True)
class PreparedRun:
    """A run that the user has agreed to."""

    request: RunRequest
    execute: Execute
    worker: str
    """What identifies the worker: its interpreter and environment."""


Prepare = Callable[["Key", bool], "PreparedRun | None"]
"""Prepares the run of a target, automatic or because the user asked for it; None where it must not run."""


class VerificationRuns:
    """Prepares them, and asks the user about them."""

    def __init__(self, session: Session, permissions: RunPermissions, workers: Workers) -> None:
        self._session, self._state, self._ui = session, session.state, session.ui
        self._permissions, self._workers = permissions, workers

    def prepare(self, key: Key, automatic: bool) -> PreparedRun | None:  # noqa: FBT001 - a callback
        """Prepare the run of a target; None where it must not run or no run can work."""
        folder = self._state.folder_of(key.path)
        interpreter = self._workers.interpreter(folder)
        if folder.consent != RUN or interpreter is None:
            return None
        if not self._permissions.permits_now(key, automatic=automatic):
            return None
        request = self._permissions.request_now(key, folder, self._session.runs.generation, automatic=True)
        worker = worker_key(folder, interpreter)
        return (
            PreparedRun(request, functools.partial(self._execute, worker), repr(worker)) if request else None
        )

    def agrees(self, key: Key, go_on: Callable[[], None]) -> bool:
        """Whether runs of a target that the user asks for are allowed; where that is unknown, the user is asked.

        `go_on` is called when the user has agreed. Where no run is possible, a message says why.
        """
        folder = self._state.folder_of(key.path)
        interpreter = self._workers.interpreter(folder)
        if not self._state.trusted:
            self._ui.say(UNTRUSTED, error=False)
            return False
        if interpreter is None:
            self._ui.say("A fix is verified by running it, but no Python interpreter was found.", error=False)
            return False
        self._permissions.consent.reopen(folder, key.path)
        asked = AskedRuns(folder, (key,), Trigger("a fix was chosen", explicit=True), interpreter.executable)
        return bool(self._permissions.permitted(asked, lambda _answered: go_on()))

    async def _execute(
        self, worker: WorkerKey, request: RunRequest, on_progress: Callable[[Progress], None]
    ) -> Report:
        """Run a request beside the queue. Raises InterruptedVerificationError."""
        outcome = await self._workers.run(worker)(request, on_progress, lambda _report: None)
        if isinstance(outcome, Answer):
            return outcome.report
        failure = outcome.failure
        if failure is None or failure.culprit in {Culprit.ENVIRONMENT, Culprit.FUSELIGHT}:
            raise InterruptedVerificationError(failure.message if failure is not None else outcome.reason)
        return self._workers.failure_report(worker, request, failure)
