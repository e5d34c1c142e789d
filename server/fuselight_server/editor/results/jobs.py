"""The jobs whose logs are open: findings and compiled functions on local lines, which move with edits.

Invariant: a job is apart from the results of runs here. It replaces none of them, and they replace nothing of a job. A
finding is shown on a line only if the file is in the source folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from fuselight.shared.report import Location, Tier
from fuselight_server.base.files import disk_text, split_text, within
from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.opened_job import OpenedJob, OpenedProcess
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernels import KernelResult, kernel_lines, kernel_result_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.jobs.reports.mapping import LineState
from fuselight_server.jobs.trace_log.model import GraphKind, LoggedCompile
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.positions import Places, TrackedFinding, TrackedSpan, locations, span, tracked
from fuselight_server.source.text_changes import Change

MAX_JOBS = 8
"""Jobs that are open at once; the oldest is closed for another one."""


@dataclass(frozen=True)
class JobFinding:
    """A finding of a job on a local line."""

    tracked: TrackedFinding
    is_of_job_source: bool
    """Whether the line here is known to differ from the line that ran."""


@dataclass(frozen=True)
class JobFunction:
    """What a job compiled of one function."""

    place: TrackedSpan
    words: str
    """`compiled 3 times, 2 graphs, 1 break`; a range where processes differ."""


@dataclass
class JobResult:
    """One open job."""

    id: str
    source: str
    """URI of the log or folder that it was opened from."""
    opened: OpenedJob
    places: Places = field(default_factory=Places)
    findings: tuple[JobFinding, ...] = ()
    functions: tuple[JobFunction, ...] = ()
    compared: dict[str, tuple[OpenedJob, object]] = field(default_factory=dict)
    """The jobs that its page has compared it with, by id, and the result: logs are read once."""

    @property
    def when(self) -> str:
        """When the job started, in local time; empty if no log says it."""
        if self.opened.started is None:
            return ""
        return datetime.fromtimestamp(self.opened.started).astimezone().strftime("%Y-%m-%d %H:%M")

    @property
    def label(self) -> str:
        """`job NAME, 2026-01-31 13:00`."""
        return f"job {self.opened.name}{f', {self.when}' if self.when else ''}"

    @property
    def shown_process(self) -> OpenedProcess | None:
        """The process whose report, graphs and kernels are shown: rank 0, or the first one."""
        return self.opened.processes[0] if self.opened.processes and not self.opened.is_partial else None

    @property
    def target(self) -> str:
        """The name under which that process is shown: `job tuesday, 2026-01-31 13:00, rank 0`."""
        process = self.shown_process
        several = len(self.opened.processes) > 1
        return f"{self.label}, {process.label}" if process is not None and several else self.label

    @cached_property
    def capture(self) -> CaptureResult | None:
        """What that process compiled, as of a run here; None where no file of the job is here."""
        process = self.shown_process
        path = self._target_path
        if process is None or path is None:
            return None
        result = capture_result_of(Key(path, self.target, Tier.CAPTURE), 0, process.report, ())
        result.places = self.places
        result.depends = self.places.paths()
        result.own = tuple(item.tracked for item in self.findings)
        return result

    @cached_property
    def kernels(self) -> KernelResult | None:
        """The kernels of that process; None without generated code."""
        process = self.shown_process
        path = self._target_path
        if process is None or path is None or not process.report.generated:
            return None
        result = kernel_result_of(Key(path, self.target, Tier.KERNELS), 0, process.report)
        result.places = self.places
        result.depends = self.places.paths()
        return result

    @property
    def _target_path(self) -> str | None:
        """The program's file, else any file of the job that is here."""
        process = self.shown_process
        here = set(self.opened.files.local.values())
        if process is not None and process.report.target.path in here:
            return process.report.target.path
        return min(here & self.places.paths(), default=None)

    def on(self, path: str) -> Iterator[JobFinding]:
        """Yield the findings whose lines are in a file now."""
        for item in self.findings:
            place = item.tracked.place
            if not place.is_deleted and place.span.path == path:
                yield item

    def apply_edit(self, path: str, change: Change) -> None:
        """Move lines for one edit of a file's text."""
        self.places.apply_edit(path, change)

    def follow(self, path: str, text: str | None) -> None:
        """Move lines to where they are in a text of a file that changed unseen; None: the file is gone."""
        if path not in self.places.paths():
            return
        self.places.reset_file(path)
        if text is None:
            self.places.drop_file(path)
            return
        as_read = "\n".join(self.lines_as_read(path))
        for change in SourceDocument(path, as_read).become("\n".join(split_text(text))):
            self.places.apply_edit(path, change)

    def mark_current(self, path: str, source: SourceDocument) -> None:
        """Return lines to where they were if a file has the text again that it had when the job was opened."""
        if path not in self.places.paths():
            return
        lines = self.lines_as_read(path)
        if source.line_count == len(lines) and split_text(source.text) == lines:
            self.places.reset_file(path)

    def lines_as_read(self, path: str) -> list[str]:
        """Return the lines of a file as they were when the job was opened; none if it is not here."""
        return self.opened.files.sources.lines(path) or []


class OpenJobs(dict[str, JobResult]):
    """The open jobs by id, the oldest first, with a bound."""

    def paths(self) -> frozenset[str]:
        """Return the files that open jobs say something about."""
        return frozenset(path for job in self.values() for path in job.places.paths())

    def of_file(self, path: str | None) -> list[JobResult]:
        """Return the jobs that say something about a file, or all of them for None, the newest first."""
        return [job for job in reversed(self.values()) if path is None or path in job.places.paths()]

    def kernels_of(self, target: str) -> KernelResult | None:
        """Return the kernels of the job that is shown under a name."""
        return next((job.kernels for job in reversed(self.values()) if job.target == target), None)

    def accept_jobs(self, jobs: Iterable[JobResult], source: str) -> frozenset[str]:
        """Replace the jobs of `source` by `jobs`; return the files of those that came and went."""
        paths = self.close(key for key, job in list(self.items()) if job.source == source)
        for job in jobs:
            self[job.id] = job
            paths |= job.places.paths()
        return paths | self.close(list(self)[:-MAX_JOBS])

    def close(self, ids: Iterable[str]) -> frozenset[str]:
        """Close jobs; return the files that they said something about."""
        closed = [self.pop(key) for key in list(ids) if key in self]
        return frozenset(path for job in closed for path in job.places.paths())

    def apply_edit(self, path: str, change: Change) -> None:
        """Move lines for one edit of a file's text."""
        for job in self.values():
            job.apply_edit(path, change)

    def mark_current(self, path: str, source: SourceDocument) -> None:
        """Return lines to where they were in a file that has its text again."""
        for job in self.values():
            job.mark_current(path, source)

    def follow_disk(self, path: str) -> None:
        """Move lines to where they are in a file that was written and is not open."""
        for job in self.values():
            job.follow(path, disk_text(path))

    def drop_file(self, path: str) -> frozenset[str]:
        """Drop the lines of a deleted file or folder; return the files that had some."""
        gone = frozenset(file for file in self.paths() if within(file, path))
        for job in self.values():
            for file in gone:
                job.places.drop_file(file)
        return gone


def job_result_of(number: int, source: str, opened: OpenedJob) -> JobResult:
    """Make the result of an opened job; `number` distinguishes the jobs of one folder."""
    result = JobResult(f"{source}#{number}", source, opened)
    here = [
        (finding, state)
        for finding in opened.findings
        if (state := opened.state_of(finding)) is not LineState.ABSENT
    ]
    followed = tracked((finding for finding, _ in here), result.places)
    result.findings = tuple(
        JobFinding(item, state is LineState.CHANGED) for item, (_, state) in zip(followed, here, strict=True)
    )
    result.functions = tuple(_functions(opened, result.places))
    _track_report(result)
    return result


def _track_report(result: JobResult) -> None:
    """Have the lines of the report that is shown move with edits from now on, also before it is shown."""
    process = result.shown_process
    if process is None:
        return
    here = frozenset(result.opened.files.local.values())
    lines = (Span(line.path, line.line) for line in kernel_lines(process.report))
    for place in (*map(span, locations(process.report)), *lines):
        if place.path in here:
            result.places.track(place)


@dataclass
class _Counts:
    """What one process compiled of a function."""

    compiles: int = 0
    graphs: int = 0
    breaks: int = 0
    recompilations: int = 0

    def add_compile(self, compiled: LoggedCompile) -> None:
        self.compiles += 1
        self.graphs += any(graph.kind is GraphKind.DYNAMO for graph in compiled.graphs)
        self.breaks += len({item.location for item in compiled.breaks})
        self.recompilations += compiled.recompile_reasons is not None


def _functions(opened: OpenedJob, places: Places) -> Iterator[JobFunction]:
    """Yield the compiled functions that are here."""
    counted: dict[tuple[str, int], list[_Counts]] = {}
    for process in opened.processes:
        of_process: dict[tuple[str, int], _Counts] = {}
        for location, compiled in _with_functions(process.log.compiles):
            if location.path in opened.files.local:
                here = opened.files.location(location)
                of_process.setdefault((here.path, here.line), _Counts()).add_compile(compiled)
        for place, counts in of_process.items():
            counted.setdefault(place, []).append(counts)
    for (path, line), by_process in sorted(counted.items()):
        yield JobFunction(places.track(Span(path, line)), _counts_in_words(by_process, len(opened.processes)))


def _with_functions(compiles: Iterable[LoggedCompile]) -> Iterator[tuple[Location, LoggedCompile]]:
    """Yield compiles with the first line of their function, also those that resume it after a break."""
    functions: dict[tuple[str, str | None], Location] = {}
    for compiled in compiles:
        location = compiled.location
        if location is None:
            continue
        name = location.path, location.function
        if compiled.last.resumed_at is None:
            functions[name] = location
        yield functions.get(name, location), compiled


def _counts_in_words(by_process: list[_Counts], processes: int) -> str:
    parts = (
        ("compile", [counts.compiles for counts in by_process]),
        ("graph", [counts.graphs for counts in by_process]),
        ("break", [counts.breaks for counts in by_process]),
        ("recompilation", [counts.recompilations for counts in by_process]),
    )
    shown = [_range_in_words(noun, numbers) for noun, numbers in parts if max(numbers)]
    which = (
        f"each of {processes:,}" if len(by_process) == processes else f"{len(by_process):,} of {processes:,}"
    )
    return f"{', '.join(shown)}{f' in {which} processes' if processes > 1 else ''}"


def _range_in_words(noun: str, numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return format_count(high, noun) if low == high else f"{low:,} to {format_count(high, noun)}"
