"""`fuselight run` of programs of several processes: each one records itself, and one report names who failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuselight.shared.started_processes import logs_in
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.prepared import program_interpreter

pytestmark = pytest.mark.torch

RANKS = """\
import os
import sys
import time

import torch
import torch.distributed as dist


@torch.compile(backend="aot_eager", dynamic=False)
def scaled(x):
    return x.relu() * 3


dist.init_process_group("gloo")
scaled(torch.ones(2, 5))
if dist.get_rank() == 1:
    scaled(torch.ones(2, 7))
dist.barrier()
print(os.environ["HF_TOKEN"], flush=True)
if dist.get_rank() == 1:
    ends = time.monotonic() + 60
    while time.monotonic() < ends and not os.path.exists(os.environ["WAITS"]):
        time.sleep(0.2)
    sys.exit(6)
dist.barrier()
"""

SPAWNED = """\
import slow
import torch
import torch.multiprocessing as mp


@torch.compile(backend="eager")
def halved(x):
    y = x / 2
    print(end="")
    return y


def work(number, fails):
    halved(torch.ones(3))
    if fails:
        raise LookupError("no shard 7")


if __name__ == "__main__":
    halved(torch.ones(4))
    mp.start_processes(work, args=(False,), nprocs=1, start_method="fork")
    mp.spawn(work, args=(True,), nprocs=1)
"""


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fuselight_server", "run", "--python", program_interpreter(), *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **variables},
        timeout=300,
        check=False,
    )


def test_ranks_of_a_launcher_have_one_report_which_names_the_rank_that_failed(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "ranks.py")
    logs = tmp_path / "logs"
    variables = {"HF_TOKEN": "secret-word", "WAITS": str(logs / "flight_recorder_rank_0")}
    done = run(tmp_path, *launcher, TORCH_TRACE=str(logs), **variables)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("secret-word") == 2, "the variables of the program are its own"
    assert "ChildFailedError" in done.stderr
    report = done.stderr[done.stderr.index("Job logs, started") :]
    assert "ranks.py:10:" in report
    waits = report[report.index("warning[FL916]: rank 0 waits in `barrier` (number ") :]
    last = len(RANKS.splitlines())
    assert f", which rank 1 has not started; rank 1 has ended\n  --> ranks.py:{last}:1\n" in waits
    assert "x.size(1) was 5, now 7" in report
    assert "rank 1 of 2" in report or "(the other did not)" in report
    assert report.splitlines()[-1] == "rank 1 ended with exit code 6."
    (job,) = read_jobs([logs])
    assert [process.rank for process in job.processes] == [0, 1], "the launcher's own process has no log"
    assert {process.environment.get("WORLD_SIZE") for process in job.processes} == {"2"}
    for process in job.processes:
        assert process.imports is not None
        line = process.imports.lines[0]
        assert (Path(line.location.path).name, line.location.line) == ("ranks.py", 5)
        assert line.modules == ("torch",)
        assert not process.imports.is_forked
    assert "  ranks.py:5 imports torch: " in report
    assert not any(b"secret-word" in Path(path).read_bytes() for path in logs_in(str(logs)))


def test_processes_that_a_program_forks_and_spawns_record_themselves(tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text(SPAWNED)
    (tmp_path / "slow.py").write_text("total = sum(range(4_000_000))\n")
    done = run(tmp_path, "spawned.py")
    assert done.returncode == 1, done.stderr
    report = done.stderr[done.stderr.index("LookupError: no shard 7\n\n") :]
    assert report.count("graph break: `print`") == 2, (
        "of the program's own process, and of those that it started"
    )
    assert "Job spawned, started" in report
    assert "2 processes" in report
    own, processes = report.split("Job spawned, started")
    assert "\n  compiles, all stages  " in own
    assert "  spawned.py:1 imports slow: " in own, "which the program's own process has imported"
    assert "start of" not in own
    assert "start (process " in processes
    last = report.splitlines()[-1]
    assert last.startswith("process ")
    assert last.endswith("(number 0 of those that were spawned) failed with `LookupError: no shard 7`.")
    assert (tmp_path / ".fuselight" / "last-run.json").exists()
