"""One process of a worker, from its start to its end: how it is begun, greeted, written to and killed.

Invariant: it leads a process group of its own, and `kill` leaves nothing of that group. Whose process it is, and what
its end means to runs, is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fuselight.shared.protocol import Hello, ToWorker, to_json
from fuselight.shared.report import Failure
from fuselight.shared.worker_launch import platform_problem, start_failure, worker_command
from fuselight.shared.worker_protocol import Conversation, hello_problem, message_bytes
from fuselight_server.base.settings import Interpreter

CLOSE_LIMIT = 1.0
"""Seconds that each step of an end may take: nothing lives longer than 2 s after its editor."""
_START_LIMIT = 120.0
"""Seconds from start to hello: importing torch from a cold disk takes long."""
PRINTED = "worker prints: "
"""How a line of the log begins that the user's program may have written."""


class WorkerFailed(Exception):  # noqa: N818 - the name that its catchers read best
    """The worker could not be started."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class WorkerProcess:
    """One started process and the tasks that belong to it."""

    child: asyncio.subprocess.Process
    tasks: list[asyncio.Task[None]]
    conversation: Conversation

    async def send(self, message: ToWorker) -> None:
        """Write a message; that it is gone is noticed where its output is read."""
        if self.child.stdin is None:
            return
        self.child.stdin.write(message_bytes(message))
        with contextlib.suppress(ConnectionError):
            await self.child.stdin.drain()

    async def read_stderr(self, log: Callable[[str], None]) -> None:
        """Log what it prints, and keep the end of that."""
        stream = self.child.stderr
        while stream is not None and (data := await stream.read(1 << 16)):
            for line in self.conversation.note(data):
                log(f"{PRINTED}{line}")

    async def wait_for_end(self) -> None:
        """Wait, but not for ever, until it has ended."""
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self.child.wait(), CLOSE_LIMIT)

    async def status(self) -> int | None:
        """Its exit status, negative for a signal; None if it goes on."""
        await self.wait_for_end()
        return self.child.returncode

    async def kill(self, groups: Iterable[int]) -> None:
        """Kill it and the process groups of its runs, wait until it is gone, and close its pipes.

        Another process that a run has started may hold their other ends, so that they would stay open.
        """
        for group in (self.child.pid, *groups):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        await self.wait_for_end()
        transport = getattr(self.child, "_transport", None)
        if transport is not None:
            transport.close()
        current = asyncio.current_task()
        for task in self.tasks:
            if task is not current:
                task.cancel()


async def begin(interpreter: Interpreter, *, cwd: str, env: Mapping[str, str]) -> WorkerProcess:
    """Start a process. Raises WorkerFailed."""
    problem = platform_problem(sys.platform)
    if problem is not None:
        raise WorkerFailed(problem)
    try:
        child = await asyncio.create_subprocess_exec(
            *worker_command(interpreter.executable, interpreter.args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise WorkerFailed(start_failure(interpreter.executable, error)) from error
    return WorkerProcess(child, [], Conversation(interpreter.executable))


async def greeted(process: WorkerProcess, greeting: asyncio.Future[Hello]) -> Hello:
    """Wait for the hello of a process that can run something. Raises WorkerFailed."""
    try:
        hello = await asyncio.wait_for(greeting, _START_LIMIT)
    except (TimeoutError, asyncio.TimeoutError):
        raise WorkerFailed(process.conversation.silent_start(_START_LIMIT)) from None
    problem = hello_problem(to_json(hello))
    if problem is not None:
        raise WorkerFailed(problem)
    return hello
