"""Rows and engines for tests of sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.remote.run_client import RemoteAnswer
from fuselight_server.sweep.engines import TaskOutcome, WorkerVersions
from fuselight_server.sweep.rows import RowFailure, RowStatus, SweepJob, SweepRow, TimedConfiguration
from fuselight_server.sweep.tasks import SweepTask

VERSIONS = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "triton": None,
    "fuselight": "0.1.0",
    "platform": "Linux",
    "executable": "python",
}
NET = """\
import torch


# fuselight: Net()(f32[4, 8])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu()
"""


def row(name: str = "net.py:Net", job: SweepJob = SweepJob.CHECK, **fields: Any) -> SweepRow:
    base = SweepRow(id=f"{name} {job.value}", key=f"key of {name}", name=name, job=job, status=RowStatus.DONE)
    return replace(base, **fields)


def failed(name: str = "net.py:Net", job: SweepJob = SweepJob.CHECK, **fields: Any) -> SweepRow:
    failure = RowFailure("user", "exception", "ValueError: no", "fix it", "net.py:3", "ValueError")
    return row(name, job, **{"status": RowStatus.FAILED, "failure": failure, **fields})


def timed(name: str, us: float, speedup: float | None = None, **fields: Any) -> TimedConfiguration:
    return TimedConfiguration(name, us, us * 0.99, us * 1.01, speedup=speedup, **fields)


def answer_of(task: SweepTask, **report: Any) -> RemoteAnswer:
    """The answer of a worker that captured nothing."""
    target = task.request.target
    data = {
        "versions": VERSIONS,
        "target": {"path": target.path, "name": target.name, "line": target.line, "kind": target.kind},
        "tier": "capture",
        "generation": 1,
        **report,
    }
    return RemoteAnswer(data, node="here", versions=VERSIONS, seconds=1.5)


@dataclass
class ScriptedEngine:
    """An engine whose answers a test writes: one attempt after the other."""

    answer: Callable[[SweepTask, int], RemoteAnswer] = lambda task, _attempt: answer_of(task)
    gpus: int = 0
    description: str = "a test"
    ran: list[str] = field(default_factory=list)
    prepared: int = 0
    is_closed: bool = False
    known_versions: WorkerVersions | None = None

    def versions(self) -> WorkerVersions | None:
        return self.known_versions

    def prepare(self, tasks: Sequence[SweepTask]) -> None:
        self.prepared += len(tasks)

    def parallel(self, _task: SweepTask) -> int:
        return 2

    def outcomes(self, tasks: Sequence[SweepTask]) -> Iterator[TaskOutcome]:
        for task in tasks:
            self.ran.append(task.id)
            yield TaskOutcome(task, self.answer(task, self.ran.count(task.id)))

    def close(self) -> None:
        self.is_closed = True


KILLS_ITS_WORKER = (
    NET
    + """

import os
import signal

# Import once as usual; the first time, kill a process above this one: 1 is the worker, 2 what started the worker.
if not os.path.exists({marker!r}):
    open({marker!r}, "w").close()
    pid = os.getppid()
    for _ in range({above} - 1):
        with open(f"/proc/{{pid}}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    signal.pause()
"""
)
"""A model whose first run kills its worker."""
