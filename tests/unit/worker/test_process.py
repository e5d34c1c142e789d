"""The end of child processes: their process group ends with them, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuselight.shared.worker_protocol import Conversation
from fuselight.worker.processes import process
from fuselight_server.execution.worker_client.process import WorkerProcess
from tests.support.live_worker import wait_gone

OWNER = """
import asyncio, sys
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client.process import begin
async def own():
    await begin(Interpreter(sys.executable), cwd=".", env={env!r})
    await asyncio.sleep(1000)
asyncio.run(own())
"""
"""Starts a worker and waits."""
WATCHED = """
import os, signal
from fuselight.worker.processes import process
process.watch_owner(os.getppid())
print(os.getpid(), flush=True)
while True:
    signal.pause()
"""
HOLDS_PIPES = """\
import subprocess
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
input()
"""
LEAVES_A_CHILD = """
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(left.pid, flush=True)
sys.exit(3)
"""


COUNTS_CHILDREN = """
import subprocess, sys
from fuselight.worker.processes import process
answers = [process.has_children()]
with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
    answers.append(process.has_children())
answers.append(process.has_children())
print(*answers)
"""


def state_of(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_process_group_is_killed_only_while_its_id_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[str | None] = []
    killpg = os.killpg

    def noted(pid: int, number: int) -> None:
        states.append(state_of(pid))
        killpg(pid, number)

    monkeypatch.setattr(os, "killpg", noted)
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_A_CHILD], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        assert child.stdout is not None
        left = int(child.stdout.readline())
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process.collect(child.pid) == 3
        assert states == ["Z"], "ended, and not collected yet"
        wait_gone(left)
        with pytest.raises(ChildProcessError):
            process.collect(child.pid)


def test_a_running_child_is_not_collected() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as child:
        assert process.collect(child.pid) is None
        os.kill(child.pid, signal.SIGTERM)


def wait_for(path: Path, process: subprocess.Popen[str]) -> str:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("owner_ends", ["during the import", "before the start"])
def test_a_worker_that_still_imports_torch_ends_with_its_owner(tmp_path: Path, owner_ends: str) -> None:
    """The import of this torch never ends, so that nothing but the end of the owner can end the worker."""
    (tmp_path / "torch.py").write_text(
        "import os, time\nopen('pid.new', 'w').write(str(os.getpid()))\nos.rename('pid.new', 'pid')\n"
        "time.sleep(1000)\n"
    )
    began, go_on = tmp_path / "began", tmp_path / "go on"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "if any('launch.py' in one for one in sys.orig_argv):\n"
        f"    open({str(began)!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"    os.rename({str(began)!r} + '.new', {str(began)!r})\n"
        f"    while not os.path.exists({str(go_on)!r}):\n        time.sleep(0.01)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", OWNER.format(env=env)], cwd=tmp_path, text=True) as owner:
        worker = int(wait_for(began, owner))
        if owner_ends == "during the import":
            go_on.touch()
            assert int(wait_for(tmp_path / "pid", owner)) == worker
        owner.kill()
        owner.wait()
        go_on.touch()
        wait_gone(worker)


@pytest.mark.slow
def test_a_timer_ends_a_process_whose_owner_is_gone() -> None:
    """As where the kernel does not."""
    starts = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"
    with subprocess.Popen(
        [sys.executable, "-c", starts, WATCHED], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        watched = int(owner.stdout.readline())
        owner.kill()
        owner.wait()
        wait_gone(watched)


@pytest.mark.skipif(sys.platform == "darwin", reason="has no waitid")
def test_a_process_without_children_knows_that() -> None:
    command = [sys.executable, "-c", COUNTS_CHILDREN]
    answers = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert answers.split() == ["False", "True", "False"]


def test_pipes_that_another_process_holds_are_closed_with_the_worker() -> None:
    async def ended() -> bytes:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HOLDS_PIPES),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert child.stdout is not None
        holder = int(await child.stdout.readline())
        try:
            await WorkerProcess(child, [], Conversation("python")).kill(())
            return await asyncio.wait_for(child.stdout.read(), 10)
        finally:
            os.kill(holder, signal.SIGKILL)

    assert asyncio.run(ended()) == b"", "the pipe has come to its end, although the other process lives"
