"""The process that runs a target as several ranks: it starts a process for each and merges their reports.

Invariant: it runs no user code itself, and its child processes end with it. At most two ranks run at a time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuselight.adapters.torch_api.distributed import fake_world
from fuselight.adapters.torch_api.distributed.objects import ENDED, ObjectExchange
from fuselight.shared import wire
from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.report import Failure, Report, WorldPlan
from fuselight.shared.world_plan import ranks_to_run
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.state import ChildJob, RunState, keep
from fuselight.worker.processes import children, process
from fuselight.worker.ranks.merged_ranks import MergedRanks, RankRun
from fuselight.worker.ranks.rank_run import RANK_FOLDER, Work, run_rank

_AT_ONCE = 2
"""Ranks that run in parallel, if there are two cores."""
_LOOKS = 0.02
"""Seconds between checks whether a process has ended."""
_GRACE = 1.0
"""Seconds that a rank has at its time limit to record its position."""


def run_ranks(state: RunState, plan: WorldPlan, work: Work) -> None:
    """Run the target of a request as each rank; the result of the run is a `MergedRanks`."""
    ranks = ranks_to_run(plan)
    result = MergedRanks(plan, state.job.request.roots)
    state.result = result
    waiting, running = list(ranks), list[_RankProcess]()
    at_once = min(_AT_ONCE, os.cpu_count() or 1)
    if state.job.forked:
        fake_world.unavailable()  # its imports, for all ranks
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_RankProcess(state.job, plan, waiting.pop(0), work))
            ended = [running_rank for running_rank in running if running_rank.has_ended()]
            for running_rank in ended:
                running.remove(running_rank)
                result.add_rank(running_rank.result())
                result.imported.extend(running_rank.libraries())
                state.progress.tell(
                    "report",
                    f"rank {running_rank.rank} of {plan.size}: {len(result.runs)} of {len(ranks)} ranks ended",
                )
                with contextlib.suppress(OSError):  # no room to write: the end may find some
                    keep(state)
            if not ended:
                time.sleep(_LOOKS)
    finally:
        for running_rank in running:
            running_rank.kill()


@dataclass
class _RankProcess:
    """The process of one rank."""

    job: ChildJob
    plan: WorldPlan
    rank: int
    work: Work
    started: float = field(default_factory=time.monotonic)
    _kill_at: float | None = None
    _directory: str = field(init=False)
    _pid: int = field(init=False)
    _status: Callable[[], int | None] = field(init=False)

    def __post_init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix=f"{RANK_FOLDER}{self.rank}-", dir=self.job.directory)
        request = replace(self.job.request, world=replace(self.plan, rank=self.rank))
        job = replace(self.job, request=request, directory=self._directory)
        ObjectExchange(Path(self.job.directory), self.rank).start()  # before a rank that runs with it can ask
        if self.job.forked:
            self._fork(job)
        else:
            self._spawn(job)

    def _fork(self, job: ChildJob) -> None:
        started = multiprocessing.get_context("fork").Process(
            target=_main, args=(job, self.work, os.getpid()), name=f"rank {self.rank}"
        )
        started.start()
        self._pid, self._status = started.pid or 0, lambda: started.exitcode

    def _spawn(self, job: ChildJob) -> None:
        spawned = children.spawn(["--child", str(job.progress), job.directory], (job.progress,))
        children.give_job(spawned, job.request, fake=job.fake)
        self._pid, self._status = spawned.pid, spawned.poll

    def has_ended(self) -> bool:
        """Whether its process has ended; at its time limit it is ended."""
        if self._status() is not None:
            return True
        now, limit = time.monotonic(), self.job.request.limits.seconds
        if self._kill_at is not None:
            if now >= self._kill_at:
                self.kill()
        elif limit and now - self.started >= limit:
            self._kill_at = now + _GRACE
            with contextlib.suppress(OSError):
                os.kill(self._pid, process.SOFT_SIGNAL)
        return False

    def kill(self) -> None:
        """End it and everything that it has started."""
        if self._status() is not None:
            return
        for pid in (*reversed(process.descendants(self._pid)), self._pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def result(self) -> RankRun:
        """What it recorded, once it has ended."""
        report = self._report("answer.json")
        failure = None
        if report is None or self._kill_at is not None:
            failure = self._failure(self._status() or 0)
            report = report or self._report("partial.json")
        with contextlib.suppress(OSError):  # for ranks that wait for its objects
            (Path(self.job.directory) / f"{self.rank}-{ENDED}").touch()
        return RankRun(self.rank, report, failure, time.monotonic() - self.started)

    def _failure(self, status: int) -> Failure:
        stopped = self._stopped()
        dumped = children.read_stack(self._read("faults.txt"))
        roots = self.job.request.roots
        stack = (
            stopped.stack
            if stopped
            else tuple(place for place in dumped if run_failures.is_shown(place.path, roots))
        )
        phase = stopped.phase if stopped else None
        if self._kill_at is not None:
            return run_failures.timeout_failure(self.job.request.limits.seconds, stack, phase, None)
        if status < 0:
            return run_failures.signal_failure(-status, self.job.request, stack, phase, None)
        if status == run_failures.OUT_OF_MEMORY:
            return run_failures.memory_failure(self.job.request, stack, phase, None)
        internal = self._read("internal.txt")
        if internal is not None:
            return run_failures.internal_failure(internal.decode("utf-8", "replace"))
        return run_failures.exit_failure(status, stack, call=None, phase=phase or "")

    def libraries(self) -> Iterator[str]:
        """The installed modules that it has imported."""
        with contextlib.suppress(wire.WireError):
            data = wire.load(self._read("ahead.json") or b"")
            if isinstance(data, Mapping) and isinstance(data.get("modules"), list):
                yield from (name for name in data["modules"] if isinstance(name, str))

    def _stopped(self) -> Failure | None:
        stopped: Failure | None = self._decoded(Failure, "stopped.json")
        return stopped

    def _report(self, name: str) -> Report | None:
        report: Report | None = self._decoded(Report, name)
        return report

    def _decoded(self, kind: Any, name: str) -> Any:
        try:
            return decode(kind, wire.load(self._read(name) or b""))
        except (wire.WireError, DecodeError):
            return None  # it has written none, or was ended while it did

    def _read(self, name: str) -> bytes | None:
        return children.read_file(os.path.join(self._directory, name))


def _main(job: ChildJob, work: Work, coordinator: int) -> None:
    """The process of a rank, forked from the coordinator: it ends in `child.run`."""
    process.die_with_parent(coordinator)
    plan = job.request.world or WorldPlan(1)
    child.run(job, lambda state: run_rank(state, plan, work))
