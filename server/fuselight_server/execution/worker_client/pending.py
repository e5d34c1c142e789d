"""A run that waits for its answer: what comes for it, how long it may take, and where it is when it says nothing.

Invariant: a run has one answer, the first that comes. Nothing here starts or ends a process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from fuselight.shared.protocol import (
    Answer,
    LiveReady,
    Partial,
    Progress,
    Refused,
    Retrace,
    RunRequest,
    Started,
)
from fuselight.shared.report import Failure, Report, Stack, innermost_user_frame
from fuselight.shared.worker_protocol import deadline
from fuselight_server.execution.worker_client.sampling import sample

_OVERTIME = 15.0
"""Seconds past the end that the worker sets a run after which the worker itself is held to be stuck."""


@dataclass
class PendingRun:
    """A request that waits for its answer."""

    request: RunRequest
    on_progress: Callable[[Progress], None]
    answer: asyncio.Future[Answer | Refused]
    on_partial: Callable[[Report], None] | None = None
    pid: int | None = None
    lost: bool = False
    """Whether the host died before this run had a process: whatever killed it, it was not the user's code."""
    last: Progress | None = None
    moved: float = field(default_factory=time.monotonic)
    sampled: Stack | None = None
    due: float | None = None
    """When its answer must be here, by `time.monotonic()`; None: there is no limit."""
    on_ready: Callable[[LiveReady], None] | None = None
    is_waiting: bool = False
    """Whether it is a live run that waits for what it is asked."""

    def __post_init__(self) -> None:
        """Give the worker as long to begin with it as the request has."""
        self._allow(self.request.limits.seconds)

    def take_message(self, message: Started | Progress | Partial | LiveReady | Answer | Refused) -> None:
        """Take in what came for it."""
        if isinstance(message, Started):
            self.pid, self.moved = message.pid, time.monotonic()
            self._allow(message.seconds)
        elif isinstance(message, Progress):
            self.last, self.moved = message, time.monotonic()
            self.on_progress(replace(message, id=self.request.id))
        elif isinstance(message, Partial):
            self.moved = time.monotonic()
            if self.on_partial is not None and not self.answer.done():
                self.on_partial(message.report)
        elif isinstance(message, LiveReady):
            self.is_waiting = True
            if self.on_ready is not None and not self.answer.done():
                self.on_ready(replace(message, id=self.request.id))
        elif not self.answer.done():
            self.answer.set_result(message)

    def _allow(self, seconds: float | None) -> None:
        """Let it take `seconds` from now on; None or 0: for ever."""
        self.due = deadline(time.monotonic(), seconds, _OVERTIME)


@dataclass
class PendingRetrace:
    """A request to a live run that waits for its answer."""

    request: Retrace
    answer: asyncio.Future[Answer | Refused]
    on_early: Callable[[Report], None] | None = None

    def take_message(self, message: Partial | Answer | Refused) -> None:
        """Take its answer; the first one counts, and ends what comes before it."""
        if self.answer.done():
            return
        if not isinstance(message, Partial):
            self.answer.set_result(replace(message, id=self.request.id))
        elif self.on_early is not None:
            self.on_early(message.report)

    def refuse(self, reason: str, failure: Failure | None = None) -> None:
        """Answer it here."""
        self.take_message(Refused(self.request.id, reason, failure))


def refuse_all(runs: Iterable[PendingRun], failure: Failure, reason: str) -> None:
    """Answer the runs that have none yet with a failure, in the phase that each has come to."""
    for run in runs:
        phase = run.last.phase if run.last else None
        run.take_message(Refused(run.request.id, reason, replace(failure, phase=phase)))


def with_stack(answer: Answer | Refused, sampled: Stack | None, roots: tuple[str, ...]) -> Answer | Refused:
    """Give a time limit's failure the sampled stack, where the run itself could not say where it was."""
    if sampled is None or not isinstance(answer, Answer) or innermost_user_frame(sampled, roots) is None:
        return answer
    failures = tuple(
        replace(failure, stack=sampled)
        if failure.kind == "timeout" and innermost_user_frame(failure.stack, roots) is None
        else failure
        for failure in answer.report.failures
    )
    return replace(answer, report=replace(answer.report, failures=failures))


class Watch:
    """Looks after the runs of one worker."""

    def __init__(self, sample_after: float, log: Callable[[str], None]) -> None:
        """Sample a run that has been silent for `sample_after` seconds; 0: none."""
        self._sample_after = sample_after
        self._log = log
        self._cannot_sample: str | None = None

    async def over(
        self, run: PendingRun, *, ask: Callable[[], Awaitable[None]], overdue: Callable[[], Awaitable[None]]
    ) -> None:
        """Sample `run` whenever it is silent, until it has its answer. Await `overdue` when that is not there in time.

        `ask` has the run itself say where it is, for where it cannot be sampled.
        """
        while not run.answer.done():
            silent = time.monotonic() - run.moved
            await asyncio.sleep(max(self._sample_after - silent, 0.05) if self._sample_after > 0 else 1.0)
            if run.due is not None and time.monotonic() > run.due:
                await overdue()
                return
            if run.is_waiting:
                run.moved = time.monotonic()  # it does not move until it is asked
            if self._sample_after <= 0 or run.pid is None:
                continue
            if time.monotonic() - run.moved >= self._sample_after:
                await self._sample(run, run.pid, ask)
                run.moved = time.monotonic()

    async def _sample(self, run: PendingRun, pid: int, ask: Callable[[], Awaitable[None]]) -> None:
        taken = await sample(pid)
        if taken.why_not is not None and taken.why_not != self._cannot_sample:
            self._cannot_sample = taken.why_not
            self._log(f"worker: a silent run cannot be sampled, and is asked itself instead: {taken.why_not}")
        if run.answer.done():
            return
        if not taken.stack:
            await ask()  # where it cannot tell, its phase stands alone
            return
        run.sampled = taken.stack
        place = innermost_user_frame(taken.stack, run.request.roots)
        if place is None:
            return
        last = run.last or Progress(run.request.id, "call")
        run.on_progress(replace(last, id=run.request.id).at(place))
