"""The queue of runs: at most one in flight and one waiting per target, one at a time per worker.

Invariant: every request that was accepted ends exactly once - delivered, superseded or cancelled - and `settled`
says up to which generation that is so. An outcome is delivered only while its run is the newest of its target;
a late one is dropped. An internal error ends only the run in which it happens. This module knows neither LSP nor
torch.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fuselight.shared.protocol import Answer, Progress, Refused, RunRequest
from fuselight.shared.report import Culprit, Failure, Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.execution.runs.keys import Key, WorkerKey

_REST = 9
"""Times as long as the last report took, before the next one is taken in."""


class PartialReports:
    """Those of one run."""

    def __init__(self, accept: Callable[[Report], Awaitable[None]], log: Callable[[str], None]) -> None:
        """Hand reports to `accept`; what it raises costs that report and is logged."""
        self._accept = accept
        self._log = log
        self._next: Report | None = None
        self._task: asyncio.Task[None] | None = None
        self.began = False
        """Whether any was handed on."""

    def put_report(self, report: Report) -> None:
        """Take in `report` instead of one that still waits."""
        self._next = report
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def end(self) -> None:
        """Take in no more; one that is being taken in is left off."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        while self._next is not None:
            report, self._next, start = self._next, None, time.monotonic()
            self.began = True
            try:
                await self._accept(report)
            except Exception:  # noqa: BLE001 - any defect of ours; the run goes on, and its end is shown
                self._log(f"the partial results of a run could not be shown:\n{traceback.format_exc()}")
            await asyncio.sleep(_REST * (time.monotonic() - start))


@dataclass(frozen=True)
class Job:
    """One requested run. `make` is asked when it starts, so that it sees the buffers as they are then."""

    key: Key
    worker_key: WorkerKey
    generation: int
    cause: str
    """Why, for the log: `saved`, `command`, ..."""
    make: Callable[[], RunRequest | None] = field(compare=False)
    """None when the target is gone."""


Run = Callable[
    [RunRequest, Callable[[Progress], None], Callable[["Report"], None]], Awaitable[Answer | Refused]
]
"""Runs a request and returns its outcome; calls its arguments with progress and with each partial report.

It never raises for an error in the worker; canceling it cancels the run.
"""


class OwnedWorker(Protocol):
    """A worker process, as far as we own it."""

    @property
    def hello(self) -> Any:
        """What it said first; None before."""
        ...

    async def run(
        self,
        request: RunRequest,
        on_progress: Callable[[Progress], None],
        on_partial: Callable[[Report], None],
    ) -> Answer | Refused:
        """Run a request, as `Run`."""
        ...

    async def close(self) -> None:
        """End the process."""
        ...


@dataclass
class Running:
    """A run in flight."""

    job: Job
    since: float
    """`time.monotonic()` of its start."""
    token: CancelToken = field(default_factory=CancelToken)
    """What a cancel, or a newer run of its target, ends it by."""
    progress: Progress | None = None
    remark: str = ""
    """What its partial results say, in words."""
    why: str = ""
    """In words, why it was canceled."""
    superseded: bool = False
    """Whether a newer run of its target waits, or nobody waits for it any more, so that its own outcome is late."""


class Queue:
    """Which job is next: pure bookkeeping, without time or tasks."""

    def __init__(self) -> None:
        self.waiting: dict[Key, Job] = {}
        self.running: dict[Key, Job] = {}

    def add_job(self, job: Job) -> None:
        """Let `job` wait in place of one that waits for the same target; their causes are joined."""
        earlier = self.waiting.pop(job.key, None)
        if earlier is not None and job.cause not in earlier.cause.split(", "):
            job = replace(job, cause=f"{earlier.cause}, {job.cause}")
        self.waiting[job.key] = job

    def start(self, worker_key: WorkerKey) -> Job | None:
        """Take the oldest job of `worker_key` whose target is not in flight."""
        for key, job in self.waiting.items():
            if job.worker_key == worker_key and key not in self.running:
                del self.waiting[key]
                self.running[key] = job
                return job
        return None

    def end_job(self, job: Job) -> None:
        """Note that `job` is over, however it ended."""
        del self.running[job.key]

    def drop(self, keys: Iterable[Key] | None) -> tuple[Job, ...]:
        """Remove the waiting jobs of `keys` (None: all) and return them; a key may be named twice."""
        chosen = tuple(self.waiting) if keys is None else tuple(dict.fromkeys(keys))
        return tuple(self.waiting.pop(key) for key in chosen if key in self.waiting)

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that wait, and those in flight."""
        return (*self.waiting.values(), *self.running.values())

    def settled(self, newest: int) -> int:
        """Return the highest generation, `newest` at most, of which every run is over."""
        pending = [job.generation for job in self.jobs()]
        return min(pending, default=newest + 1) - 1


class Runs:
    """The queue at work: one task for each worker that has jobs."""

    def __init__(
        self,
        *,
        worker: Callable[[WorkerKey], Run],
        deliver: Callable[[Job, RunRequest, Answer | Refused], Awaitable[None]],
        changed: Callable[[], None],
        log: Callable[[str], None],
        tell: Callable[[str], None],
        partly: Callable[[Job, Report | None], Awaitable[None]],
        ended: Callable[[Job, str], None] = lambda _job, _why: None,
    ) -> None:
        """Deliver outcomes to `deliver`; call `changed` whenever a run starts, moves on or ends.

        `tell` shows the user an internal error that has no outcome. `partly` gets each partial report of a run, and
        None when the run will send no more of them. `ended` is called for a run that was canceled, with the reason.
        """
        self._worker = worker
        self._deliver = deliver
        self._show = changed
        self._log = log
        self._tell = tell
        self._partly = partly
        self._ended = ended
        self._drains: dict[WorkerKey, asyncio.Task[None]] = {}
        self.queue = Queue()
        self.in_flight: dict[Key, Running] = {}
        self.generation = 0

    def next_generation(self) -> int:
        """Begin a new generation: what is requested by one save or command."""
        self.generation += 1
        return self.generation

    @property
    def settled(self) -> int:
        """Every run up to this generation is over and delivered."""
        return self.queue.settled(self.generation)

    def request_run(self, job: Job, *, supersede: bool) -> None:
        """Queue `job`. With `supersede`, a run of its target in flight is cancelled; else that ends first."""
        self._log(f"run {job.generation} of {job.key.words} in {job.key.path}: {job.cause}")
        self.queue.add_job(job)
        running = self.in_flight.get(job.key)
        if supersede and running is not None:
            running.superseded = True
            running.token.cancel()
        drain = self._drains.get(job.worker_key)
        if drain is None or drain.done():
            self._drains[job.worker_key] = asyncio.get_running_loop().create_task(self._drain(job.worker_key))
        self._changed()

    def cancel(self, keys: Iterable[Key] | None = None, why: str = "") -> None:
        """Cancel the runs of `keys` (None: all), waiting or in flight; `why` in words."""
        chosen = None if keys is None else tuple(keys)
        dropped = self.queue.drop(chosen)
        for key, running in self.in_flight.items():
            if chosen is None or key in chosen:
                running.why = why
                running.token.cancel()
        for job in dropped:
            self._ended(job, why)
            self._log(f"run {job.generation} of {job.key.words} cancelled before it began")
        self._changed()

    def withdraw(self, keys: Iterable[Key]) -> None:
        """Cancel runs that nobody has asked for: nothing is said of their ends."""
        chosen = tuple(keys)
        for job in self.queue.drop(chosen):
            self._log(f"run {job.generation} of {job.key.words} withdrawn before it began")
        for key in chosen:
            running = self.in_flight.get(key)
            if running is not None:
                running.superseded = True
                running.token.cancel()
        self._changed()

    async def close(self) -> None:
        """Cancel everything and wait until nothing runs."""
        self.cancel()
        drains = [drain for drain in self._drains.values() if not drain.done()]
        if drains:
            await asyncio.wait(drains)

    def _changed(self) -> None:
        try:
            self._show()
        except Exception:  # noqa: BLE001 - what cannot be shown stops no run
            self._log(f"what runs could not be shown:\n{traceback.format_exc()}")

    async def _drain(self, worker_key: WorkerKey) -> None:
        while (job := self.queue.start(worker_key)) is not None:
            try:
                await self._run(job)
            except Exception as error:  # noqa: BLE001 - any defect of ours; the later jobs go on
                name = f"run {job.generation} of {job.key.words}"
                self._log(f"{name} failed:\n{traceback.format_exc()}")
                self._tell(
                    f"Fuselight failed ({type(error).__name__}) and shows nothing of {name}: see its log."
                )
            finally:
                self.queue.end_job(job)
                self.in_flight.pop(job.key, None)
                self._changed()
        del self._drains[
            worker_key
        ]  # in the step that found nothing to do: a job that comes later starts another task

    async def _run(self, job: Job) -> None:
        """Make the run of `job` and deliver its outcome: a failure is an outcome, too."""
        request = job.make()
        if request is None:
            self._log(f"run {job.generation}: {job.key.words} is no longer there")
            return
        try:
            await self._take_to_the_end(job, request)
        except Exception as error:  # noqa: BLE001 - any defect of ours, an outcome that cannot be taken in among them
            self._log(f"run {job.generation} of {job.key.words}:\n{traceback.format_exc()}")
            await self._deliver(job, request, _refused(request, error))

    async def _take_to_the_end(self, job: Job, request: RunRequest) -> None:
        running = Running(job=job, since=time.monotonic())
        self.in_flight[job.key] = running

        def on_progress(progress: Progress) -> None:
            running.progress = progress
            self._changed()

        partial = PartialReports(lambda report: self._partly(job, report), self._log)

        def on_partial(report: Report) -> None:
            if not running.superseded:
                partial.put_report(report)

        task = asyncio.ensure_future(self._worker(job.worker_key)(request, on_progress, on_partial))
        running.token.bind(task)
        self._changed()
        await asyncio.wait({task})
        await partial.end()
        outcome = _outcome(task, request)
        name = f"run {job.generation} of {job.key.words}"
        if outcome is None or (
            isinstance(outcome, Refused) and outcome.reason in {"cancelled", "superseded"}
        ):
            self._log(f"{name} cancelled")
            if not running.superseded:
                failure = outcome.failure if outcome is not None else None
                self._ended(job, running.why or (failure.message if failure is not None else ""))
        elif running.superseded:
            self._log(f"{name} is late and dropped")
        else:
            partial.began = False  # what is delivered stands in its place
            self._log(f"{name} took {time.monotonic() - running.since:.2f} s")
            await self._deliver(job, request, outcome)
        if partial.began:
            await self._partly(job, None)


def _outcome(task: asyncio.Task[Answer | Refused], request: RunRequest) -> Answer | Refused | None:
    """What a task that is over gave; None when it was cancelled."""
    if task.cancelled():
        return None
    error = task.exception()
    return task.result() if error is None else _refused(request, error)


def _refused(request: RunRequest, error: BaseException) -> Refused:
    failure = Failure(
        culprit=Culprit.FUSELIGHT,
        kind="internal",
        message=str(error) or type(error).__name__,
        next_step="See Fuselight's log, and run again.",
        exception=type(error).__name__,
        traceback="".join(traceback.format_exception(error)),
    )
    return Refused(id=request.id, reason="failed", failure=failure)
