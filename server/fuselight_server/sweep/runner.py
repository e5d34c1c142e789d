"""Runs a plan on an engine: rows as they come, one retry for a task whose worker died, and an estimate of the rest.

Invariant: each task of the plan ends as exactly one row. A first attempt that was lost leaves no row, so that an
interrupted sweep tries it again. Tasks that are timed run after all others, when nothing else uses the machine.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fuselight.shared.report import Culprit
from fuselight.shared.report.tuned import TunedResult
from fuselight_server.sweep.engines import Engine, TaskOutcome
from fuselight_server.sweep.row_of_report import row_of_answer, tuned_result_of
from fuselight_server.sweep.rows import RowStatus, SweepRow
from fuselight_server.sweep.tasks import SweepTask

ATTEMPTS = 2
_DIED = "signal"
"""Kind of failure of a run whose process was killed: the next attempt may have more memory."""


@dataclass
class SweepProgress:
    """How many tasks have ended, and how long the others will take."""

    total: int
    done: int = 0
    not_done: int = 0
    """Ended tasks without a whole result."""
    started: float = field(default_factory=time.monotonic)
    _seconds: dict[object, list[float]] = field(default_factory=lambda: defaultdict(list))

    def count(self, row: SweepRow) -> None:
        """Take in a row."""
        self.done += 1
        self.not_done += not row.is_complete
        if row.seconds > 0:
            self._seconds[row.job].append(row.seconds)

    def rest_seconds(self, left: Sequence[SweepTask], engine: Engine) -> float | None:
        """Estimate how long the tasks that are left will take; None before anything has ended."""
        known = [seconds for second in self._seconds.values() for seconds in second]
        if not known:
            return None
        rest = 0.0
        for task in left:
            second = self._seconds.get(task.job) or known
            rest += sum(second) / len(second) / max(1, engine.parallel(task))
        return rest


def run_tasks(
    tasks: Sequence[SweepTask],
    engine: Engine,
    *,
    on_result: Callable[[TunedResult], None] = lambda _result: None,
    earlier: Iterable[SweepRow] = (),
) -> Iterator[SweepRow]:
    """Yield the row of each task, as it ends.

    `on_result` gets what a search found for replay. `earlier`: rows that the new ones stand next to.
    """
    versions = _VersionNotes(earlier)
    if tasks:
        engine.prepare(tasks)
    for timed in (False, True):
        group = [task for task in tasks if task.job.is_timed is timed]
        for attempt in range(1, ATTEMPTS + 1):
            again: list[SweepTask] = []
            for outcome in engine.outcomes(group) if group else ():
                if attempt < ATTEMPTS and _has_died(outcome):
                    again.append(outcome.task)
                    continue
                result = tuned_result_of(outcome.answer)
                if result is not None:
                    on_result(result)
                yield versions.noted(_row(outcome, attempt))
            group = again


def _row(outcome: TaskOutcome, attempt: int) -> SweepRow:
    row = row_of_answer(outcome.task, outcome.answer, attempt)
    if attempt == ATTEMPTS and row.is_complete:
        return replace(row, notes=(*row.notes, "the first attempt was lost: its worker died"))
    return row


def _has_died(outcome: TaskOutcome) -> bool:
    """Whether the worker, the node, or the process of the run was killed."""
    if outcome.answer.lost:
        return True
    failures = (outcome.answer.report or {}).get("failures", ())
    return any(isinstance(failure, dict) and failure.get("kind") == _DIED for failure in failures)


class _VersionNotes:
    """Notes rows whose torch is not that of the first row: their numbers do not compare."""

    def __init__(self, earlier: Iterable[SweepRow]) -> None:
        self._first = next((row for row in earlier if row.torch and row.is_complete), None)

    def noted(self, row: SweepRow) -> SweepRow:
        if row.failure is not None and row.failure.kind in {"no_torch", "old_torch"}:
            message = f"{row.failure.message} (on {row.node})" if row.node else row.failure.message
            failure = replace(row.failure, message=message, culprit=Culprit.ENVIRONMENT.value)
            return replace(row, failure=failure)
        if not row.torch or row.status is RowStatus.LOST:
            return row
        first = self._first = self._first or row
        if row.torch == first.torch:
            return row
        note = f"torch {row.torch} on {row.node}; {first.node} has torch {first.torch}"
        return replace(row, notes=(*row.notes, note))
