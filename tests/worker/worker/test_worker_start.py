"""Interpreters that cannot serve, workers without a handshake, and damaged or late answers."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from fuselight.shared.protocol import Answer, Refused
from fuselight.shared.report import Culprit
from fuselight.shared.worker_launch import launch_path, platform_problem
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client import pending
from fuselight_server.execution.worker_client.client import WorkerState
from fuselight_server.execution.worker_client.process import WorkerFailed
from tests.support.live_worker import GOOD, LiveWorker
from tests.support.prepared import prepared_interpreter


def fake_interpreter(tmp_path: Path, script: str) -> Interpreter:
    """A Python that runs `script` where the worker's entry should run."""
    path = tmp_path / "pretend.py"
    path.write_text(script)
    return Interpreter(sys.executable, (str(path),))


def test_an_interpreter_that_does_not_exist(folder: Path) -> None:
    live = LiveWorker(folder, Interpreter("/nowhere/python"))
    with pytest.raises(WorkerFailed) as failed:
        live.do(live.worker.start())
    assert failed.value.failure.culprit is Culprit.ENVIRONMENT
    assert "/nowhere/python" in failed.value.failure.message
    assert live.worker.state is WorkerState.FAILED
    live.close()


def test_a_system_without_process_groups_says_where_runs_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert platform_problem("linux") is platform_problem("darwin") is None
    live = LiveWorker(folder)
    monkeypatch.setattr(sys, "platform", "win32")
    answer = live.run(live.request(GOOD))
    monkeypatch.undo()
    assert isinstance(answer, Refused)
    assert answer.failure is not None
    assert (answer.failure.culprit, answer.failure.kind) == (Culprit.ENVIRONMENT, "platform")
    assert "WSL" in answer.failure.next_step
    live.close()


def test_an_interpreter_without_torch(folder: Path) -> None:
    live = LiveWorker(folder, Interpreter(sys.executable, ("-I", "-S")))
    answer = live.run(live.request(GOOD))
    assert isinstance(answer, Refused)
    assert answer.failure is not None
    assert (answer.failure.culprit, answer.failure.kind) == (Culprit.ENVIRONMENT, "no_torch")
    assert sys.executable in answer.failure.message
    live.close()


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("__version__ = '1.13.1'\n", "old_torch", "1.13.1"),
        ("raise OSError('libcudart is missing')\n", "no_torch", "libcudart"),
    ],
)
def test_a_torch_that_is_too_old_or_broken(
    folder: Path, tmp_path: Path, text: str, kind: str, word: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(text)
    live = LiveWorker(folder, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    with pytest.raises(WorkerFailed) as failed:
        live.do(live.worker.start())
    assert failed.value.failure.kind == kind
    assert word in failed.value.failure.message
    assert failed.value.failure.next_step
    live.close()


def test_the_users_pythonpath_is_kept(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "from_pythonpath.py").write_text("n = 5\n")
    python = Interpreter(prepared_interpreter())
    live = LiveWorker(folder, python, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    report = live.analyse("import from_pythonpath, os\nprint(os.environ['PYTHONPATH'])\n" + GOOD)
    assert report.failures == ()
    assert report.output.stdout == f"{tmp_path}\n"
    live.close()


@pytest.mark.parametrize(
    "script", ["print('no frame at all', flush=True)\ninput()\n", "raise SystemExit('it broke')\n"]
)
def test_a_worker_that_never_says_hello(folder: Path, tmp_path: Path, script: str) -> None:
    live = LiveWorker(folder, fake_interpreter(tmp_path, script))
    with pytest.raises(WorkerFailed) as failed:
        live.do(live.worker.start())
    assert failed.value.failure.next_step
    live.close()


HELLO = """\
import os, sys, time
sys.path.insert(0, {compiler!r})
from fuselight.shared.protocol import PROTOCOL, Hello, to_json
from fuselight.shared.report import Versions
from fuselight.shared import wire
versions = Versions("3.11.7", "2.13.0", None, "0.1.0", "linux", sys.executable)
hello = to_json(Hello(PROTOCOL, versions, os.getpid(), True))
hello["from_the_future"] = {{"a": 1}}
os.write(1, wire.frame(wire.dump(hello)))
os.write(1, wire.frame(wire.dump({{"type": "Unheard", "id": 1}})))
os.read(0, 1 << 20)
{then}
"""


@pytest.mark.parametrize(
    "then",
    [
        "os.write(1, wire.frame(b'{}' * 1000)[:100])",
        "os.write(1, b'garbage on the wire')\ntime.sleep(600)",
        'os.write(1, wire.frame(wire.dump({"type": "Answer", "id": 1, "report": {"tier": 5}})))\ntime.sleep(600)',
        "os._exit(1)",
    ],
)
def test_a_damaged_answer_refuses_the_run(folder: Path, tmp_path: Path, then: str) -> None:
    compiler = str(Path(launch_path()).parents[2])
    live = LiveWorker(folder, fake_interpreter(tmp_path, HELLO.format(compiler=compiler, then=then)))
    answer = live.run(live.request(GOOD))
    assert isinstance(answer, Refused)
    assert answer.id == 7
    assert answer.failure is not None
    assert (answer.failure.culprit, answer.failure.kind) == (Culprit.FUSELIGHT, "damaged_answer")
    assert any("does not know" in line for line in live.lines)
    live.close()


STARTED = """\
def say(**message): os.write(1, wire.frame(wire.dump(message)))
say(type="Started", id=1, pid=os.getpid(), seconds={seconds})
{then}
"""


@pytest.mark.parametrize(
    ("seconds", "then", "why"),
    [
        (0.5, "time.sleep(600)", "it did not answer in time"),
        (
            600,
            "say(type='Progress', id=1, phase='trace')\nos.write(1, b'garbage')\ntime.sleep(600)",
            "is damaged",
        ),
        (600, "time.sleep(2)\nsay(type='Refused', id=1, reason='failed')", None),
        (None, "time.sleep(2)\nsay(type='Refused', id=1, reason='failed')", None),
    ],
    ids=["silent", "garbage in the run", "in the time that the worker gives", "no limit"],
)
def test_a_run_is_waited_for_as_long_as_the_worker_gives_it(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    seconds: float | None,
    then: str,
    why: str | None,
) -> None:
    monkeypatch.setattr(pending, "_OVERTIME", 0.5)
    script = HELLO.format(
        compiler=str(Path(launch_path()).parents[2]), then=STARTED.format(seconds=seconds, then=then)
    )
    live = LiveWorker(folder, fake_interpreter(tmp_path, script), sample_after=0.5)
    answer = live.run(live.request(GOOD, seconds=1))
    assert isinstance(answer, Refused)
    assert (answer.failure is None) == (why is None), answer
    if why is not None and answer.failure is not None:
        assert why in answer.failure.message
    live.close()


def test_a_host_that_dies_of_a_request_is_tried_once_more(folder: Path, tmp_path: Path) -> None:
    compiler = str(Path(launch_path()).parents[2])
    note = tmp_path / "starts"
    then = f"open({str(note)!r}, 'a').write('x')\nos._exit(1)"
    live = LiveWorker(folder, fake_interpreter(tmp_path, HELLO.format(compiler=compiler, then=then)))
    answer = live.run(live.request(GOOD))
    assert isinstance(answer, Refused)
    assert note.read_text() == "xx"
    live.close()


SLOW_TO_CANCEL = """\
def say(**message): os.write(1, wire.frame(wire.dump(message)))
say(type="Started", id=1, pid=os.getpid() + (1 << 30), seconds=600)
say(type="Progress", id=1, phase="call")
os.read(0, 1 << 20)
print("asked to cancel", file=sys.stderr, flush=True)
open({gate!r}).read()
say(type="Refused", id=1, reason="cancelled")
os.read(0, 1 << 20)
say(type="Refused", id=2, reason="failed")
os.read(0, 1 << 20)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a named pipe")
def test_a_run_that_is_canceled_twice_ends_with_its_answer_and_its_host_lives(
    folder: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    then = SLOW_TO_CANCEL.format(gate=str(gate))
    script = HELLO.format(compiler=str(Path(launch_path()).parents[2]), then=then)
    live = LiveWorker(folder, fake_interpreter(tmp_path, script), sample_after=600)

    async def cancelled_twice() -> Answer | Refused:
        begun = asyncio.Event()
        task = asyncio.create_task(live.worker.run(live.request(GOOD), lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        await live.logged(lambda: any("asked to cancel" in line for line in live.lines))
        task.cancel()
        await asyncio.to_thread(gate.write_text, "go on")
        with pytest.raises(asyncio.CancelledError):
            await task
        return await live.worker.run(live.request(GOOD), lambda _: None)

    assert isinstance(live.do(cancelled_twice()), Refused)
    assert not [line for line in live.lines if "late answer" in line or "killing" in line]
    live.close()
