"""The server's state: one mutable `State` on the event loop; features read a frozen `Snapshot` of it.

Invariant: only the event loop's thread touches `State`, and every method that changes it records the files that look
different: `take_changes` returns them once. LSP types stay outside: capabilities arrive as plain values.
"""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fuselight.shared.report.visible import visible
from fuselight_server.base.files import within
from fuselight_server.base.recent import Recent
from fuselight_server.base.settings import Settings
from fuselight_server.commands.compile_tests import FailedCompileTest
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.results.captures import limit_facts
from fuselight_server.editor.results.changes import compare
from fuselight_server.editor.results.failed_tests import FailedTests
from fuselight_server.editor.results.jobs import JobResult, OpenJobs
from fuselight_server.editor.results.open_documents import OpenDocuments
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.results.run_ends import RunEnd, RunEnds
from fuselight_server.editor.results.snapshot import Document, ResultsByTier, ResultsView, Snapshot
from fuselight_server.editor.results.target_result import (
    Results,
    TargetResult,
    compare_with_disk,
    keys_of,
    mark_current,
)
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Running
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.text_changes import Change

LOG_LINES = 500
"""Lines of our own log that a problem report can show."""


INPUT_PROGRAMS = 200
"""Targets whose chosen programs are kept."""


@dataclass
class Folder:
    """One workspace folder, or the folder of a file that lies outside any."""

    path: str
    uri: str | None
    settings: Settings = field(default_factory=Settings)
    consent: str = "unknown"
    """`unknown`, `run`, `never`, or `later`: not before the user asks for a run."""
    problem: str | None = None
    """Why no run can work here, as a missing torch."""
    torch: str | None = None
    """Version of torch that the worker said hello with."""


class State(ResultsByTier):
    """Documents, folders, results and the log."""

    def __init__(self) -> None:
        self.documents = OpenDocuments()
        self.folders: dict[str, Folder] = {}
        self.results = Results()
        self.run_ends = RunEnds()
        self.jobs = OpenJobs()
        self.failed_tests = FailedTests()
        self.client = ClientFeatures()
        self.trusted = True
        self.client_settings: object = None
        """The settings that came with the start, for a client that cannot be asked."""
        self.log_lines: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        self.on_log: Callable[[str], None] = lambda _line: None
        self.on_change: Callable[[], None] = lambda: None
        """Called whenever there is something new for `take_changes` to return."""
        self.predictions: dict[tuple[Key, str], Prediction] = {}
        """By the target, and the edited file."""
        self.input_programs: Recent[tuple[str, str], str] = Recent(INPUT_PROGRAMS)
        """By a target's file and name: the other file that the user has chosen to get its inputs from."""
        self._findings: set[str] = set()
        self._reports: set[str] = set()

    def log(self, line: str) -> None:
        """Keep a line for a problem report and show it in the client's log."""
        self.log_lines.append(f"{time.strftime('%H:%M:%S')} {line}")
        self.on_log(visible(line))

    # Changes

    def take_changes(self) -> tuple[set[str], set[str]]:
        """Return the files that look different since the last call.

        First those whose diagnostics may differ, then those whose reports and lenses may.
        """
        changes = self._findings | self._same_causes(self._findings), self._reports
        self._findings, self._reports = set(), set()
        return changes

    def _same_causes(self, paths: set[str]) -> set[str]:
        """Return the files with a finding whose cause has a place in one of `paths` too: their texts name its line."""
        files: dict[tuple[str, str], set[str]] = {}
        for live in (live for result in self.captures.values() for live in result.findings):
            if live.finding.cause:
                files.setdefault((live.finding.code, live.finding.cause), set()).add(live.finding.span.path)
        return {path for places in files.values() if not places.isdisjoint(paths) for path in places}

    def mark_findings(self, paths: Iterable[str]) -> None:
        """Record that diagnostics of these files may differ."""
        self._findings.update(paths)
        self.on_change()

    def mark_results(self, paths: Iterable[str]) -> None:
        """Record that diagnostics, reports and lenses of these files may differ."""
        paths = tuple(paths)
        self._reports.update(paths)
        self.mark_findings(paths)

    def open(self, document: Document) -> None:
        """Add an opened document."""
        self.documents.add(document)
        self.mark_findings([document.path])

    def close(self, uri: str) -> Document | None:
        """Remove a closed document; None if it was not open."""
        document = self.documents.remove(uri)
        if document is not None:
            self.mark_findings([document.path])
        return document

    def edit(self, path: str, change: Change) -> None:
        """Move lines of results for one change of an open document."""
        self.mark_findings([path])
        for result in self.results.values():
            was_stale = result.stale
            result.apply_edit(path, change)
            if not was_stale and result.stale:
                self.mark_findings(result.paths())
        self.jobs.apply_edit(path, change)
        for prediction in self.predictions.values():
            before = prediction.is_current, len(tuple(prediction.findings()))
            prediction.apply_edit(path, change)
            if before != (prediction.is_current, len(tuple(prediction.findings()))):
                self.mark_results({*prediction.paths(), prediction.key.path})

    def compare_with_text(self, path: str, source: SourceDocument) -> None:
        """Mark results current that ran just the text of an open document."""
        for result in mark_current(self.results.values(), path, lambda: keys_of(source.text)):
            self.mark_results(result.paths())
        self.jobs.mark_current(path, source)

    def compare_with_disk(self, path: str) -> None:
        """Mark results as stale or current after a file that is not open was written."""
        self.mark_findings([path])
        for result in compare_with_disk(self.results.values(), path):
            self.mark_results(result.paths())
        self.jobs.follow_disk(path)

    def accept_result(self, result: TargetResult) -> None:
        """Replace the older result of the target; the last complete one stays where the new one is not."""
        self._drop_predictions({result.key})
        self.mark_results(self.results.accept_result(result))
        limit_facts(self.captures.values())

    def accept_compared(self, result: TargetResult) -> None:
        """Replace the older result of the target, and say what differs from the last complete one."""
        older = self.results.get(result.key)
        compare(older.last_complete if older is not None else None, result)
        for text in result.changes:
            self.log(f"{result.key.words}: {text}")
        self.accept_result(result)

    def discard_partial(self, key: Key, generation: int) -> None:
        """Discard what a canceled run has shown."""
        self.mark_results(self.results.discard_partial(key, generation))

    def note_run_end(self, key: Key, end: RunEnd) -> None:
        """Note why a run that was asked for has no result."""
        if not key.kernel:
            self.run_ends[key] = end
            self.mark_results([key.path])

    def forget_run_ends(self, keys: Iterable[Key]) -> None:
        """Forget why earlier runs of these targets have no result."""
        self.mark_results({key.path for key in self.run_ends.forget_ends(keys)})

    def drop(self, keys: Iterable[Key]) -> None:
        """Drop the results of some runs."""
        keys = tuple(keys)
        self._drop_predictions(set(keys))
        for key in keys:
            result = self.results.pop(key, None)
            if result is not None:
                self.mark_results(result.paths())

    def drop_file(self, path: str) -> None:
        """Drop what is known of a deleted file or folder."""
        self.mark_results(self.results.drop_file(path) | self.jobs.drop_file(path))
        self.run_ends.forget_ends([key for key in self.run_ends if within(key.path, path)])
        self.mark_findings(self.failed_tests.drop(path))
        lost = {key for key, file in self.predictions if within(file, path) or key not in self.results}
        self._drop_predictions(lost)

    def predict(self, prediction: Prediction) -> None:
        """Show what is predicted from the edits of a file."""
        before = self.predictions.get((prediction.key, prediction.path))
        paths = prediction.paths() | (before.paths() if before is not None else frozenset())
        self.predictions[prediction.key, prediction.path] = prediction
        self.mark_results({*paths, prediction.key.path})

    def drop_prediction(self, key: Key, path: str) -> None:
        """Drop what is predicted of a target from the edits of a file."""
        prediction = self.predictions.pop((key, path), None)
        if prediction is not None:
            self.mark_results({*prediction.paths(), key.path})

    def _drop_predictions(self, keys: set[Key]) -> None:
        for key, path in [prediction for prediction in self.predictions if prediction[0] in keys]:
            self.drop_prediction(key, path)

    def accept_jobs(self, jobs: Iterable[JobResult], source: str) -> None:
        """Show the jobs of a folder with logs in place of those that it had before."""
        jobs = tuple(jobs)
        for document in self.documents.values():
            for job in jobs:
                job.follow(document.path, document.source.text)
        self.mark_results(self.jobs.accept_jobs(jobs, source))

    def accept_failed_tests(self, folder: str, tests: tuple[FailedCompileTest, ...]) -> None:
        """Show the failed tests of a store in place of those that it had before."""
        self.mark_findings(self.failed_tests.accept_tests(folder, tests))

    def close_jobs(self, ids: Iterable[str]) -> None:
        """Remove jobs and their findings."""
        self.mark_results(self.jobs.close(ids))

    def programs_of(self, path: str) -> dict[str, str]:
        """Return the programs that were chosen for the targets of a file, by target name."""
        return {target: program for (file, target), program in self.input_programs.items() if file == path}

    def folder_of(self, path: str) -> Folder:
        """Return the innermost workspace folder of `path`; outside any, the file's own folder."""
        holds = [folder for folder in self.folders.values() if folder.uri and within(path, folder.path)]
        if holds:
            return max(holds, key=lambda folder: len(folder.path))
        own = os.path.dirname(path)  # noqa: PTH120 - paths stay text
        if own not in self.folders:
            self.folders[own] = Folder(path=own, uri=None, settings=self.outside_settings())
        return self.folders[own]

    def snapshot(
        self, uri: str, running: Mapping[Key, Running], waiting: Iterable[Key] = ()
    ) -> Snapshot | None:
        """Return what features read of an open document; None if it is not open."""
        document = self.documents.get(uri)
        if document is None:
            return None
        path = document.path
        predictions = tuple(
            prediction for prediction in self.predictions.values() if prediction.key.path == path
        )
        results = Results(
            (key, result)
            for key, result in self.results.items()
            if key.path == path or path in result.depends or path in result.paths()
        )
        return Snapshot(
            document=document,
            reading=document.reading(),
            settings=self.folder_of(path).settings if document.runnable else self.outside_settings(),
            results=results,
            running={key: run for key, run in running.items() if key.path == path},
            client=self.client,
            can_run=document.runnable and self.trusted,
            waiting=frozenset(key for key in waiting if key.path == path),
            run_ends=RunEnds((key, end) for key, end in self.run_ends.items() if key.path == path),
            predictions=predictions,
            predicted=self.documents.readings_of(predictions),
            jobs=tuple(job for job in self.jobs.values() if path in job.places.paths()),
        )

    def view(self) -> ResultsView:
        """Return what is known of every file at this moment."""
        return ResultsView(
            self.results,
            self.predictions,
            self.jobs,
            self.failed_tests,
            document=self.documents.at,
            settings_of=lambda path: self.folder_of(path).settings,
            read_line=self.documents.read_line,
        )

    def outside_settings(self) -> Settings:
        """Return the settings of what lies in no folder."""
        outside = self.folders.get("")
        return outside.settings if outside else Settings()
