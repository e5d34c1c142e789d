"""The worker of a command, and of a session of commands, which keeps one from one command to the next.

Invariant: whoever starts a worker ends it. A session has at most one, of the interpreter that its last command chose,
and its commands use it one after the other.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.protocol import Hello
    from fuselight_server.base.settings import Interpreter
    from fuselight_server.execution.worker_client.client import Worker

IDLE_SECONDS = 600.0
"""How long a worker stays without a run."""


class StartedWorker:
    """A worker, which starts when this is made."""

    def __init__(
        self,
        choice: Interpreter,
        log: Callable[[str], None],
        *,
        sample_after: float = 5.0,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        from fuselight_server.execution.worker_client.client import Worker  # noqa: PLC0415 - not for --help

        self.choice = choice
        self._worker = Worker(
            choice, cwd=str(Path.cwd()), log=log, idle_seconds=idle_seconds, sample_after=sample_after
        )
        self._start = self._begin()

    @property
    def is_ready(self) -> bool:
        """Whether its process runs and has imported torch."""
        return self._worker.hello is not None

    def start_again(self) -> None:
        """Start a process where none runs: it was idle, died or could not start."""
        if self._start.done():
            self._start = self._begin()

    async def ready(self) -> Worker:
        """The worker, once it has started: one that cannot start refuses its runs with the reason."""
        await asyncio.wait({self._start})
        return self._worker

    async def close(self) -> None:
        """End it, started or not."""
        self._start.cancel()
        await asyncio.gather(self._start, return_exceptions=True)
        await self._worker.close()

    def _begin(self) -> asyncio.Task[Hello]:
        start = asyncio.create_task(self._worker.start())
        start.add_done_callback(_note_failure)  # its runs are refused with it
        return start


def _note_failure(task: asyncio.Task[Hello]) -> None:
    if not task.cancelled():
        task.exception()


class KeptWorker:
    """The worker of a session, which starts with its first command and ends with `close`.

    Each run has a process of its own, so that changed files are read again. The worker itself notices when its process
    has died, and when packages were installed or removed: the next run then starts another process.
    """

    def __init__(self, idle_seconds: Callable[[Path], float]) -> None:
        """`idle_seconds`: by a path of a command, how long its worker stays without a run."""
        self._idle_seconds = idle_seconds
        self._started: StartedWorker | None = None

    async def of(self, choice: Interpreter, log: Callable[[str], None], path: Path) -> StartedWorker:
        """The worker for a command on a path, which starts now if it does not run."""
        if self._started is not None and self._started.choice == choice:
            self._started.start_again()
            return self._started
        await self.close()
        self._started = StartedWorker(choice, log, idle_seconds=self._idle_seconds(path))
        return self._started

    async def close(self) -> None:
        """End the process, if one runs. A later command starts another one."""
        if self._started is not None:
            await self._started.close()
            self._started = None  # not before: where the wait is canceled, it can be closed again
