"""A run that does not end is sampled, stopped and reported on its line, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import asyncio
import re

import pytest

from fuselight.shared.protocol import Answer, Progress, Refused
from fuselight.shared.report import Culprit, Report
from fuselight_server.execution.worker_client import pending, sampling
from tests.support.live_worker import GOOD, REACHED, LiveWorker, body

pytestmark = pytest.mark.usefixtures("the_next_run_works")


def spinning(loop: str) -> str:
    """`f` calls, outside the traced code, a function that does not return; its loop begins on line 9."""
    indented = "\n".join(f"    {line}" for line in [f"print({REACHED!r}, flush=True)", *loop.splitlines()])
    return f"import torch\n# fuselight: f(f32[4])\ndef f(x):\n    spin()\n    return x.sin()\n@torch.compiler.disable\ndef spin():\n{indented}\n"


def is_at(report: Report, *lines: int) -> bool:
    return [failure.kind for failure in report.failures] == ["timeout"] and (
        report.failures[0].stack[-1].line in lines
    )


DEAF = """\
import signal, time
for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(one, signal.SIG_IGN)
while True: time.sleep(0.01)"""
"""Ignored, not blocked: a thread of CUDA's, which torch starts where there is a GPU, takes what this one blocks."""


def test_an_endless_loop_is_stopped_on_its_line_with_what_was_learned(live: LiveWorker) -> None:
    report = live.stopped(spinning("while True: pass"), seconds=3)
    (failure,) = report.failures
    assert is_at(report, 9)
    assert failure.culprit is Culprit.USER
    assert re.search(r"killed after \d+ s at model\.py:9", failure.message)
    assert report.breaks[0].stack[-1].line == 4


def test_a_cancel_breaks_no_graph(live: LiveWorker) -> None:
    source = (
        "import time, torch\n# fuselight: f(f32[4])\ndef f(x):\n    while True:\n        time.sleep(0.01)\n"
    )
    report = live.stopped(source, seconds=3, reached=lambda report: bool(report.breaks))
    assert is_at(report, 5)
    assert report.breaks
    assert all("sleep" in graph_break.explanation for graph_break in report.breaks), (
        "our own handler was traced"
    )


def test_an_endless_call_in_c_is_killed_on_its_line(live: LiveWorker) -> None:
    text = (
        f"import ctypes\nlibc = ctypes.PyDLL(None)\nprint({REACHED!r}, flush=True)\nwhile True: libc.pause()"
    )
    assert is_at(live.stopped(body(text), seconds=3), 8)


def test_a_loop_that_catches_all_exceptions_is_killed(live: LiveWorker) -> None:
    loop = "while True:\n  try:\n    while True: pass\n  except BaseException: pass"
    assert is_at(live.stopped(spinning(loop), seconds=3), *range(9, 13))


def test_a_silent_process_has_no_stale_location(
    live: LiveWorker,
) -> None:
    (failure,) = live.stopped(spinning(DEAF), seconds=3).failures
    assert failure.kind == "timeout"
    assert re.search(r"killed after \d+ s in the call; last seen at model\.py:", failure.message)
    assert failure.stack, "there is a line to show it on"


def test_a_silent_run_is_sampled_on_the_users_line(live: LiveWorker) -> None:
    live.canceled_at(
        body("import time\nwhile True: time.sleep(0.01)"),
        lambda progress: progress.line == 6 and "model.py:6" in progress.detail,
    )


async def not_permitted(pid: int) -> sampling.Sample:
    return sampling.Sample(why_not=f"Permission denied for {pid}")


def test_without_py_spy_the_run_reports_its_location(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "sample", not_permitted)
    loop = spinning("while True: __import__('time').sleep(0.01)")
    live.canceled_at(
        loop, lambda progress: progress.line == 9 and progress.detail.endswith("spin, model.py:9")
    )
    assert any("Permission denied" in line for line in live.lines)
    assert is_at(live.stopped(loop, seconds=6), 9)


def test_a_run_that_is_asked_for_its_location_goes_on(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "sample", not_permitted)
    asked = live.folder / "asked"
    loop = f"import os, time\nwhile not os.path.exists({str(asked)!r}): time.sleep(0.01)"

    def show(progress: Progress) -> None:
        if progress.line == 10:
            asked.touch()

    answer = live.do(live.worker.run(live.request(spinning(loop)), show))
    assert isinstance(answer, Answer)
    assert answer.report.failures == (), "to be asked changes nothing"


def test_threads_of_the_program_are_not_read_when_it_is_asked(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "sample", not_permitted)
    asked, dumped = live.folder / "asked", live.folder / "dumped"
    source = body(
        "import threading\n"
        "threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        f"while not os.path.exists({str(asked)!r}): pass\n"
        "paths = {os.path.realpath(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd')}\n"
        "(path,) = (path for path in paths if path.endswith('faults.txt'))\n"
        "while not (text := open(path).read()): pass\n"
        f"open({str(dumped)!r}, 'w').write(text)"
    )

    def show(progress: Progress) -> None:
        if progress.line == 8:
            asked.touch()

    answer = live.do(live.worker.run(live.request(source), show))
    assert isinstance(answer, Answer)
    assert answer.report.failures == ()
    assert "most recent call first" in dumped.read_text(encoding="utf-8")
    assert "Thread 0x" not in dumped.read_text(encoding="utf-8")


def test_without_a_location_only_the_phase_is_shown(
    live: LiveWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "sample", not_permitted)
    report = live.stopped(spinning(DEAF), seconds=4)
    (failure,) = report.failures
    assert report.breaks[0].stack[-1].line == 4, "facts from before the failure count"
    assert (failure.culprit, failure.kind, failure.phase) == (Culprit.USER, "timeout", "trace")
    assert not [progress for progress in live.progress if progress.line in range(9, 12)]


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
