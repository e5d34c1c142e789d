"""A run that does not end is sampled, stopped and reported on its line, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import asyncio

import pytest

from fuselight.shared.protocol import Answer, Refused
from fuselight.shared.report import Culprit
from fuselight_server.execution.worker_client import pending, sampling
from tests.support.live_worker import GOOD, LiveWorker, body

pytestmark = pytest.mark.usefixtures("the_next_run_works")


def spinning(loop: str) -> str:
    """`f` calls, outside the traced code, a function that does not return."""
    indented = "\n".join(f"    {line}" for line in loop.splitlines())
    return f"import torch\n# fuselight: f(f32[4])\ndef f(x):\n    spin()\n    return x.sin()\n@torch.compiler.disable\ndef spin():\n{indented}\n"


DEAF = """\
import signal, time
for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(one, signal.SIG_IGN)
while True: time.sleep(0.01)"""
"""Ignored, not blocked: a thread of CUDA's, which torch starts where there is a GPU, takes what this one blocks."""


def test_an_endless_loop_is_stopped_on_its_line_with_what_was_learned(live: LiveWorker) -> None:
    report = live.analyse(spinning("while True: pass"), seconds=3)
    (failure,) = report.failures
    assert (failure.culprit, failure.kind) == (Culprit.USER, "timeout")
    assert failure.stack[-1].line == 8
    assert "killed after 3 s at model.py:8" in failure.message
    assert report.breaks[0].stack[-1].line == 4


def test_a_cancel_breaks_no_graph(live: LiveWorker) -> None:
    source = (
        "import time, torch\n# fuselight: f(f32[4])\ndef f(x):\n    while True:\n        time.sleep(0.01)\n"
    )
    report = live.analyse(source, seconds=3)
    (failure,) = report.failures
    assert (failure.kind, failure.stack[-1].line) == ("timeout", 5)
    assert report.breaks
    assert all("sleep" in graph_break.explanation for graph_break in report.breaks), (
        "our own handler was traced"
    )


def test_an_endless_call_in_c_is_killed_on_its_line(live: LiveWorker) -> None:
    failure = live.failure(
        body("import ctypes\nlibc = ctypes.PyDLL(None)\nwhile True: libc.pause()"), seconds=3
    )
    assert failure.kind == "timeout"
    assert failure.stack[-1].line == 7


def test_a_loop_that_catches_all_exceptions_is_killed(live: LiveWorker) -> None:
    loop = "while True:\n  try:\n    while True: pass\n  except BaseException: pass"
    failure = live.failure(spinning(loop), seconds=3)
    assert failure.kind == "timeout"
    assert failure.stack[-1].line in range(8, 12)


def test_a_silent_process_has_no_stale_location(
    live: LiveWorker,
) -> None:
    failure = live.failure(spinning(DEAF), seconds=3)
    assert failure.kind == "timeout"
    assert "killed after 3 s in the call; last seen at model.py:" in failure.message
    assert failure.stack, "there is a line to show it on"


def test_a_silent_run_is_sampled_on_the_users_line(live: LiveWorker) -> None:
    live.analyse(body("import time\nwhile True: time.sleep(0.01)"), seconds=6)
    sampled = [
        progress for progress in live.progress if progress.line == 6 and "model.py:6" in progress.detail
    ]
    assert sampled, live.progress


async def not_permitted(pid: int) -> sampling.Sample:
    return sampling.Sample(why_not=f"Permission denied for {pid}")


def test_without_py_spy_the_run_reports_its_location(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "sample", not_permitted)
    report = live.analyse(spinning("while True: __import__('time').sleep(0.01)"), seconds=6)
    assert any(
        progress.line == 8 and progress.detail.endswith("spin, model.py:8") for progress in live.progress
    ), live.progress
    assert any("Permission denied" in line for line in live.lines)
    (failure,) = report.failures
    assert (failure.kind, failure.stack[-1].line) == ("timeout", 8)
    asked = live.analyse(spinning("import time\ntime.sleep(3)"), seconds=60)
    assert asked.failures == (), "to be asked changes nothing"
    assert any(progress.line == 9 for progress in live.progress), live.progress


def test_without_a_location_only_the_phase_is_shown(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "sample", not_permitted)
    report = live.analyse(spinning(DEAF), seconds=4)
    (failure,) = report.failures
    assert report.breaks[0].stack[-1].line == 4, "facts from before the failure count"
    assert (failure.culprit, failure.kind, failure.phase) == (Culprit.USER, "timeout", "trace")
    assert not [progress for progress in live.progress if progress.line in range(8, 11)]


def test_runs_of_two_saves_do_not_disturb_each_other(live: LiveWorker) -> None:
    slow = live.request(
        body("import time\nprint('started', flush=True)\nwhile True: time.sleep(0.01)"), file="slow.py"
    )
    good = live.request(GOOD, file="good.py")

    async def both() -> Answer | Refused:
        begun = asyncio.Event()
        first = asyncio.create_task(
            live.worker.run(slow, lambda progress: begun.set() if progress.phase == "trace" else None)
        )
        await begun.wait()
        answer = await live.worker.run(good, lambda _: None)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return answer

    answer = live.do(both())
    assert isinstance(answer, Answer)
    assert answer.report.failures == ()
