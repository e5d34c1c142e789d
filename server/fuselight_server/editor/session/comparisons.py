"""Results of comparisons with eager mode: the request, the result, and what is kept of it.

Invariant: a run that ends without a verdict costs no earlier one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight_server.base.store import Store
from fuselight_server.editor.results.accuracy import AccuracyResult, accuracy_result_of
from fuselight_server.editor.results.report_reading import line_reader
from fuselight_server.editor.session.comparison_run import accuracy_request
from fuselight_server.editor.session.timed_results import TimedSession
from fuselight_server.execution.runs.last_comparison import keep_comparison

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight.shared.protocol import AccuracyRequest, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.editor.session.session import Session
    from fuselight_server.execution.runs.keys import Key
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

    def _has_begun(self, result: AccuracyResult) -> bool:
        return result.has_data

    def _is_cut_off(self, result: AccuracyResult) -> bool:
        return result.has_data and bool(result.report.failures)

    async def _keep(self, result: AccuracyResult) -> None:
        """Keep the comparison of a file in a workspace folder, for the next session."""
        path = result.key.path
        if not result.has_data or self._state.folder_of(path).uri is None:
            return
        try:
            await asyncio.to_thread(keep_comparison, Store.of(Path(path)), result.report)
        except OSError as error:
            self._state.log(f"{result.key.words} cannot be kept: {error.strerror or error}")
