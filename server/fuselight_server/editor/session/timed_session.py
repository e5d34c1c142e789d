"""Results of timed runs, of tier measured or tuned: parts while they run, what they decide, and how they end.

Invariant: what a run has shown is never lost without a better result: a failure or a cancel keeps its measurements, and
without any, the previous result is shown again.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Generic, TypeVar

from fuselight_server.editor.results.target_result import (
    CANCELED,
    ENDED_EARLY,
    STILL_RUNNING,
    TargetResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight.shared.report import Report
    from fuselight_server.editor.session.run_edits import RunEdits
    from fuselight_server.editor.session.state import State
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.execution.runs.queue import Job

R = TypeVar("R", bound=TargetResult)


class TimedSession(abc.ABC, Generic[R]):
    """Accepts the results of one tier of timed runs; a subclass says what its results are."""

    def __init__(self, state: State, edits: RunEdits) -> None:
        self._state = state
        self._edits = edits

    @abc.abstractmethod
    def _results(self) -> Mapping[Key, R]:
        """The results of this tier."""

    @abc.abstractmethod
    async def _result(self, job: Job, report: Report) -> R:
        """Make the result of a report."""

    @abc.abstractmethod
    def _has_begun(self, result: R) -> bool:
        """Whether a part of a run is worth showing."""

    @abc.abstractmethod
    def _is_cut_off(self, result: R) -> bool:
        """Whether a run ended before it had done everything, with something to show."""

    @abc.abstractmethod
    async def _keep(self, result: R) -> None:
        """Store what a run that ended has measured or decided."""

    def _is_decided(self, result: R) -> bool:
        """Whether a part of a run has a decision that holds although the run was canceled."""
        del result
        return False

    async def accept(self, job: Job, report: Report) -> None:
        """Keep and show what a run found."""
        result = await self._result(job, report)
        if not self._edits.catch_up(result, ended=True) or self._ends_early(result):
            return
        if self._is_cut_off(result):
            result.unfinished = ENDED_EARLY
        self._state.accept(result)
        await self._keep(result)

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Show what is known so far; None: the run was canceled.

        Then a decision is kept; else the previous result is shown again or, without one, what this run has measured.
        """
        if report is None:
            await self._cancel(job)
            return
        result = await self._result(job, report)
        if self._has_begun(result) and self._edits.catch_up(result, ended=False):
            result.unfinished = STILL_RUNNING
            self._state.accept(result)

    async def _cancel(self, job: Job) -> None:
        part = self._results().get(job.key)
        if part is not None and part.generation == job.generation and self._is_decided(part):
            part.unfinished = CANCELED
            self._state.mark_results(part.paths())
            await self._keep(part)
            return
        self._state.discard_partial(job.key, job.generation)
        left = self._results().get(job.key)
        if left is not None and left.unfinished == CANCELED and not left.has_data:
            self._state.drop([job.key])  # without a time it says nothing

    def _ends_early(self, failed: R) -> bool:
        """Whether a run that failed as a whole has shown times before: they stay, with the failure."""
        part = self._results().get(failed.key)
        if failed.has_data or part is None or part.generation != failed.generation or not part.has_data:
            return False
        if part.unfinished != STILL_RUNNING:
            return False
        part.end_early(failed.report.failures)
        self._state.mark_results(part.paths())
        return True
