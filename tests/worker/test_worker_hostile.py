"""Code that breaks what Python is made of: the user's code is named as the culprit, once, and the next run works."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from fuselight.codec import encode
from fuselight.report import Culprit
from fuselight.worker import wire
from tests.support.live_worker import GOOD, LiveWorker, body, wait_gone

hostile = pytest.mark.usefixtures("the_next_run_works")


@hostile
@pytest.mark.parametrize(
    "patch",
    [
        "builtins.len = None",
        "builtins.isinstance = None",
        "os.path.basename = os.path.join = None",
        "dataclasses.replace = dataclasses.fields = None",
    ],
)
def test_replaced_functions_are_named_once_as_the_users(live: LiveWorker, patch: str) -> None:
    name = patch.partition(" =")[0]
    report = live.analyse(f"import builtins, dataclasses, os, torch\n{patch}\n{GOOD}")
    if not report.failures:  # nothing needed it
        assert len(report.compiles) == 1
        return
    (failure,) = report.failures
    assert failure.culprit is Culprit.USER
    assert f"`{name.replace('os.path', 'posixpath')}`" in failure.message
    assert "Fuselight failed" not in failure.message
    assert Path(failure.stack[-1].path).name == "model.py"


@hostile
@pytest.mark.parametrize(
    "patch",
    [
        "os.getpid = os._exit = lambda *_: 1",
        "time.perf_counter = time.monotonic = time.time = lambda: None",
        "json.dumps = json.loads = json.load = None",
        "traceback.extract_tb = traceback.TracebackException = None",
    ],
)
def test_answer_functions_are_bound_before_user_code(live: LiveWorker, patch: str) -> None:
    """torch itself may need what was replaced; the answer does not."""
    report = live.analyse(f"import json, os, time, traceback\n{patch}\n" + body("raise ValueError('mine')"))
    (failure,) = report.failures
    assert failure.culprit is Culprit.USER
    replaced = f"the code replaced `{patch.partition('.')[0]}."
    assert failure.exception == "ValueError" or failure.message.startswith(replaced), failure
    assert {place.line for place in failure.stack if place.path.endswith("model.py")} <= {5, 6, 7}


BROKEN = "class Broken(Exception):\n    def __str__(self): {}\n"


@hostile
@pytest.mark.parametrize("text", ["raise KeyError('str')", "return 5", "return None"])
@pytest.mark.parametrize(
    "where",
    [
        "raise Broken",
        "# fuselight: f(f32[4])\ndef f(x):\n    raise Broken",
        "def example_inputs():\n    raise Broken\ndef f(x):\n    return x",
        "def f(x):\n    return x\nif __name__ == '__main__':\n    raise Broken",
    ],
    ids=["import", "call", "provider", "main"],
)
def test_an_exception_without_a_text_is_the_users(live: LiveWorker, text: str, where: str) -> None:
    provider: dict[str, Any] = (
        {"provider": "example_inputs", "provider_line": 4} if "example_inputs" in where else {}
    )
    failure = live.failure(BROKEN.format(text) + where + "\n", **provider)
    assert (failure.culprit, failure.exception) == (Culprit.USER, "Broken")
    assert "Fuselight" not in failure.message
    assert Path(failure.stack[-1].path).name == "model.py"


@hostile
def test_an_exit_with_an_object_is_the_users(live: LiveWorker) -> None:
    failure = live.failure(BROKEN.format("raise KeyError('str')") + "raise SystemExit(Broken())\n")
    assert (failure.culprit, failure.kind, failure.stack[-1].line) == (Culprit.USER, "exit", 3)


@hostile
def test_a_huge_text_is_bounded_at_its_source(live: LiveWorker) -> None:
    live.analyse(GOOD)
    began = time.monotonic()
    report = live.analyse("raise ValueError('a line of text\\n' * 8_000_000)\n")
    seconds = time.monotonic() - began
    (failure,) = report.failures
    assert failure.message == "ValueError: a line of text"
    assert len(wire.dump(encode(report))) < 200_000
    assert seconds < 20, "to format all of it takes longer"


@hostile
def test_the_hosts_folder_is_made_again(live: LiveWorker) -> None:
    hunt = "import glob, shutil, tempfile\nfor one in glob.glob(tempfile.gettempdir() + f'/fuselight-worker-*-{os.getppid()}-*'):\n    shutil.rmtree(one)"
    report = live.analyse(body(hunt))
    assert [failure.kind for failure in report.failures] == ["damaged_answer"]


@hostile
@pytest.mark.parametrize(
    "text",
    [
        "if os.fork() == 0: return None",
        "if os.fork() == 0: raise ValueError('of the fork')",
        "if os.fork() == 0: sys.exit()",
        "import builtins\nif os.fork() == 0:\n    builtins.isinstance = builtins.len = os.getpid = sys._getframe = None\n    os._exit(0)",
    ],
)
def test_a_fork_in_user_code_never_reaches_the_host(live: LiveWorker, text: str) -> None:
    report = live.analyse(body(text))
    assert report.failures == ()
    assert report.breaks[0].stack[-1].line == 4


def test_processes_in_sessions_of_their_own_end_with_the_host(folder: Path) -> None:
    live = LiveWorker(folder)
    note = folder / "pid"
    os.mkfifo(note)
    code = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        open({str(note)!r}, 'w').write(str(os.getpid()))\n    while True: time.sleep(1)\n"
    request = live.request(code + "while True: time.sleep(1)\n")

    async def begun() -> int:
        task = asyncio.create_task(live.worker.run(request, lambda _: None))
        pid = int(await asyncio.to_thread(note.read_text))
        await live.worker.close()
        await task
        return pid

    wait_gone(live.do(begun()), seconds=20)
    live.close()
