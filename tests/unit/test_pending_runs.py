"""What the client of a worker keeps of a run that has not answered."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from fuselight.protocol import CaptureRequest, InputsPlan, Target
from fuselight_server.worker_client import pending
from fuselight_server.worker_client.pending import PendingRun, Watch


@pytest.mark.asyncio
async def test_a_live_run_that_waits_is_looked_at_as_rarely_as_one_that_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target("/m.py", "f", "function", 1, compiled=True)
    request = CaptureRequest(1, 1, target, InputsPlan(), ("/",))
    run = PendingRun(request, lambda _progress: None, asyncio.get_running_loop().create_future())
    run.pid, run.is_waiting, run.moved, run.due = 1, True, time.monotonic() - 100, None
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            run.answer.cancel()

    async def never() -> None:
        raise AssertionError("it is neither sampled nor overdue")

    without_sleep: Any = type("asyncio", (), {"sleep": sleep})
    monkeypatch.setattr(pending, "asyncio", without_sleep)
    await Watch(5.0, lambda _line: None).over(run, ask=never, overdue=never)
    assert min(slept[1:]) > 4
