"""Runs of tier kernels in the editor, answered from the cache where nothing has changed since they were generated.

Invariant: what the cache cannot give is run; a cache that cannot be written costs a line of the log and nothing else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fuselight.protocol import Answer, GenerateRequest, Progress, Refused, RunRequest
from fuselight_server.runs.kernel_cache import cache_of, keep
from fuselight_server.runs.queue import Runner
from fuselight_server.runs.stored_captures import stored_captures
from fuselight_server.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.report import Report


class WorkerHello(Runner, Protocol):
    """A worker that says hello."""

    @property
    def hello(self) -> Any:
        """What it said first; None before."""
        ...


class CachedRunner:
    """A worker and the cache before it."""

    def __init__(self, worker: WorkerHello, log: Callable[[str], None]) -> None:
        """Run in `worker` what is not kept."""
        self._worker = worker
        self._log = log

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        """Run to the one answer."""
        if not isinstance(request, GenerateRequest):
            return await self._worker.run(request, on_progress, on_partial)
        store = Store.of(Path(request.target.path))
        if self._worker.hello is not None:
            found = await asyncio.to_thread(cache_of(store).find, request, self._worker.hello.versions)
            if found.report is not None:
                self._log(f"kernels of {request.target.name or '__main__'}: {found.why}, from the cache")
                return Answer(request.id, found.report)
        outcome = await self._worker.run(request, on_progress, on_partial)
        if isinstance(outcome, Answer):
            problem = await asyncio.to_thread(keep, store, request, outcome.report)
            if problem is not None:
                self._log(problem)
        return outcome


def forget(store: Store) -> None:
    """Remove the kernels and captures that are kept in a store."""
    cache_of(store).clear()
    stored_captures(store).clear()
