"""Shows partial reports while a run is active: the forward's kernels before the backward's are generated.

Invariant: reports are processed one at a time, the newest next, for at most a tenth of the time, and none after `end`.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fuselight.report import Report

_REST = 9
"""Times as long as the last report took, before the next one is taken in."""


class PartialReports:
    """Those of one run."""

    def __init__(self, take_in: Callable[[Report], Awaitable[None]], log: Callable[[str], None]) -> None:
        """Hand reports to `take_in`; what it raises costs that report and is logged."""
        self._take_in = take_in
        self._log = log
        self._next: Report | None = None
        self._task: asyncio.Task[None] | None = None
        self.began = False
        """Whether any was handed on."""

    def add(self, report: Report) -> None:
        """Take in `report` instead of one that still waits."""
        self._next = report
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def end(self) -> None:
        """Take in no more; one that is being taken in is left off."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        while self._next is not None:
            report, self._next, start = self._next, None, time.monotonic()
            self.began = True
            try:
                await self._take_in(report)
            except Exception:  # noqa: BLE001 - any defect of ours; the run goes on, and its end is shown
                self._log(f"the partial results of a run could not be shown:\n{traceback.format_exc()}")
            await asyncio.sleep(_REST * (time.monotonic() - start))
