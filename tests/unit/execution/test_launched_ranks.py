"""Ranks that a launcher started, each under its own `fuselight run`: who prints, and for whom it waits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuselight.shared.started_processes import TRACE, ProcessEnd
from fuselight_server.execution.launched_ranks import LaunchedRank, SharedRun, launched_rank
from fuselight_server.execution.programs import end_started, run_program
from tests.support.trace_logs import compiled

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "TORCHELASTIC_RUN_ID": "none",
}


def test_the_rank_is_that_of_the_variables() -> None:
    assert launched_rank(TORCHRUN) == LaunchedRank(5, 8, 1, 4)
    assert launched_rank({}) is None
    assert launched_rank({**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"}) is None, "a program as any other"
    assert launched_rank({**TORCHRUN, "RANK": "-1"}) is launched_rank({**TORCHRUN, "RANK": "9" * 50}) is None
    by_hand = launched_rank({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
    assert by_hand is not None
    assert (by_hand.label, by_hand.shares_folder) == ("rank 5", False)


def test_the_first_of_those_that_share_prints_and_waits_for_the_living(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fuselight_server.execution.launched_ranks._JOINING", 0.0)
    launched = [LaunchedRank(4 + local, 8, local, 3) for local in range(3)]
    late, first = (SharedRun(launched[number], TORCHRUN) for number in (2, 1))
    assert first.folder == late.folder
    assert SharedRun(launched[0], {**TORCHRUN, "MASTER_PORT": "1"}).folder != first.folder, "another job"
    assert (first.prints, late.prints) == (True, False), "rank 4 does not share the folder"
    first.end(11, 0)
    late.end(12, -9)
    first.wait()
    assert first.ends() == (ProcessEnd(rank=6, pid=12, code=-9),)
    Path(first.folder, "rank-0.json").write_text('{"rank": "no"}')
    assert [rank.rank for rank in first.ranks()] == [5, 6], "a record of another version is ignored"
    killed = '{"rank": 4, "local_rank": 0, "watcher": 999999999}'
    Path(first.folder, "rank-0.json").write_text(killed)
    assert (first.prints, late.prints) == (True, False), "the first rank was killed"
    first.wait()
    first.remove()
    late.end(12, 0)
    assert not late.prints, "the folder is gone: it was printed"
    assert not Path(first.folder).exists()


def test_a_rank_that_starts_late_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    now = iter(range(0, 1000, 4))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    first, late = (LaunchedRank(local, 2, local, 2) for local in range(2))
    run = SharedRun(first, TORCHRUN)
    run.end(11, 0)
    monkeypatch.setattr("time.sleep", lambda _seconds: SharedRun(late, TORCHRUN).end(12, 3))
    run.wait()
    assert run.ends() == (ProcessEnd(rank=1, pid=12, code=3),)
    shutil.rmtree(run.folder)
    never = SharedRun(first, TORCHRUN)
    never.end(11, 0)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    never.wait()
    assert [rank.rank for rank in never.ranks()] == [0], "the wait for a rank that never starts has an end"


RANK = f"""\
import os, pathlib, sys, time
number = int(os.environ["RANK"])
pathlib.Path(os.environ["{TRACE}"], f"dedicated_log_torch_trace_rank_{{number}}_x.log").write_bytes(
    {{0: {compiled(process=7, rank=0)!r}, 1: {compiled(process=8, rank=1)!r}}}[number]
)
if number == 1:
    while not list(pathlib.Path(os.environ["TMPDIR"]).glob("fuselight-ranks-*/rank-0.json")):
        time.sleep(0.01)
    sys.exit(4)
"""


@pytest.mark.slow
def test_one_rank_prints_one_report_for_all(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANK)
    command = [sys.executable, "-m", "fuselight_server", "run", "--python", sys.executable, "train.py"]
    shared = {**TORCHRUN, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TMPDIR": str(tmp_path)}
    ranks = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    texts = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 4], "each ends as its program"
    assert texts[1] == ""
    assert texts[0].startswith("Job train, started")
    assert texts[0].count("Job train") == 1
    assert texts[0].splitlines()[-1] == "rank 1 ended with exit code 4."
    assert not list(tmp_path.glob("fuselight-ranks-*"))


LEAVES = """\
import subprocess, sys
program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, file=open("pid", "w"))
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not show variables")
def test_processes_that_an_interrupted_program_leaves_are_ended_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuselight_server.execution.programs._GRACE", 0.1)
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        ended = run_program(
            [sys.executable, "-c", LEAVES], {**os.environ, "FUSELIGHT_RUN": str(tmp_path / "a")}
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (ended.code, ended.is_stopped) == (0, False)
    left = int((tmp_path / "pid").read_text())
    end_started(str(tmp_path / "b"))
    os.kill(left, 0)
    end_started(str(tmp_path / "a"))
    end = time.monotonic() + 10
    while _runs(left) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _runs(left)


def _runs(process: int) -> bool:
    """Whether a process runs: one that nobody waits for stays in the table after its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
