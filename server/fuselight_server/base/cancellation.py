"""The token that ends a use case: Ctrl-C in the terminal and a cancel in the editor both end in it.

Invariant: a canceled token stays canceled. What it ends raises `asyncio.CancelledError`, as any canceled task does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")
TaskT = TypeVar("TaskT", bound="asyncio.Future[Any]")


class CancelToken:
    """Whether work is to end, and the tasks that a cancel ends."""

    def __init__(self) -> None:
        """Start without tasks."""
        self.is_canceled = False
        self._tasks: set[asyncio.Future[Any]] = set()

    def cancel(self) -> None:
        """End the tasks; a second call does nothing, so that it disturbs no task that is ending."""
        if self.is_canceled:
            return
        self.is_canceled = True
        for task in tuple(self._tasks):
            task.cancel()

    def check(self) -> None:
        """Raise asyncio.CancelledError if it is canceled: for work that waits for nothing."""
        if self.is_canceled:
            raise asyncio.CancelledError

    def bind(self, task: TaskT) -> TaskT:
        """Have a cancel end a task, also one that came before."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.is_canceled:
            task.cancel()
        return task

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for work that a cancel ends."""
        if asyncio.current_task() in self._tasks:  # a cancel reaches it through this task
            return await work
        task = asyncio.ensure_future(work)
        self.bind(task)
        return await task
