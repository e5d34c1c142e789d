"""Results of comparisons with eager mode, and of estimates of memory: what is made of a report, and what is kept.

Invariant: a run that ends without a verdict costs no earlier one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path

from fuselight.shared.protocol import AccuracyRequest, RunRequest
from fuselight.shared.report import Report, Tier
from fuselight_server.base.store import Store
from fuselight_server.editor.results.accuracy import AccuracyResult, accuracy_result_of
from fuselight_server.editor.results.memory import MemoryResult, memory_result_of, with_known_edits
from fuselight_server.editor.results.report_reading import line_reader
from fuselight_server.editor.session.comparison_run import accuracy_request
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.timed_results import TimedSession
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.last_results import kept_results
from fuselight_server.execution.runs.queue import Job


class ComparisonSession(TimedSession[AccuracyResult]):
    """Accepts what comparisons show."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._texts: dict[Key, dict[str, str]] = {}
        """The unsaved texts that the newest run of each target saw."""

    def request_for(self, key: Key, request: RunRequest) -> AccuracyRequest:
        """Make of a target's request that of a comparison which begins now."""
        self._texts[key] = request.overlays
        return accuracy_request(request)

    def _results(self) -> Mapping[Key, AccuracyResult]:
        return self._state.comparisons

    async def _result(self, job: Job, report: Report) -> AccuracyResult:
        read_line = line_reader(self._texts.get(job.key, {}))
        return await asyncio.to_thread(accuracy_result_of, job.key, job.generation, report, read_line)


class EstimateSession(TimedSession[MemoryResult]):
    """Accepts what estimates of memory show."""

    def _results(self) -> Mapping[Key, MemoryResult]:
        return self._state.estimates

    async def _result(self, job: Job, report: Report) -> MemoryResult:
        before = self._results().get(job.key)
        earlier = [before.shown.report] if before is not None else []
        return await asyncio.to_thread(_memory_result, job, report, earlier)


def _memory_result(job: Job, report: Report, earlier: list[Report]) -> MemoryResult:
    """The result of an estimate, with the edits that `fuselight memory --savings` or an agent has tried meanwhile."""
    kept = (kept_report for kept_report, _ in kept_results(Store.of(Path(job.key.path)), Tier.MEMORY))
    known = with_known_edits(report, itertools.chain(earlier, kept))
    return memory_result_of(job.key, job.generation, known)
