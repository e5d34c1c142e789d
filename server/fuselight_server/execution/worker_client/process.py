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
from pathlib import Path

from fuselight import PACKAGE
from fuselight.shared import wire
from fuselight.shared.protocol import PROTOCOL, Hello, ToWorker, to_json
from fuselight.shared.report import Culprit, Failure
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client.failures import (
    failure_of_ours,
    not_ready,
    platform_problem,
)

CLOSE_LIMIT = 1.0
"""Seconds that each step of an end may take: nothing lives longer than 2 s after its editor."""
_START_LIMIT = 120.0
"""Seconds from start to hello: importing torch from a cold disk takes long."""
_STDERR_TAIL = 20_000
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
    stderr: bytearray

    async def send(self, message: ToWorker) -> None:
        """Write a message; that it is gone is noticed where its output is read."""
        if self.child.stdin is None:
            return
        self.child.stdin.write(wire.frame(wire.dump(to_json(message))))
        with contextlib.suppress(ConnectionError):
            await self.child.stdin.drain()

    async def read_stderr(self, log: Callable[[str], None]) -> None:
        """Log what it prints, and keep the end of that."""
        stream = self.child.stderr
        while stream is not None and (data := await stream.read(1 << 16)):
            self.stderr.extend(data)
            del self.stderr[:-_STDERR_TAIL]
            for line in data.decode("utf-8", "backslashreplace").splitlines():
                log(f"{PRINTED}{line}")

    def printed(self) -> str:
        """Return the end of what it printed."""
        return bytes(self.stderr).decode("utf-8", "backslashreplace")

    async def gone(self) -> None:
        """Wait, but not for ever, until it has ended."""
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self.child.wait(), CLOSE_LIMIT)

    async def signal_number(self) -> int | None:
        """The signal that has ended it; None if it ended otherwise."""
        await self.gone()
        code = self.child.returncode
        return -code if code is not None and code < 0 else None

    async def kill(self, groups: Iterable[int]) -> None:
        """Kill it and the process groups of its runs, and wait until it is gone."""
        for group in (self.child.pid, *groups):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        await self.gone()
        current = asyncio.current_task()
        for task in self.tasks:
            if task is not current:
                task.cancel()


async def begin(interpreter: Interpreter, *, cwd: str, env: Mapping[str, str]) -> WorkerProcess:
    """Start a process. Raises WorkerFailed."""
    problem = platform_problem(sys.platform)
    if problem is not None:
        raise WorkerFailed(problem)
    command = [interpreter.executable, *interpreter.args, "-X", "utf8", str(launch_path())]
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise WorkerFailed(
            Failure(
                Culprit.ENVIRONMENT,
                "interpreter",
                f"{interpreter.executable} cannot be started: {error.strerror or error}",
                "choose another interpreter",
            )
        ) from error
    return WorkerProcess(child, [], bytearray())


async def greeted(interpreter: Interpreter, process: WorkerProcess, greeting: asyncio.Future[Hello]) -> Hello:
    """Wait for the hello of a process that can run something. Raises WorkerFailed."""
    try:
        hello = await asyncio.wait_for(greeting, _START_LIMIT)
    except (TimeoutError, asyncio.TimeoutError):
        message = f"{interpreter.executable} did not get ready within {_START_LIMIT:g} s"
        step = "see whether `import torch` ends in that interpreter; the log has what it printed"
        raise WorkerFailed(not_ready(message, step, process.printed())) from None
    if hello.problem is not None:
        raise WorkerFailed(hello.problem)
    if hello.protocol != PROTOCOL:
        message = f"the worker speaks protocol {hello.protocol}, the server {PROTOCOL}"
        raise WorkerFailed(failure_of_ours(message, "reload the window: two versions of Fuselight are mixed"))
    return hello


def launch_path() -> Path:
    """Return the script that enters the user's interpreter."""
    return Path(PACKAGE, "worker", "launch.py")
