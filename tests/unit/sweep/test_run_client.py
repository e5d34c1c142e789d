"""Runs in a worker process, whatever that process does: here a script in the place of an interpreter with torch."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fuselight.remote import run_client
from fuselight.remote.run_client import RemoteRun, RunClient, RunStoppedError

HEAD = """\
#!{python}
import json, os, signal, struct, sys, time, zlib
def send(**message):
    data = json.dumps(message).encode()
    os.write(1, struct.pack(">4sII", b"FLs1", len(data), zlib.crc32(data)) + data)
def ask():
    head = os.read(0, 12)
    if not head:
        sys.exit()
    size, data = struct.unpack(">4sII", head)[1], b""
    while len(data) < size:
        data += os.read(0, size - len(data))
    return json.loads(data)
versions = {{"python": "3", "torch": "2"}}
hello = dict(type="Hello", protocol=2, versions=versions, pid=os.getpid(), forks=True)
"""
ANSWERS = """\
send(**hello)
while True:
    asked = ask()
    send(type="Started", id=asked["id"], pid=1, seconds=5)
    send(type="Partial", id=asked["id"], report={"no": "report"})
    print("noise", file=sys.stderr)
    send(type="Answer", id=asked["id"], report={"path": asked["target"]["path"], "texts": {"k": "x" * 200_000},
        "cwd": os.getcwd(), "variables": dict(os.environ), "pid": os.getpid(), "message": "at " + os.getcwd()})
"""


@pytest.fixture
def worker(tmp_path: Path) -> Any:
    """Write a worker, and return its run."""

    def write(body: str, **fields: Any) -> RemoteRun:
        path = tmp_path / "python"
        path.write_text(HEAD.format(python=sys.executable) + body, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        request = {"type": "CaptureRequest", "target": {"path": "/far/net.py"}, "limits": {"seconds": 30.0}}
        return RemoteRun(request, str(path), **fields)

    return write


def test_runs_share_a_process_and_leave_large_texts_out(worker: Any) -> None:
    job = worker(ANSWERS, environment={"COLOR": "blue"})
    client = RunClient(job)
    try:
        first, second = client.run(job), client.run(job)
    finally:
        client.close()
    assert first.report is not None
    assert second.report is not None
    assert first.report["pid"] == second.report["pid"]
    assert first.report["variables"]["COLOR"] == "blue"
    assert "texts" not in first.report
    assert first.versions == {"python": "3", "torch": "2"}
    assert first.node
    with pytest.raises(ProcessLookupError):
        os.kill(first.report["pid"], 0)


def test_paths_of_the_driver_are_those_of_the_node_and_back(
    worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suite" / "0").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    job = worker(ANSWERS, folder="/far", moved={"/far": "suite/0"})
    client = RunClient(job)
    try:
        answer = client.run(job)
    finally:
        client.close()
    assert answer.report is not None
    assert answer.report["path"] == "/far/net.py"
    assert answer.report["cwd"] == "/far"
    assert answer.report["message"] == "at /far"


class Deadline:
    """A moment in the near future."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def has_passed(self) -> bool:
        return time.monotonic() > self._at


DYING = {
    "before it is ready": ("sys.exit(3)", "ended with status 3"),
    "printing why": ("print('no torch', file=sys.stderr); sys.exit(1)", "ended with status 1: no torch"),
    "printing why at last": (
        "os.close(1); time.sleep(0.3); print('no torch', file=sys.stderr); sys.exit(1)",
        "ended with status 1: no torch",
    ),
    "in the run": ("send(**hello); ask(); os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
    "with nonsense": ("os.write(1, b'nonsense' * 9)", "expected a message at byte 0"),
}


@pytest.mark.parametrize("case", DYING)
def test_a_worker_that_dies_is_lost_and_the_next_run_has_another(worker: Any, case: str) -> None:
    body, why = DYING[case]
    client = RunClient(worker(body))
    assert why in client.run(worker(body)).lost
    answer = client.run(worker(ANSWERS))  # the same path, another program
    client.close()
    assert answer.lost == ""
    assert answer.report is not None


def test_a_program_that_is_not_there_is_lost() -> None:
    job = RemoteRun({}, "/no/such/python")
    assert "cannot be started" in RunClient(job).run(job).lost


@pytest.mark.slow
def test_a_worker_without_torch_says_so(worker: Any) -> None:
    problem = {"culprit": "environment", "kind": "no_torch", "message": "no torch"}
    job = worker(f"send(**{{**hello, 'problem': {problem!r}}})\ntime.sleep(60)")
    answer = RunClient(job).run(job)
    assert answer.failure == problem
    assert answer.versions["python"] == "3"


def test_a_refusal_without_a_failure_names_its_reason(worker: Any) -> None:
    job = worker("send(**hello); send(type='Refused', id=ask()['id'], reason='superseded'); ask()")
    client = RunClient(job)
    answer = client.run(job)
    client.close()
    assert answer.failure is not None
    assert "superseded" in answer.failure["message"]


def test_a_worker_that_is_stuck_is_lost_at_its_limit(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_client, "OVERTIME_SECONDS", 0.2)
    job = worker("send(**hello); send(type='Started', id=ask()['id'], pid=1, seconds=0.2); time.sleep(60)")
    assert "no answer" in RunClient(job).run(job).lost
    monkeypatch.setattr(run_client, "_START_SECONDS", 0.2)
    job = worker("time.sleep(60)")
    assert "did not get ready" in RunClient(job).run(job).lost


@pytest.mark.slow
def test_a_run_can_be_stopped_at_any_time(worker: Any) -> None:
    for body in ("time.sleep(60)", "send(**hello); ask(); time.sleep(60)"):
        job = worker(body)
        with pytest.raises(RunStoppedError):
            RunClient(job).run(job, Deadline(0.5).has_passed)


def test_a_process_keeps_one_worker_for_runs_that_can_share_it(worker: Any) -> None:
    job = worker(ANSWERS)
    try:
        pids = [
            (run_client.run_remotely(value).report or {}).get("pid")
            for value in (job, job, worker(ANSWERS, environment={"COLOR": "red"}))
        ]
        assert pids[0] == pids[1] != pids[2]
        dead = worker("sys.exit(1)", environment={"COLOR": "red"})
        assert run_client.run_remotely(worker("sys.exit(1)", environment={"COLOR": "none"})).lost
        assert run_client._kept == []
        assert run_client.run_remotely(dead).lost
    finally:
        while run_client._kept:
            run_client._kept.pop().close()
