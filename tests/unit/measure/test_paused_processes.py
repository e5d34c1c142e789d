"""A process and everything below it stops for a while, so that others can be timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuselight.measure.machine import processor
from fuselight.worker.processes import process

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
PARENT = (
    "import subprocess, time; subprocess.Popen(['sleep', '60']); print('ready', flush=True); time.sleep(60)"
)


def states(pids: tuple[int, ...]) -> set[str]:
    """The kernel's letter for the state of each process."""
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] for pid in pids}


def test_a_tree_of_processes_stops_and_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        pids = process.descendants(parent.pid)
        try:
            assert len(pids) == 2
            process.pause_tree(parent.pid)
            until = time.monotonic() + 10
            while states(pids) != {"T"} and time.monotonic() < until:
                time.sleep(0.01)
            assert states(pids) == {"T"}
            process.resume_tree(parent.pid)
            while states(pids) & {"T"} and time.monotonic() < until:
                time.sleep(0.01)
            assert not states(pids) & {"T"}
        finally:
            for pid in reversed(pids):
                subprocess.run(["kill", "-9", str(pid)], check=False)


def test_a_process_that_has_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own
        process.pause_tree(ended.pid)
        process.resume_tree(ended.pid)


def test_free_memory_is_read_and_none_where_it_is_not_reported(tmp_path: Path) -> None:
    assert processor.available_bytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert processor.available_bytes(tmp_path) == 2048 * 1024
