"""What the folders `.fuselight` have: results of earlier sessions, of the last `fuselight run`, and failed tests.

Invariant: read in a trusted workspace only, since a store that came with the folder can claim anything about any file.
A result of this session is never replaced by one of an earlier session.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fuselight.shared.report import Report, Tier
from fuselight_server.base.files import within
from fuselight_server.base.store import Store
from fuselight_server.commands.compile_tests import read_failed
from fuselight_server.editor.results.accuracy import accuracy_result_of
from fuselight_server.editor.results.benchmarks import MeasuredResult, measured_result_of
from fuselight_server.editor.results.captures import PROGRAM, CaptureResult, read_capture
from fuselight_server.editor.results.memory import memory_result_of
from fuselight_server.editor.results.report_reading import line_reader, modified, thresholds_of
from fuselight_server.editor.results.target_result import TargetResult, keys_on_disk
from fuselight_server.editor.results.tunings import TuningResult, tuning_result_of
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.last_results import kept_results
from fuselight_server.execution.runs.stored_reports import (
    UNREADABLE,
    keep_capture,
    keep_trials,
    unchanged_captures,
)
from fuselight_server.explain.benchmarks.history import History, owners
from fuselight_server.explain.findings import Thresholds
from fuselight_server.explain.searches.last_search import kept_searches

_GENERATION = 0
"""Every run of this session is newer."""


class StoredResults:
    """Keeps captures, and shows those of earlier sessions."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._read: set[Path] = set()

    async def keep_capture(self, result: CaptureResult) -> None:
        """Keep a capture of a file in a workspace folder; why that is not possible goes to the log."""
        folder = self._state.folder_of(result.key.path)
        if not result.has_data or folder.uri is None:
            return
        store = Store.at(Path(folder.path))
        try:
            await asyncio.to_thread(keep_capture, store, result.report)
        except OSError as error:
            self._state.log(f"results cannot be kept in {store.folder}: {error.strerror or error}")

    async def keep_trials(self, result: CaptureResult) -> None:
        """Keep what came of the cures of a capture that is kept."""
        folder = self._state.folder_of(result.key.path)
        if folder.uri is None:
            return
        store, report = Store.at(Path(folder.path)), result.report
        try:
            await asyncio.to_thread(keep_trials, store, report.target, report)
        except UNREADABLE as error:
            self._state.log(f"trials cannot be kept in {store.folder}: {error}")

    async def show_for(self, path: str) -> None:
        """Show what the store of a file has, if the file lies in a workspace folder."""
        if self._state.folder_of(path).uri is not None:
            await self.show(Store.of(Path(path)))

    async def show(self, store: Store) -> None:
        """Show the captures, benchmarks, searches, comparisons and estimates of a store whose sources are unchanged."""
        if not self._state.trusted or store.folder in self._read:
            return
        self._read.add(store.folder)
        thresholds = thresholds_of(self._state.folder_of(str(store.folder)).settings)
        results = itertools.chain(
            _captures(store, thresholds),
            _benchmarks(store),
            _searches(store),
            _last_results(store, Tier.ACCURACY),
            _last_results(store, Tier.MEMORY),
        )
        shown = 0
        while (result := await asyncio.to_thread(next, results, None)) is not None:
            # The folder may belong to a project around the workspace, and have results of files outside of it.
            is_in_workspace = self._state.folder_of(result.key.path).uri is not None
            if is_in_workspace and result.key not in self._state.results:
                for path in result.depends:
                    for change in self._state.documents.unsaved_changes(path):
                        result.apply_edit(path, change)
                self._state.accept_result(result)
                shown += 1
        if shown:
            self._state.log(f"{shown} results of an earlier session, from {store.folder}")


def _captures(store: Store, thresholds: Thresholds) -> Iterator[TargetResult]:
    for report, captured_at in unchanged_captures(store):
        key = Key(report.target.path, report.target.name)
        if not within(key.path, str(store.folder.parent)):
            continue
        result = read_capture(key, _GENERATION, report, thresholds, line_reader({}))
        result.restored = captured_at
        yield result


def _benchmarks(store: Store) -> Iterator[TargetResult]:
    """Yield the last benchmark of each target."""
    newest = sorted(owners(store), key=lambda owner: modified(str(owner[0])), reverse=True)
    for _, owner in newest[: MeasuredResult.MAX]:
        path = str(store.folder.parent / owner.path)
        run = History(store, path, owner.target).newest()
        if run is None or not _is_unchanged(run.report):
            continue
        result = measured_result_of(Key(path, owner.target, Tier.MEASURED), _GENERATION, run.report)
        result.run, result.is_stored, result.restored = run, True, run.past.when
        yield result


def _searches(store: Store) -> Iterator[TargetResult]:
    """Yield the last search of each target."""
    for report in itertools.islice(kept_searches(store), TuningResult.MAX):
        key = Key(report.target.path, report.target.name, Tier.TUNED)
        if report.tuned is not None and within(key.path, str(store.folder.parent)) and _is_unchanged(report):
            result = tuning_result_of(key, _GENERATION, report)
            result.restored = report.tuned.started
            yield result


def _last_results(store: Store, tier: Tier) -> Iterator[TargetResult]:
    """Yield the last comparison with eager mode, or estimate of memory, of each target."""
    for report, when in kept_results(store, tier):
        key = Key(report.target.path, report.target.name, tier)
        if within(key.path, str(store.folder.parent)) and _is_unchanged(report):
            result: TargetResult
            if tier is Tier.MEMORY:
                result = memory_result_of(key, _GENERATION, report)
            else:
                result = accuracy_result_of(key, _GENERATION, report, line_reader({}))
            result.restored = when
            yield result


def _is_unchanged(report: Report) -> bool:
    files = report.files.items()
    return bool(files) and all(key in keys_on_disk(path) for path, key in files)


class ProgramReports:
    """Reads and shows these reports."""

    def __init__(self, state: State, *, generation: Callable[[], int]) -> None:
        """`generation` returns the generation that a run requested now would have."""
        self._state = state
        self._generation = generation
        self._reading: dict[Key, object] = {}
        """The latest reading of each folder's last `fuselight run`: an older one is dropped."""

    async def load(self, store: Store) -> None:
        """Show what the last `fuselight run` that wrote to `store` found.

        Only in a trusted workspace: a report that came with the folder can claim anything about any file.
        """
        if not self._state.trusted:
            return
        key = Key(str(store.report_path), PROGRAM)
        folder = self._state.folder_of(key.path)
        mine = self._reading[key] = object()
        report = await asyncio.to_thread(store.read_report)
        if self._reading[key] is not mine:
            return
        if report is None:
            self._state.drop_file(key.path)
            return
        thresholds = thresholds_of(folder.settings)
        result = await asyncio.to_thread(
            read_capture, key, self._generation(), report, thresholds, line_reader({})
        )
        if self._reading[key] is not mine:
            return
        written = store.report_path.stat().st_mtime if store.report_path.exists() else time.time()
        for live in result.own:
            if modified(live.finding.span.path) > written:
                live.place.edited = result.stale = True
                result.mark_changed(live.finding.span.path)
        self._state.accept_result(result)


class FailedTestReader:
    """Reads and shows them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._reading: dict[str, object] = {}
        """The latest reading of each store: an older one is dropped."""

    async def load(self, store: Store) -> None:
        """Show the failed tests of a store in place of those that it had before."""
        if not self._state.trusted:
            return
        folder = str(store.folder)
        mine = self._reading[folder] = object()
        tests = await asyncio.to_thread(read_failed, store)
        if self._reading[folder] is mine:
            self._state.accept_failed_tests(folder, tests)
