"""Runs of tier tuned: what is asked of them, what they decide, and where the decision is written.

Invariant: a search supersedes no other run, and uses the benchmarks' worker and turn: one of them runs at a time. Only
a confirmed decision is written, also that of a search which was canceled after it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.configurations import MODES
from fuselight.shared.protocol import TunePlan
from fuselight.shared.report import Numerics, Work
from fuselight_server.base.store import Store
from fuselight_server.editor.results.tunings import tuning_result_of
from fuselight_server.editor.session.timed_session import TimedSession
from fuselight_server.explain.searches.decisions import tuned_path, write_decision
from fuselight_server.explain.searches.last_search import keep_search
from fuselight_server.explain.searches.measurements import is_tentative
from fuselight_server.explain.searches.planning import (
    FIX_SHARE,
    LEAST_SECONDS,
    candidates,
    with_preparation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuselight.shared.report import Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.base.settings import TuneSettings
    from fuselight_server.editor.results.tunings import TuningResult
    from fuselight_server.editor.session.fix_session import FixSession
    from fuselight_server.editor.session.run_edits import RunEdits
    from fuselight_server.editor.session.state import State
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.execution.runs.queue import Job

_LEAST_LEFT = 0.5
"""Part of the budget that the verification of fixes leaves to the search, at least."""


def tune_plan_of(settings: TuneSettings, path: str) -> TunePlan:
    """Return what the settings ask for, for a file. Raises ConfigurationError."""
    return TunePlan(
        work=Work(settings.work) if settings.work != "auto" else None,
        device=settings.device.strip(),
        budget_seconds=max(settings.budget, LEAST_SECONDS),
        numerics=Numerics(settings.numerics),
        fixed_modules=settings.fixed_modules,
        candidates=candidates(settings.candidates),
        modes=MODES if settings.modes else (),
        limit_seconds=settings.time_limit,
        artifacts=str(tuned_path(path).parent) if settings.artifacts else "",
    )


class TuningSession(TimedSession["TuningResult"]):
    """Accepts what searches decide."""

    def __init__(self, state: State, edits: RunEdits, *, notes: Callable[[Key], tuple[str, ...]]) -> None:
        """`notes` says what ran at the same time as a search in flight."""
        super().__init__(state, edits)
        self._notes = notes
        self.preparing: dict[Key, CancelToken] = {}
        """What ends the searches that wait for the verification of fixes."""
        self._spent: dict[Key, float] = {}
        """Seconds that it took for the newest search of each target."""

    async def with_fixes(self, key: Key, plan: TunePlan, fixes: FixSession) -> TunePlan:
        """Return the plan with the fixes of the target's file that pass in a part of the budget.

        Without a current run of the target that found a graph break or a recompilation, the plan as it is.
        """
        self._spent.pop(key, None)
        result = self._state.captures.get(key.as_capture)
        if result is None or result.stale or not (result.report.breaks or result.report.recompiles):
            return plan
        start = time.monotonic()
        verified_fixes = await fixes.verify_all(key.path, FIX_SHARE * plan.budget_seconds)
        if verified_fixes is None:
            fixes.cancel(path=key.path)  # else it would disturb the timings
        self._spent[key] = spent = time.monotonic() - start
        left = max(plan.budget_seconds - spent, _LEAST_LEFT * plan.budget_seconds)
        if (
            verified_fixes is None
            or not verified_fixes.attempts
            or not fixes.is_current(verified_fixes.before)
        ):
            return replace(plan, budget_seconds=left)
        titles = tuple(dict.fromkeys(attempt.remedy.title for attempt in verified_fixes.attempts))
        return replace(plan, budget_seconds=left, fixed=dict(verified_fixes.after), fixes=titles)

    def _results(self) -> Mapping[Key, TuningResult]:
        return self._state.tunings

    async def _result(self, job: Job, report: Report) -> TuningResult:
        report = with_preparation(report, self._spent.get(job.key, 0.0))
        return tuning_result_of(job.key, job.generation, report, notes=self._notes(job.key))

    def _has_begun(self, result: TuningResult) -> bool:
        return result.tuned is not None

    def _is_cut_off(self, result: TuningResult) -> bool:
        return result.tuned is not None and not result.tuned.finished

    def _is_decided(self, result: TuningResult) -> bool:
        return result.tuned is not None and result.tuned.result is not None

    async def _keep(self, result: TuningResult) -> None:
        """Write the decision into the tuned file, and the search into the workspace's folder."""
        tuned = result.tuned
        if tuned is None or tuned.result is None:
            return
        path = result.key.path
        result.written = await asyncio.to_thread(
            write_decision, tuned.result, path, is_tentative=is_tentative(tuned)
        )
        if result.written.problem:
            self._state.log(f"{result.key.words}: {result.written.problem}")
        try:
            await asyncio.to_thread(keep_search, Store.of(Path(path)), result.report)
        except OSError as error:
            self._state.log(f"the search of {result.key.words} cannot be kept: {error.strerror or error}")
        self._state.mark_results(result.paths())
