"""Sweeps over Ray: workers that are killed, an interrupt, and what is not a cluster. It runs in the ring `ray`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight_server.sweep.results import ROWS, read_results
from fuselight_server.sweep.rows import RowStatus
from tests.support.lsp_client import ROOT
from tests.support.sweeps import KILLS_ITS_WORKER, NET

DEADLINE = 240.0


def variables() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "compiler"), str(ROOT / "server")])
    return {**os.environ, "PYTHONPATH": path, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


INTERRUPTIBLE = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from fuselight_server import main
sys.exit(main())
"""
"""The command. A shell that runs the tests in the background has them ignore Ctrl-C, which processes inherit."""


def sweep(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            INTERRUPTIBLE,
            "sweep",
            "models",
            "--engine",
            "ray",
            "--out",
            "out",
            *options,
        ],
        cwd=folder,
        env=variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "pyproject.toml").touch()
    for name in ("a", "b"):
        (tmp_path / "models" / f"{name}.py").write_text(NET, encoding="utf-8")
    return tmp_path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A head node with two CPUs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    log = tmp_path / "ray.log"
    with log.open("w", encoding="utf-8") as output:
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", *start],
            env=variables(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text(encoding="utf-8"):
            assert head.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < until, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        head.send_signal(signal.SIGTERM)
        try:
            head.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)
            head.wait()


def test_no_task_is_lost_when_workers_are_killed(folder: Path) -> None:
    """The worker with the model is killed in one task, and Ray's own process in another."""
    for above in (1, 2):
        (folder / "models" / f"dies_{above}.py").write_text(
            KILLS_ITS_WORKER.format(marker=str(folder / f"died-{above}"), above=above), encoding="utf-8"
        )
    (folder / "models" / "b.py").unlink()
    running = sweep(folder, "--jobs", "1")
    stdout, stderr = running.communicate(timeout=DEADLINE)
    assert running.returncode == 0, stdout + stderr
    rows = {row.id: row for row in read_results(str(folder / "out")).rows}
    assert {name: row.attempts for name, row in rows.items()} == {
        "a.py:Net check": 1,
        "dies_1.py:Net check": 2,
        "dies_2.py:Net check": 2,
    }
    assert {row.status for row in rows.values()} == {RowStatus.DONE}
    assert {row.graphs for row in rows.values()} == {1}
    assert (folder / "died-1").exists()
    assert (folder / "died-2").exists()
    assert all(row.path.startswith(str(folder / "models")) for row in rows.values())


def test_a_sweep_over_a_cluster_is_interrupted_and_resumed(folder: Path, cluster: str) -> None:
    (folder / "models" / "slow.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(folder / 'go')!r}):\n    time.sleep(0.1)\n{NET}",
        encoding="utf-8",
    )
    rows = folder / "out" / ROWS
    running = sweep(folder, "--address", cluster, "--jobs", "1")
    until = time.monotonic() + DEADLINE
    while not rows.exists() or rows.read_bytes().count(b"\n") < 2:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=DEADLINE)
    assert running.returncode == 130, stdout + stderr
    assert "1 of 3 tasks left" in stderr
    (folder / "go").touch()
    resumed = sweep(folder, "--address", cluster, "--resume", "--format", "json")
    stdout, stderr = resumed.communicate(timeout=DEADLINE)
    assert resumed.returncode == 0, stdout + stderr
    assert "1 task on the Ray cluster at" in stderr
    value = json.loads(stdout)["rows"]
    assert [result["status"] for result in value] == ["done"] * 3
    assert rows.read_bytes().count(b"\n") == 3, "a task ran twice"


def test_more_gpus_than_the_cluster_has(folder: Path) -> None:
    running = sweep(folder, "--do", "bench", "--device", "cuda", "--gpus", "64")
    _, stderr = running.communicate(timeout=DEADLINE)
    assert running.returncode == 2
    assert "--gpus 64" in stderr
