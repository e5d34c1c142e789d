"""Tasks in the background: kept until they end, and a failure of each is reported.

Invariant: a task that was started here is never collected before its end, and never fails silently.
"""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
ReportFailure = Callable[[str, BaseException], None]
"""Gets what failed, in words, and how."""


class BackgroundTasks:
    """The tasks of one owner."""

    def __init__(self, report: ReportFailure) -> None:
        """Start with none."""
        self._report = report
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def is_idle(self) -> bool:
        """Whether none is in progress; one that is canceled is, until it has ended."""
        return not self._running

    def start(self, work: Coroutine[Any, Any, Result], what: str) -> asyncio.Task[Result]:
        """Run `work` on the loop; its failure is reported as that of `what`."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(functools.partial(self._ended, what))
        return task

    async def wait(self) -> None:
        """Wait until those in progress have ended."""
        if self._running:
            await asyncio.wait(set(self._running))

    def _ended(self, what: str, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._report(what, error)


def log_failures(log: Callable[[str], None]) -> ReportFailure:
    """Report failures with their traceback in a log."""

    def report(what: str, error: BaseException) -> None:
        log(f"{what} failed: {error!r}\n{trace_of(error)}")

    return report


def trace_of(error: BaseException) -> str:
    """The traceback of an error, as text."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
