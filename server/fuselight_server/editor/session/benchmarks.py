"""Runs of tier measured: what is asked of them, what they find, and what ran at the same time as a timed run.

Invariant: a benchmark supersedes no other run, and only another benchmark waits for it. It has its own worker, so that
a save shows its findings without delay. A note on the result names the runs that were active during the benchmark.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight.shared.protocol import MeasurePlan, Progress
from fuselight.shared.report import Work
from fuselight_server.base.files import disk_text
from fuselight_server.editor.results.benchmarks import measured_result_of
from fuselight_server.editor.results.target_result import (
    CANCELED,
    ENDED_EARLY,
    STILL_RUNNING,
    keys_of,
    keys_on_disk,
)
from fuselight_server.editor.session.intake import line_reader
from fuselight_server.explain.benchmarks.history import NotKeptError, run_of
from fuselight_server.explain.benchmarks.history_diff import with_earlier_readings
from fuselight_server.explain.benchmarks.planning import configurations, history_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fuselight.shared.protocol import Answer, Refused, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.settings import BenchSettings
    from fuselight_server.editor.results.benchmarks import MeasuredResult
    from fuselight_server.editor.session.intake import ResultIntake
    from fuselight_server.editor.session.state import State
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.execution.runs.queue import Job, Run


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
        device=settings.device.strip(),
    )


async def run_serialized(
    run: Run,
    turn: asyncio.Lock,
    request: RunRequest,
    on_progress: Callable[[Progress], None],
    on_partial: Callable[[Report], None],
) -> Answer | Refused:
    """Run while no other benchmark does, of whichever folder or interpreter: they would disturb each other."""
    if turn.locked():
        on_progress(Progress(request.id, "measure", "waiting for another benchmark"))
    async with turn:
        return await run(request, on_progress, on_partial)


class BenchmarkSession:
    """Takes in what benchmarks find."""

    def __init__(self, state: State, outcomes: ResultIntake) -> None:
        self._state = state
        self._outcomes = outcomes
        self.turn = asyncio.Lock()
        self._in_parallel: dict[Key, dict[str, None]] = {}
        """In words, what ran at the same time as each timed run in flight."""
        self._texts: dict[Key, dict[str, str]] = {}
        """Of the files that were open when it began: they may be saved with other texts before its end."""

    def begin(self, key: Key) -> None:
        """Remember the texts that a benchmark is about to see."""
        open_now = self._state.documents.values()
        self._texts[key] = {one.path: one.source.text for one in open_now if one.runnable}

    def watch(self, running: Mapping[Key, object]) -> None:
        """Note which runs are in flight together."""
        benches = [key for key in running if key.is_timed]
        self._in_parallel = {key: self._in_parallel.get(key, {}) for key in benches}
        self._texts = {key: self._texts.get(key, {}) for key in benches}
        for key in benches:
            parallel = [other for other in running if other != key and not other.is_timed]
            self._in_parallel[key].update(dict.fromkeys(_words(other, key) for other in parallel))

    async def accept(self, job: Job, report: Report) -> None:
        """Keep and show what a benchmark measured."""
        result = await self._result(job, report)
        if not self._outcomes.catch_up(result, ended=True) or self._ends_early(result):
            return
        if result.has_data and report.measured is not None and not report.measured.finished:
            result.unfinished = ENDED_EARLY
        self._state.accept(result)
        if result.run is None:
            return
        try:
            kept = await asyncio.to_thread(history_of(job.key.path, job.key.name).keep, result.run)
        except NotKeptError as error:
            self._state.log(str(error))
            return
        if kept is not None:
            result.run, result.is_stored = kept, True
            self._state.mark_results(result.paths())

    def _ends_early(self, failed: MeasuredResult) -> bool:
        """Whether a run that failed as a whole has shown times before: they stay, and say that they are not all."""
        part = self._state.measured.get(failed.key)
        if (
            failed.has_data
            or part is None
            or part.unfinished != STILL_RUNNING
            or part.generation != failed.generation
        ):
            return False
        if not part.has_data:
            return False  # first calls alone are no benchmark
        part.report = replace(part.report, failures=(*part.report.failures, *failed.report.failures))
        part.unfinished, part.drawn = ENDED_EARLY, None
        self._state.mark_results(part.paths())
        return True

    async def accept_part(self, job: Job, report: Report | None) -> None:
        """Keep and show what was measured so far; None: it was cancelled.

        Then the benchmark before stands again; where there was none, what there is of this one, and says so.
        """
        if report is None:
            self._state.discard_partial(job.key, job.generation)
            left = self._state.measured.get(job.key)
            if left is not None and left.unfinished == CANCELED and not left.has_data:
                self._state.drop([job.key])  # first calls alone are no benchmark
            return
        result = await self._result(job, report)
        if result.has_begun and self._outcomes.catch_up(result, ended=False):
            result.unfinished = STILL_RUNNING
            self._state.accept(result)

    async def _result(self, job: Job, report: Report) -> MeasuredResult:
        texts = self._texts.get(job.key, {})
        return await asyncio.to_thread(_made, job, report, self.notes(job.key), texts)

    def notes(self, key: Key) -> tuple[str, ...]:
        """In words, what ran at the same time as a timed run in flight."""
        return tuple(
            f"another run was active ({words}): timings may be inflated"
            for words in self._in_parallel.get(key, ())
        )


def _words(other: Key, parallel: Key) -> str:
    file = "" if other.path == parallel.path else f" in {os.path.basename(other.path)}"  # noqa: PTH119 - paths stay text
    return f"{other.words}{file}"


def _made(job: Job, report: Report, notes: tuple[str, ...], texts: dict[str, str]) -> MeasuredResult:
    key = job.key
    history = history_of(key.path, key.name)
    report = with_earlier_readings(report, history)
    result = measured_result_of(key, job.generation, report, notes=notes)
    root = str(history.store.folder.parent)
    result.run = run_of(result.report, root, line_reader(texts_that_ran(report, texts)), notes=notes)
    return result


def texts_that_ran(report: Report, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files that ran as they were then: as in `texts`, else as on the disk; empty where neither is so."""
    found = {}
    for path, key in report.files.items():
        known = [one for one in (texts.get(path), disk_text(path)) if one is not None]
        found[path] = next((one for one in known if is_text_of(path, key, one)), "")
    return found


def is_stale(report: Report, texts: Mapping[str, str]) -> bool:
    """Whether a file that ran is another one now; `texts` are those of open files."""
    return any(not is_text_of(path, key, texts.get(path)) for path, key in report.files.items())


def is_text_of(path: str, key: str, text: str | None) -> bool:
    """Whether the file with this key is `text`; None: whatever lies on the disk."""
    return key in (keys_on_disk(path) if text is None else keys_of(text))
