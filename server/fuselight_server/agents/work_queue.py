"""Work that takes longer than a client waits: each has a handle, by which its answer is polled.

Invariant: one work runs at a time, as two would disturb each other's times and share the machine; the others are
queued. What is kept is bounded.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum

from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.arguments import ArgumentError
from fuselight_server.agents.protocol.toolbox import Caller
from fuselight_server.base.cancellation import CancelToken

_MAX_KEPT = 16
"""Answers that are kept for `result`."""
_MAX_QUEUED = 8
_LAST_SECONDS = 10.0
"""How long work may take to end when the server ends."""


class WorkState(Enum):
    """What a work does."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELED = "canceled"


@dataclass(eq=False)
class StartedWork:
    """A call that is being answered."""

    handle: str
    task: asyncio.Task[ToolAnswer]
    token: CancelToken
    state: WorkState = WorkState.QUEUED
    progress: str = ""
    since: float = field(default_factory=time.monotonic)
    """When it was queued; once it runs, when it got its turn."""
    watchers: list[Caller] = field(default_factory=list)
    """The calls that wait for it."""

    @property
    def has_ended(self) -> bool:
        """Whether it will not change any more."""
        return self.task.done()

    def show(self, text: str) -> None:
        """Take progress, and show it to who waits."""
        self.progress = text or self.progress
        for watcher in self.watchers:
            watcher.show(text)


def _note_failure(task: asyncio.Task[ToolAnswer]) -> None:
    """Take the exception of a work that nobody may ask for."""
    if not task.cancelled():
        task.exception()


class WorkQueue:
    """The calls that one server answers, one after the other."""

    def __init__(self, turn: asyncio.Lock | None = None) -> None:
        """`turn`: held while a work runs; a host whose own runs must not overlap with them gives its own lock."""
        self._turn = turn
        self._started: collections.OrderedDict[str, StartedWork] = collections.OrderedDict()
        self._number = 0

    async def do(
        self,
        name: str,
        work: Callable[[Callable[[str], None], CancelToken], Awaitable[ToolAnswer]],
        seconds: float,
        caller: Caller,
    ) -> ToolAnswer:
        """Do a work; its answer, or after some seconds its state. A call that is canceled cancels the work."""
        started = self._start(name, work)
        try:
            return await self._answer(started, seconds, caller)
        except asyncio.CancelledError:
            started.token.cancel()
            raise

    async def result(self, handle: str, seconds: float, caller: Caller) -> ToolAnswer:
        """The answer of a work, or after some seconds its state. Raises ArgumentError."""
        return await self._answer(self._find(handle), seconds, caller)

    def cancel(self, handle: str) -> StartedWork:
        """Cancel a work. Raises ArgumentError."""
        work = self._find(handle)
        work.token.cancel()
        return work

    async def close(self) -> None:
        """Cancel everything, and wait until its workers have ended."""
        for work in self._started.values():
            work.token.cancel()
        tasks = [work.task for work in self._started.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_LAST_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self, name: str, work: Callable[[Callable[[str], None], CancelToken], Awaitable[ToolAnswer]]
    ) -> StartedWork:
        waiting = sum(work.state is WorkState.QUEUED for work in self._started.values())
        if waiting >= _MAX_QUEUED:
            raise ArgumentError(f"{waiting} calls are queued already: wait for them with `result`")
        self._number += 1
        handle, token = f"{name}-{self._number}", CancelToken()
        started = StartedWork(handle, asyncio.ensure_future(self._run(handle, work)), token)
        self._started[handle] = started
        started.task.add_done_callback(_note_failure)
        ended = [handle for handle, kept in self._started.items() if kept.has_ended]
        for old in ended[: max(len(ended) - _MAX_KEPT, 0)]:
            del self._started[old]
        return started

    async def _run(
        self, handle: str, do: Callable[[Callable[[str], None], CancelToken], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        work = self._started[handle]
        try:
            async with self._my_turn(work.token):
                work.state, work.since = WorkState.RUNNING, time.monotonic()
                answer = await do(work.show, work.token)
        except asyncio.CancelledError:
            work.state = WorkState.CANCELED
            raise
        finally:
            work.state = WorkState.DONE if work.state is WorkState.RUNNING else work.state
        return answer

    @contextlib.asynccontextmanager
    async def _my_turn(self, token: CancelToken) -> AsyncIterator[None]:
        if self._turn is None:
            self._turn = asyncio.Lock()  # of the loop that runs
        turn = self._turn
        await token.run(turn.acquire())
        try:
            token.check()
            yield
        finally:
            turn.release()

    def _find(self, handle: str) -> StartedWork:
        work = self._started.get(handle)
        if work is None:
            known = ", ".join(f"`{name}`" for name in self._started) or "none"
            raise ArgumentError(f"there is no work `{handle}`. Known handles: {known}")
        return work

    async def _answer(self, work: StartedWork, seconds: float, caller: Caller) -> ToolAnswer:
        work.watchers.append(caller)
        try:
            await asyncio.wait({work.task}, timeout=seconds)
        finally:
            work.watchers.remove(caller)
        if not work.has_ended:
            return self._unfinished(work)
        if work.task.cancelled():
            return ToolAnswer(
                f"`{work.handle}` was canceled.", {"state": WorkState.CANCELED.value, "handle": work.handle}
            )
        answer = work.task.result()
        return ToolAnswer(answer.text, {"state": WorkState.DONE.value, **answer.data})

    def _unfinished(self, work: StartedWork) -> ToolAnswer:
        seconds = round(time.monotonic() - work.since, 1)
        others = [other.handle for other in self._started.values() if other.state is WorkState.RUNNING]
        doing = work.progress
        if work.state is WorkState.QUEUED and others:
            doing = f"waits for `{others[0]}`: one call runs at a time"
        text = (
            f"`{work.handle}` has been {work.state.value} for {seconds:g} s{f' ({doing})' if doing else ''}. "
            f'Call `result` with handle "{work.handle}".'
        )
        data = {"state": work.state.value, "handle": work.handle, "progress": doing, "seconds": seconds}
        return ToolAnswer(text, data)
