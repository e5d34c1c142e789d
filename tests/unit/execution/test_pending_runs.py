"""What the client of a worker keeps of a run that has not answered."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from fuselight.shared.protocol import (
    Answer,
    CaptureRequest,
    InputsPlan,
    Partial,
    Refused,
    Retrace,
    Target,
    to_json,
)
from fuselight.shared.report import Report
from fuselight.shared.worker_protocol import read_message
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client import pending
from fuselight_server.execution.worker_client.client import Worker
from fuselight_server.execution.worker_client.pending import PendingRetrace, PendingRun, Watch
from tests.support.reports import report


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


@pytest.mark.asyncio
async def test_what_a_trace_has_found_so_far_counts_until_its_answer() -> None:
    early: list[Report] = []
    answer: asyncio.Future[Answer | Refused] = asyncio.get_running_loop().create_future()
    retrace = PendingRetrace(Retrace(7, 1, "/m.py", "", ("f",)), answer, early.append)
    first, whole, late = report(), report(), report()
    retrace.take_message(Partial(1, first))
    assert not answer.done()
    retrace.take_message(Answer(1, whole))
    retrace.take_message(Partial(1, late))
    assert early == [first]
    assert early[0] is first
    assert answer.result() == Answer(7, whole)


@pytest.mark.asyncio
async def test_an_unreadable_early_report_leaves_the_answer_to_count() -> None:
    worker = Worker(Interpreter("python"), cwd=".", log=lambda _line: None)
    answer: asyncio.Future[Answer | Refused] = asyncio.get_running_loop().create_future()
    early: list[Report] = []
    worker._retraces[1] = PendingRetrace(Retrace(7, 1, "/m.py", "", ("f",)), answer, early.append)
    for data in ({"type": "Partial", "id": 1, "report": {"breaks": 3}}, to_json(Answer(1, report()))):
        worker._handle(read_message(json.dumps(data).encode()))
    assert early == []
    assert isinstance(answer.result(), Answer)
