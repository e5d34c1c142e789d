"""A worker's life: cancel, close, idle, a killed parent, messages of newer versions, and no fork."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared import wire
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Answer, MeasureRequest, Refused, to_json
from fuselight.shared.report import Culprit
from fuselight.shared.worker_launch import launch_path, worker_command
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client.client import WorkerState
from tests.support.live_run import EditedRun, breaks
from tests.support.live_worker import GOOD, LiveWorker, make_request, replace, wait_gone
from tests.support.prepared import prepared_interpreter, program_interpreter


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    """A worker of this module, whose host starts often."""
    live = LiveWorker(tmp_path_factory.mktemp("workspace"), Interpreter(prepared_interpreter()))
    yield live
    print("\n".join(live.lines))  # noqa: T201 - shown when a test fails
    live.close()


ENDLESS = "import time\nprint('imported')\nwhile True: time.sleep(0.01)\n"


def test_idle_cancel_close_and_states(folder: Path) -> None:
    """A host that was idle stops, the next run starts another one, and a close ends that in the middle of a run."""
    live = LiveWorker(folder, Interpreter(prepared_interpreter()), idle_seconds=0.2)
    first = live.do(live.worker.start()).pid
    assert live.do(live.logged(lambda: live.worker.state is WorkerState.STOPPED))
    wait_gone(first)
    request = live.request(ENDLESS)

    async def cancelled() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(live.worker.run(request, lambda _: begun.set()))
        await begun.wait()
        assert live.worker.state is WorkerState.BUSY
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    live.do(cancelled())
    assert live.worker.state.value == "ready"
    assert live.analyse(GOOD, file="good.py").failures == ()

    async def closed() -> Answer | Refused:
        begun = asyncio.Event()
        task = asyncio.create_task(live.worker.run(request, lambda _: begun.set()))
        await begun.wait()
        await live.worker.close()
        return await task

    pid = live.do(live.worker.start()).pid
    assert pid != first
    answer = live.do(closed())
    assert isinstance(answer, Refused)
    assert answer.reason == "cancelled"
    assert live.worker.state is WorkerState.CLOSED
    wait_gone(pid)
    print("\n".join(live.lines))  # noqa: T201 - shown when a test fails
    live.close()


def test_a_cancel_ends_the_code_that_runs(live: LiveWorker, tmp_path: Path) -> None:
    note = tmp_path / "note"
    os.mkfifo(note)
    source = f"import os\nwith open({str(note)!r}, 'w') as file: file.write(str(os.getpid()))\n{ENDLESS}"

    async def cancelled() -> int:
        task = asyncio.create_task(live.worker.run(live.request(source), lambda _: None))
        pid = int(await asyncio.to_thread(note.read_text))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    wait_gone(live.do(cancelled(), 60), seconds=20)
    assert live.worker.state.value == "ready", "the host continues"


def test_a_host_that_is_killed_is_replaced(live: LiveWorker) -> None:
    first = live.do(live.worker.start()).pid
    request = live.request(ENDLESS)

    async def killed() -> Answer | Refused:
        begun = asyncio.Event()
        task = asyncio.create_task(live.worker.run(request, lambda _: begun.set()))
        await begun.wait()
        os.kill(first, signal.SIGKILL)
        return await task

    answer = live.do(killed())
    assert isinstance(answer, Refused)
    assert answer.failure is not None
    assert (answer.failure.culprit, answer.failure.kind) == (Culprit.USER, "signal"), (
        "it may have done that itself"
    )
    assert "ended by SIGKILL while the code ran" in answer.failure.message
    assert live.analyse(GOOD, file="good.py").failures == ()
    assert live.do(live.worker.start()).pid != first


PARENT = """\
import asyncio, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from tests.support.live_worker import LiveWorker
live = LiveWorker(Path({folder!r}))
hello = live.do(live.worker.start())
request = live.request({source!r})
live.loop.run_until_complete(live.worker.run(request, lambda one: print(hello.pid, flush=True)))
"""


def test_when_the_parent_is_killed_worker_and_run_end(folder: Path) -> None:
    root = Path(launch_path()).parents[3]
    note = folder / "pid"
    os.mkfifo(note)
    source = f"import os\nwith open({str(note)!r}, 'w') as file: file.write(str(os.getpid()))\n{ENDLESS}"
    paths = [str(root / "compiler"), str(root / "server"), str(root)]
    script = PARENT.format(paths=paths, folder=str(folder), source=source)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        host = int(parent.stdout.readline())
        run = int(note.read_text())
        parent.kill()
        wait_gone(host)
        wait_gone(run)


def test_unknown_fields_of_a_request_are_ignored_and_a_truncated_one_ends_the_host(folder: Path) -> None:
    path = folder / "model.py"
    path.write_text(GOOD)
    request = to_json(make_request(path, GOOD, "f"))
    request["from_the_future"] = {"a": 1}
    request["target"]["mood"] = "good"
    sent = [wire.frame(wire.dump(entry)) for entry in ({"type": "Unheard", "id": 1}, request)]
    messages: list[Any] = []
    with subprocess.Popen(
        worker_command(prepared_interpreter()), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(b"".join(sent))
        host.stdin.flush()
        reader = wire.FrameReader()
        while not messages or messages[-1]["type"] not in {"Answer", "Refused"}:
            data = os.read(host.stdout.fileno(), 1 << 16)
            assert data, messages
            messages += [wire.load(payload) for payload in reader.feed(data)]
        out, _ = host.communicate(wire.frame(b"{}" * 500)[:50], timeout=60)
        after = [wire.load(payload) for payload in reader.feed(out)]
        assert host.returncode == 0
    answer = messages[-1]
    assert messages[0]["type"] == "Hello"
    assert (answer["type"], answer["id"], answer["report"].get("failures", [])) == ("Answer", 7, [])
    assert any("unknown type 'Unheard'" in message.get("text", "") for message in messages)
    assert any("inside a message" in message.get("text", "") for message in after)


def without_fork(folder: Path, python: str) -> LiveWorker:
    interpreter = Interpreter(python)
    variables = {**os.environ, "FUSELIGHT_NO_FORK": "1", "PYTHONUNBUFFERED": ""}
    live = LiveWorker(folder, interpreter, env=variables)
    assert not live.do(live.worker.start()).forks
    return live


@pytest.mark.corpora
def test_without_fork_a_run_that_does_not_end_is_sampled(folder: Path) -> None:
    """In processes that are started as users start them: they have the process IDs that the host samples."""
    live = without_fork(folder, sys.executable)
    sleeps = "import time\n" + GOOD.replace(
        "return x.sin()", "x = x.sin()\n    time.sleep(100)\n    return x"
    )
    report = live.stopped(
        sleeps,
        seconds=4,
        reached=lambda report: bool(report.compiles) and report.failures[0].stack[-1].line == 6,
    )
    assert [failure.kind for failure in report.failures] == ["timeout"]
    assert len(report.compiles) == 1
    live.close()


def test_without_fork_each_run_has_a_fresh_process(folder: Path) -> None:
    """Also each configuration of a benchmark."""
    live = without_fork(folder, program_interpreter())
    print_pid = "import os\nprint(os.getpid())\n" + GOOD
    first = live.analyse(print_pid)
    assert len(first.compiles) == 1
    plan = MeasurePlan(
        ("backend:eager",), rounds=2, seconds=0.02, device="cpu", profile=False, accuracy=False
    )
    timed = live.report(live.request(print_pid).of_kind(MeasureRequest, plan=plan))
    assert timed.failures == ()
    assert timed.measured is not None
    assert [row.wall is not None for row in timed.measured.configurations] == [True, True]
    pids = [report.output.stdout.split() for report in (first, timed) if report.output is not None]
    assert list(map(len, pids)) == [1, 2], [report.output for report in (first, timed)]
    assert len({*itertools.chain(*pids)}) == 3
    crashed = live.analyse("import os\nprint('before')\nos.kill(os.getpid(), 9)\n" + GOOD)
    assert crashed.output is not None
    assert crashed.output.stdout == "before\n"
    edited = EditedRun(live, GOOD)
    assert {line for line, _ in breaks(edited.edit("return", "print(0); return", "f"))} == {4}
    assert breaks(edited.edit("x.sin()", "x.cos()", "f")) == []
    stuck = edited.ask(GOOD.replace("return", "import time; time.sleep(100); return"), "f", seconds=1.0)
    assert isinstance(stuck, Refused)
    assert stuck.reason == "timeout"
    edited.close()
    print("\n".join(live.lines))  # noqa: T201 - shown when a test fails
    live.close()


def test_without_fork_a_process_that_cannot_run_anything_waits_for_its_job(tmp_path: Path) -> None:
    began, (read, write) = tmp_path / "began", os.pipe()
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.modules['torch'] = None\nopen({str(began)!r}, 'w').close()\n"
    )
    with subprocess.Popen(
        [sys.executable, launch_path(), "--child", str(write), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        pass_fds=(write,),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        while not began.exists():
            time.sleep(0.01)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1.5)
        _, data = child.communicate(wire.frame(b'{"request": {}, "fake": null}'), timeout=60)
    os.close(read)
    os.close(write)
    assert child.returncode == 1
    assert b"has no torch" in data


def test_a_host_killed_between_runs_is_replaced_silently(live: LiveWorker) -> None:
    first = live.do(live.worker.start()).pid
    os.kill(first, signal.SIGKILL)
    assert live.analyse(GOOD).failures == ()
    assert live.do(live.worker.start()).pid != first


def test_variables_that_torch_reads_at_import_count(live: LiveWorker) -> None:
    request = live.request(GOOD)
    host = live.do(live.worker.start()).pid
    assert len(live.report(request).compiles) == 1
    off = replace(request, environment={"TORCH_COMPILE_DISABLE": "1", "MINE": "2"})
    report = live.report(off)
    assert report.compiles == ()
    assert report.environment.variables["TORCH_COMPILE_DISABLE"] == "1"
    second = live.do(live.worker.start()).pid
    assert second != host
    live.report(off)
    assert live.do(live.worker.start()).pid == second
    assert len(live.report(request).compiles) == 1
