"""Runs of tier measured: what is asked of them, what they find, and what ran at the same time as a timed run.

Invariant: a benchmark supersedes no other run, and only another benchmark waits for it. It has its own worker, so that
a save shows its findings without delay. A note on the result names the runs that were active during the benchmark.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fuselight.shared.protocol import MeasurePlan, Progress
from fuselight.shared.report import Work
from fuselight_server.base.files import disk_text
from fuselight_server.editor.results.benchmarks import measured_result_of
from fuselight_server.editor.results.target_result import keys_of, keys_on_disk
from fuselight_server.editor.session.report_reading import line_reader
from fuselight_server.editor.session.timed_session import TimedSession
from fuselight_server.explain.benchmarks.history import NotKeptError, run_of
from fuselight_server.explain.benchmarks.history_diff import with_earlier_readings
from fuselight_server.explain.benchmarks.planning import configurations, history_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fuselight.shared.protocol import Answer, Refused, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.settings import BenchSettings
    from fuselight_server.editor.results.benchmarks import MeasuredResult
    from fuselight_server.editor.session.run_edits import RunEdits
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


class BenchmarkSession(TimedSession["MeasuredResult"]):
    """Accepts what benchmarks measure."""

    def __init__(self, state: State, edits: RunEdits) -> None:
        super().__init__(state, edits)
        self.turn = asyncio.Lock()
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
            parallel = [other for other in running if other != key and not other.is_timed]
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
            kept = await asyncio.to_thread(history_of(key.path, key.name).keep, result.run)
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
