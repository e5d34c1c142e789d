"""The end of child processes: their process group ends with them, and nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight.worker import process
from tests.support.live_worker import wait_gone

LEAVES_A_CHILD = """
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(left.pid, flush=True)
sys.exit(3)
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
