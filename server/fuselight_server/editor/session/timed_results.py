"""Results of timed runs, of tier measured or tuned: what is asked of them, their parts, decisions and ends.

Invariants:

* A timed run supersedes no other run, and only another one waits for it. It has a worker of its own, so that a save
  shows its findings without delay. A note on the result names the runs that were active at the same time.
* What a run has shown is never lost without a better result: a failure or a cancel keeps its measurements, and without
  any, the previous result is shown again.
* Only a confirmed decision of a search is written, also that of a search which was canceled after it.
"""

from __future__ import annotations

import abc
import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from fuselight.shared.configurations import MODES
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.report import Numerics, Report, Work
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.files import disk_text
from fuselight_server.base.settings import BenchSettings, TuneSettings
from fuselight_server.base.store import Store
from fuselight_server.editor.results.benchmarks import MeasuredResult, measured_result_of
from fuselight_server.editor.results.report_reading import line_reader
from fuselight_server.editor.results.target_result import (
    CANCELED,
    ENDED_EARLY,
    STILL_RUNNING,
    TargetResult,
    keys_of,
    keys_on_disk,
)
from fuselight_server.editor.results.tunings import TuningResult, tuning_result_of
from fuselight_server.editor.session.fix_offers import VerifiedFixes
from fuselight_server.editor.session.session import Session
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.last_results import keep_result
from fuselight_server.execution.runs.queue import Job
from fuselight_server.explain.benchmarks.history import NotKeptError, run_of
from fuselight_server.explain.benchmarks.history_diff import with_earlier_readings
from fuselight_server.explain.benchmarks.planning import configurations, history_of
from fuselight_server.explain.searches.decisions import tuned_path, write_decision
from fuselight_server.explain.searches.last_search import keep_search
from fuselight_server.explain.searches.measurements import is_tentative
from fuselight_server.explain.searches.planning import FIX_SHARE, LEAST_SECONDS, candidates, with_preparation

R = TypeVar("R", bound=TargetResult)


class TimedSession(abc.ABC, Generic[R]):
    """Accepts the results of one tier of timed runs; a subclass says what its results are."""

    def __init__(self, session: Session) -> None:
        self._session, self._state = session, session.state

    @abc.abstractmethod
    def _results(self) -> Mapping[Key, R]:
        """The results of this tier."""

    @abc.abstractmethod
    async def _result(self, job: Job, report: Report) -> R:
        """Make the result of a report."""

    def _has_begun(self, result: R) -> bool:
        """Whether a part of a run is worth showing."""
        return result.has_data

    def _is_cut_off(self, result: R) -> bool:
        """Whether a run ended before it had done everything, with something to show."""
        return result.has_data and bool(result.report.failures)

    async def _keep(self, result: R) -> None:
        """Keep the result of a file in a workspace folder as the last one of its tier, for the next session."""
        path = result.key.path
        if not result.has_data or self._state.folder_of(path).uri is None:
            return
        try:
            await asyncio.to_thread(keep_result, Store.of(Path(path)), result.report)
        except OSError as error:
            self._state.log(f"{result.key.words} cannot be kept: {error.strerror or error}")

    def _is_decided(self, result: R) -> bool:
        """Whether a part of a run has a decision that holds although the run was canceled."""
        del result
        return False

    async def accept_report(self, job: Job, report: Report) -> None:
        """Keep and show what a run found."""
        result = await self._result(job, report)
        if not self._session.edits.catch_up(result, ended=True) or self._ends_early(result):
            return
        if self._is_cut_off(result):
            result.unfinished = ENDED_EARLY
        self._state.accept_result(result)
        await self._keep(result)

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Show what is known so far; None: the run was canceled.

        Then a decision is kept; else the previous result is shown again or, without one, what this run has measured.
        """
        if report is None:
            await self._cancel(job)
            return
        result = await self._result(job, report)
        if self._has_begun(result) and self._session.edits.catch_up(result, ended=False):
            result.unfinished = STILL_RUNNING
            self._state.accept_result(result)

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


_LEAST_SECONDS = 0.01
_LEAST_ROUNDS = 2
"""One has no spread, and tells no difference."""


def plan_of(
    settings: BenchSettings, *, compiled: bool, names: Iterable[str] = (), work: str | None = None
) -> MeasurePlan:
    """Return what the settings ask for, but for what is named. Raises ConfigurationError."""
    wanted = work or settings.work
    return MeasurePlan(
        configurations=configurations(tuple(names) or settings.configurations, compiled=compiled),
        work=Work(wanted) if wanted != "auto" else None,
        rounds=max(settings.rounds, _LEAST_ROUNDS),
        seconds=max(settings.seconds, _LEAST_SECONDS),
        limit_seconds=settings.time_limit,
        cold_cache=settings.cold_cache,
        estimates_memory=True,
        device=settings.device.strip(),
    )


class BenchmarkSession(TimedSession["MeasuredResult"]):
    """Accepts what benchmarks measure."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._in_parallel: dict[Key, dict[str, None]] = {}
        """In words, what ran at the same time as each timed run in flight."""
        self._texts: dict[Key, dict[str, str]] = {}
        """Of the files that were open when it began: they may be saved with other texts before its end."""

    def begin(self, key: Key) -> None:
        """Remember the texts that a benchmark is about to see."""
        open_now = self._state.documents.values()
        self._texts[key] = {document.path: document.source.text for document in open_now if document.runnable}

    def watch(self, running: Mapping[Key, object]) -> None:
        """Note which runs are in flight together."""
        benches = [key for key in running if key.is_timed]
        self._in_parallel = {key: self._in_parallel.get(key, {}) for key in benches}
        self._texts = {key: self._texts.get(key, {}) for key in benches}
        for key in benches:
            parallel = [other for other in running if other != key and not other.has_own_worker]
            self._in_parallel[key].update(dict.fromkeys(_words(other, key) for other in parallel))

    def _results(self) -> Mapping[Key, MeasuredResult]:
        return self._state.measured

    async def _result(self, job: Job, report: Report) -> MeasuredResult:
        texts = self._texts.get(job.key, {})
        return await asyncio.to_thread(_measured_result, job, report, self.notes(job.key), texts)

    def _has_begun(self, result: MeasuredResult) -> bool:
        return result.has_begun

    def _is_cut_off(self, result: MeasuredResult) -> bool:
        measured = result.report.measured
        return result.has_data and measured is not None and not measured.finished

    async def _keep(self, result: MeasuredResult) -> None:
        """Add a benchmark to the history of its target."""
        if result.run is None:
            return
        key = result.key
        try:
            kept = await asyncio.to_thread(history_of(key.path, key.name).keep_run, result.run)
        except NotKeptError as error:
            self._state.log(str(error))
            return
        if kept is not None:
            result.run, result.is_stored = kept, True
            self._state.mark_results(result.paths())
            await self._rank_captures(key)

    async def _rank_captures(self, key: Key) -> None:
        """Rank the lines to fix by the new benchmark: those of its target, and of programs that the target is of."""
        for capture in list(self._state.captures.values()):
            targets = {
                (capture.key.path, capture.key.name),
                *((part.path, part.target) for part in capture.report.recorded),
            }
            if (key.path, key.name) in targets:
                capture.rank_by(await asyncio.to_thread(capture.measured_times))
                self._state.mark_results(capture.paths())

    def notes(self, key: Key) -> tuple[str, ...]:
        """In words, what ran at the same time as a timed run in flight."""
        return tuple(
            f"another run was active ({words}): timings may be inflated"
            for words in self._in_parallel.get(key, ())
        )


def _words(other: Key, parallel: Key) -> str:
    file = "" if other.path == parallel.path else f" in {os.path.basename(other.path)}"  # noqa: PTH119 - paths stay text
    return f"{other.words}{file}"


def _measured_result(
    job: Job, report: Report, notes: tuple[str, ...], texts: dict[str, str]
) -> MeasuredResult:
    key = job.key
    history = history_of(key.path, key.name)
    report = with_earlier_readings(report, history)
    result = measured_result_of(key, job.generation, report, notes=notes)
    root = str(history.store.folder.parent)
    result.run = run_of(result.report, root, line_reader(texts_that_ran(report, texts)), notes=notes)
    return result


def texts_that_ran(report: Report, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files that ran as they were then: as in `texts`, else as on the disk; empty where neither is so."""
    entries = {}
    for path, key in report.files.items():
        known = [text for text in (texts.get(path), disk_text(path)) if text is not None]
        entries[path] = next((text for text in known if is_text_of(path, key, text)), "")
    return entries


def is_stale(report: Report, texts: Mapping[str, str]) -> bool:
    """Whether a file that ran has changed since; `texts` are those of open files."""
    return any(not is_text_of(path, key, texts.get(path)) for path, key in report.files.items())


def is_text_of(path: str, key: str, text: str | None) -> bool:
    """Whether the file with this key is `text`; None: whatever lies on the disk."""
    return key in (keys_on_disk(path) if text is None else keys_of(text))


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
        estimates_memory=True,
        limit_seconds=settings.time_limit,
        artifacts=str(tuned_path(path).parent) if settings.artifacts else "",
    )


class FileVerifier(Protocol):
    """Verifies all exact fixes of a file (`fix_session.FixSession`)."""

    async def verify_all(
        self, path: str, seconds: float | None = None, *, automatic: bool = False
    ) -> VerifiedFixes | None:
        """Return those that pass, one on top of the other; None if that takes longer."""
        ...

    def cancel(self, identity: str | None = None, *, path: str | None = None) -> None:
        """Cancel one verification, or those of a file."""
        ...

    def is_current(self, texts: dict[str, str]) -> bool:
        """Whether each file has this text now."""
        ...


class TuningSession(TimedSession["TuningResult"]):
    """Accepts what searches decide."""

    def __init__(self, session: Session, benches: BenchmarkSession) -> None:
        """`benches` knows what ran at the same time as a search in flight."""
        super().__init__(session)
        self._notes = benches.notes
        self.preparing: dict[Key, CancelToken] = {}
        """What ends the searches that wait for the verification of fixes."""
        self._spent: dict[Key, float] = {}
        """Seconds that it took for the newest search of each target."""

    async def prepare(self, key: Key, plan: TunePlan, fixes: FileVerifier) -> TunePlan | None:
        """Return the plan of a search with verified fixes; None if it is canceled before it begins."""
        token = self.preparing[key] = CancelToken()
        self._session.ui.runs_changed()
        try:
            return await token.run(self.with_fixes(key, plan, fixes))
        except asyncio.CancelledError:
            fixes.cancel(path=key.path)
            return None
        finally:
            self.preparing.pop(key, None)
            self._session.ui.runs_changed()

    async def with_fixes(self, key: Key, plan: TunePlan, fixes: FileVerifier) -> TunePlan:
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
