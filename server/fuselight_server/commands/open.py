"""What the logs of jobs show, as after a run here: Reports, findings on local lines, and which lines have changed.

Invariant: nothing of the job runs, and no local file is read outside of the source folders. The findings of a partial
result are those of the compiles that were read.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.commands.chosen_files import keep_choices, kept_choices
from fuselight_server.commands.findings import compose_findings
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.jobs.caches.findings import cache_findings
from fuselight_server.jobs.caches.pairing import earlier_start
from fuselight_server.jobs.caches.starts import start_pictures
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.ranks.comparison import compare_digests, compare_ranks
from fuselight_server.jobs.ranks.digests import SharedParts
from fuselight_server.jobs.ranks.findings import rank_findings
from fuselight_server.jobs.ranks.many import MANY_RANKS, read_many
from fuselight_server.jobs.reports.compile_steps import read_compile_steps
from fuselight_server.jobs.reports.conversion import read_report
from fuselight_server.jobs.reports.evidence import read_evidence
from fuselight_server.jobs.reports.mapping import (
    JobFiles,
    LineState,
    LocalSources,
    files_in_place,
    is_of_job,
    map_files,
)
from fuselight_server.jobs.reports.texts import LogTexts
from fuselight_server.jobs.trace_log.files import LogError, find_logs
from fuselight_server.jobs.trace_log.reader import JobReader, job_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fuselight.shared.report import CompileStep, Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.base.finding import Finding, Span
    from fuselight_server.jobs.caches.model import CacheSummary, StartPicture
    from fuselight_server.jobs.ranks.digests import RankDigest
    from fuselight_server.jobs.ranks.flight_recorder import DumpPlace
    from fuselight_server.jobs.ranks.model import RankTable
    from fuselight_server.jobs.reports.mapping import AmbiguousFile
    from fuselight_server.jobs.trace_log.files import FoundLogs
    from fuselight_server.jobs.trace_log.model import LoggedJob, ProcessLog
    from fuselight_server.jobs.trace_log.reader import ReadStep
    from fuselight_server.source.reading import Reading

ChooseFile: TypeAlias = "Callable[[AmbiguousFile], Awaitable[str | None]]"
"""Asks which local file a file of the job is; None: none of them."""
_FIRST_PARTIAL = 0.2
"""Seconds after which the first partial result is reported."""
_PARTIAL_COST = 4
"""Times as long as a partial result took is the time to the next one."""
_FOLLOW_EVERY = 0.5
"""Seconds between two looks at logs that grow."""
_LISTED_FILES = 3
_NO_THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class OpenRequest:
    """Which logs to open, and where the job's source is."""

    paths: tuple[Path, ...]
    """Logs, or folders with logs."""
    source: tuple[Path, ...]
    """Folders with the job's source. The first one has the store of answers."""
    is_followed: bool = False
    """Whether to go on while the logs grow: until the token is canceled, which then is no error."""
    thresholds: Thresholds = _NO_THRESHOLDS
    ran_here: float | None = None
    """Seconds since the epoch when the one job started on this machine, from these folders; None for jobs elsewhere."""
    dumps: DumpPlace | None = None
    """Where dumps of the flight recorder are besides the folders of the logs."""


@dataclass(frozen=True)
class OpenedProcess:
    """One process of a job."""

    log: ProcessLog
    report: Report
    """As a run yields it, with local paths. Its `problems` are what a trace cannot show."""

    @cached_property
    def compile_steps(self) -> tuple[CompileStep, ...]:
        """The phases of its compiles, for a flame chart: made when they are shown, as a large job has 100,000."""
        return read_compile_steps(self.log, self.report)

    @property
    def label(self) -> str:
        """`rank 3`, `process 4121`, or the name of its log."""
        if self.log.rank is not None:
            return f"rank {self.log.rank}"
        return f"process {self.log.process}" if self.log.process is not None else self.log.file


@dataclass(frozen=True, repr=False)
class OpenedJob:
    """One job: the findings of all of its processes, and what they come from."""

    name: str
    started: float | None
    """Seconds since the epoch."""
    job: LoggedJob
    processes: tuple[OpenedProcess, ...]
    """In the order of `job.processes`."""
    files: JobFiles
    outcome: CheckOutcome
    """As a check has it, for every format and every face: findings, reports, sources, problems."""
    notes: tuple[str, ...]
    """What a reader should know of the logs and of the source."""
    is_partial: bool = False
    """Whether it is still being read."""
    ranks: RankTable | None = None
    """Its ranks compared; None if it is not a job of ranks."""
    caches: CacheSummary | None = None
    """What its caches did; None while it is still being read."""
    starts: tuple[StartPicture, ...] = ()
    """Where the time of each process's compiles went."""

    @property
    def findings(self) -> list[Finding]:
        """The findings of all processes, each once, by place."""
        return self.outcome.findings

    @property
    def exit_code(self) -> int:
        """As after a check: 0 nothing at warning or above, 1 findings, 2 something could not be analyzed."""
        return self.outcome.exit_code

    def __repr__(self) -> str:
        """Short: asyncio forms the text of a result when it removes its handler of Ctrl-C, 300 MB for a log of 1 GB."""
        return f"OpenedJob({self.name!r}, {len(self.processes)} processes)"

    def state_of(self, finding: Finding) -> LineState:
        """How the line of a finding compares with the line that ran."""
        return self.files.state(finding.span.path, finding.span.line)


OnPartial: TypeAlias = "Callable[[tuple[OpenedJob, ...]], None]"


def _refuse_to_choose(file: AmbiguousFile) -> NoReturn:
    """Raise CommandError: where nobody can be asked, the user names the folder of the source."""
    candidates = format_list([f"`{shown_path(path)}`" for path in file.candidates])
    raise CommandError(
        f"`{file.path}` of the job may be {candidates}. Name the folder of the job's source with `--source DIR`."
    )


async def open_jobs(
    request: OpenRequest,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    choose: ChooseFile | None = None,
    on_partial: OnPartial | None = None,
) -> tuple[OpenedJob, ...]:
    """Read the logs, and return the jobs in them. Raises CommandError, and asyncio.CancelledError once canceled.

    `choose` is asked for each file of the job that several local files may be; without it, such a file is an error.
    `on_partial` gets what is known while the logs are read, in the order of time. A job that is followed ends with the
    token, and its result is returned.
    """
    opening = _Opening(request, show, token, choose, asyncio.get_running_loop(), on_partial)
    stops = threading.Event()
    reading = asyncio.ensure_future(asyncio.to_thread(opening.read, stops))
    try:
        return await (reading if request.is_followed else token.run(asyncio.shield(reading)))
    except LogError as error:
        raise CommandError(str(error)) from None
    finally:
        stops.set()
        if not reading.done():
            await asyncio.wait([reading])


class _Opening:
    """One opening of logs, in a thread of its own."""

    def __init__(  # noqa: PLR0917 - as the use case has them
        self,
        request: OpenRequest,
        show: Callable[[str], None],
        token: CancelToken,
        choose: ChooseFile | None,
        loop: asyncio.AbstractEventLoop,
        on_partial: OnPartial | None,
    ) -> None:
        self._request, self._show, self._token = request, show, token
        self._choose, self._loop, self._on_partial = choose, loop, on_partial
        self._texts = LogTexts()
        self._ranks = SharedParts()
        self._sources: LocalSources | None = None
        self._chosen: dict[str, str] = {}
        self._stops = threading.Event()

    def read(self, stops: threading.Event) -> tuple[OpenedJob, ...]:
        """Read the logs to their end, or until they are no longer followed."""
        self._stops = stops
        self._check_source()
        self._chosen = dict(kept_choices(self._request.source[0]))
        logs = self._find_logs()
        if len(logs.files) >= MANY_RANKS and not self._request.is_followed:
            return self._read_many(logs)
        reader = JobReader(
            self._request.paths,
            is_cancelled=self._is_canceled,
            is_one_run=self._request.ran_here is not None,
        )
        partial = _PartialSchedule()

        def report() -> None:
            if partial.is_due():
                with partial.timed():
                    self._report_partial(reader)

        def wait() -> bool:
            report()
            return self._wait()

        for step in reader.follow(wait) if self._request.is_followed else reader.steps():
            self._show_soon(_progress(step))
            # The records of a compile that goes on are news for who follows a job.
            partial.has_news |= bool(step.finished) or self._request.is_followed
            report()
        return self._compose(reader.jobs(), is_partial=False)

    def _find_logs(self) -> FoundLogs:
        """The logs; of a job that is followed, which writes none before its first compile, once there are some."""
        folders = [path for path in self._request.paths if path.is_dir()]
        while True:
            try:
                return find_logs(self._request.paths)
            except LogError:
                if not self._request.is_followed or len(folders) < len(self._request.paths):
                    raise
                self._show_soon("waiting for the first log: torch writes it at the first compile")
                if not self._wait():
                    raise

    def _read_many(self, logs: FoundLogs) -> tuple[OpenedJob, ...]:
        """Read a job of many ranks: all of them are compared, and those that differ become Reports."""
        jobs = read_many(
            logs,
            job_name(self._request.paths),
            progress=lambda done, total: self._show_soon(f"reading {done:,} of {total:,} logs"),
            is_canceled=self._is_canceled,
        )
        return tuple(self._compose_job(item.job, is_partial=False, digests=item.digests) for item in jobs)

    def _is_canceled(self) -> bool:
        return self._stops.is_set() or self._token.is_canceled

    def _wait(self) -> bool:
        """Wait for a log that is followed to grow; False: the user has ended it."""
        end = time.monotonic() + _FOLLOW_EVERY
        while time.monotonic() < end:
            if self._is_canceled():
                return False
            self._stops.wait(0.05)
        return not self._is_canceled()

    def _show_soon(self, text: str) -> None:
        """Show progress in the thread of the face."""
        self._loop.call_soon_threadsafe(self._show, text)

    def _check_source(self) -> None:
        for folder in self._request.source:
            if not folder.is_dir():
                raise CommandError(
                    f"`{folder}` is no folder. Name the folder of the job's source with `--source`."
                )

    def _report_partial(self, reader: JobReader) -> None:
        if self._on_partial is None:
            return
        try:
            jobs = reader.jobs()
        except LogError:
            return
        opened = self._compose(jobs, is_partial=True)
        if opened:
            self._loop.call_soon_threadsafe(self._on_partial, opened)

    def _compose(self, jobs: tuple[LoggedJob, ...], *, is_partial: bool) -> tuple[OpenedJob, ...]:
        return tuple(
            self._compose_job(job, is_partial=is_partial, earlier=earlier_start(job, jobs[:number]))
            for number, job in enumerate(jobs)
        )

    def _compose_job(
        self,
        job: LoggedJob,
        *,
        is_partial: bool,
        digests: Sequence[RankDigest] | None = None,
        earlier: LoggedJob | None = None,
    ) -> OpenedJob:
        """The job as it was read; of one with many ranks, `digests` has all of them.

        `earlier`: the start before it in the same logs, with whose cache keys its own are compared.
        """
        for process in job.processes:
            self._texts.read(process)
        files = self._map(job, is_partial=is_partial)
        processes = [
            OpenedProcess(process, read_report(process, files, self._texts)) for process in job.processes
        ]
        lines = _source_of(files)
        if digests is None:
            ranks = compare_ranks(job, lines=lines, parts=self._ranks, dumps=self._request.dumps)
        else:
            ranks = compare_digests(digests, lines=lines, dumps=self._request.dumps)
        return compose_job(
            job,
            tuple(processes),
            files,
            self._request.thresholds,
            is_partial=is_partial,
            ranks=ranks,
            earlier=earlier,
        )

    def _map(self, job: LoggedJob, *, is_partial: bool) -> JobFiles:
        if self._sources is None:
            self._show_soon("listing the source")
            self._sources = LocalSources(self._request.source)
        evidence = read_evidence(job.processes, self._texts)
        if self._request.ran_here is not None:
            return files_in_place(evidence, self._sources, self._request.ran_here)
        files = map_files(evidence, self._sources, self._chosen)
        if is_partial or not files.ambiguous:
            return files
        for file in files.ambiguous:
            if is_of_job(file.path):
                asked = asyncio.run_coroutine_threadsafe(self._ask(file), self._loop)
                self._chosen[file.path] = asked.result() or ""
        keep_choices(self._request.source[0], self._chosen)
        return map_files(evidence, self._sources, self._chosen)

    async def _ask(self, file: AmbiguousFile) -> str | None:
        if self._choose is None:
            _refuse_to_choose(file)
        return await self._choose(file)


class _PartialSchedule:
    """When partial results are due: the first one early, then so that they take at most a fifth of the time."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _FIRST_PARTIAL
        self.has_news = False
        """Whether something was read since the last result."""

    def is_due(self) -> bool:
        """Whether a result is due."""
        return self.has_news and time.monotonic() >= self._next

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Measure how long a result takes."""
        started = time.monotonic()
        yield
        now = time.monotonic()
        self.has_news = False
        self._next = now + max(_FIRST_PARTIAL, (now - started) * _PARTIAL_COST)


def compose_job(
    job: LoggedJob,
    processes: tuple[OpenedProcess, ...],
    files: JobFiles,
    thresholds: Thresholds = _NO_THRESHOLDS,
    *,
    is_partial: bool = False,
    ranks: RankTable | None = None,
    earlier: LoggedJob | None = None,
) -> OpenedJob:
    """The findings of a job's processes and of its ranks, and its notes."""
    outcome = CheckOutcome(
        reports=[process.report for process in processes],
        sources=JobSources(of_jobs=(files,)),
    )
    opened = OpenedJob(
        name=job.name,
        started=job.started,
        job=job,
        processes=processes,
        files=files,
        outcome=outcome,
        notes=(*_notes(job, files, outcome.reports), *_note_of_ranks(processes, ranks)),
        is_partial=is_partial,
        ranks=ranks,
        caches=None if is_partial else summarize(job, earlier, read_line=_line_reader(files)),
        starts=() if is_partial else start_pictures(job, read_line=_line_reader(files)),
    )
    per_process = [
        (process.label, findings(process.report, thresholds=thresholds, read_line=files.line))
        for process in processes
    ]
    of_job = [*_of_ranks(opened), *_of_caches(opened)]
    ran = [with_state(finding, files) for finding in [*merge_processes(per_process), *of_job]]
    outcome.readings = _readings({finding.span.path for finding in ran}, files)
    # A trace need not reach every line, so no ignore comment counts as unused.
    kept = compose_findings(ran, (), outcome.readings, is_known=lambda _code: False)
    outcome.findings = sorted(kept, key=lambda finding: (finding.span.path, finding.span.start, finding.code))
    return opened


def _of_ranks(opened: OpenedJob) -> list[Finding]:
    """Where the ranks of a job differ: known only when the logs of all ranks were read."""
    if opened.ranks is None or opened.is_partial:
        return []
    version = _torch_version(opened)
    return rank_findings(opened.ranks, inputs=opened.name, torch=version, locate=opened.files.location)


def _of_caches(opened: OpenedJob) -> list[Finding]:
    """What a cache missed or cannot keep, where the cause is known."""
    if opened.caches is None:
        return []
    version = _torch_version(opened)
    return cache_findings(opened.caches, inputs=opened.name, torch=version, locate=opened.files.location)


def _torch_version(opened: OpenedJob) -> str:
    return next((process.log.torch_version for process in opened.processes if process.log.torch_version), "")


def _line_reader(files: JobFiles) -> Callable[[str, int], str | None]:
    """Reads a line of a file by its path in the job."""
    return lambda path, number: files.line(files.path(path), number)


def _source_of(files: JobFiles) -> Callable[[str], Sequence[str] | None]:
    """The local lines of a file of the job, None if it is not here."""

    def lines(path: str) -> Sequence[str] | None:
        local = files.local.get(path)
        return None if local is None else files.sources.lines(local)

    return lines


def outcome_of(jobs: Sequence[OpenedJob]) -> CheckOutcome:
    """The findings of all jobs together."""
    if len(jobs) == 1:
        return jobs[0].outcome
    outcome = CheckOutcome(sources=JobSources(of_jobs=tuple(job.files for job in jobs)))
    for job in jobs:
        outcome.findings += job.findings
        outcome.reports += job.outcome.reports
        outcome.problems += job.outcome.problems
    return outcome


@dataclass
class JobSources(SourceFiles):
    """The lines of a job's files: local ones, and those that the logs quote of files that are not here."""

    of_jobs: tuple[JobFiles, ...] = ()

    def line(self, path: str, number: int) -> str | None:
        """Line `number` (1-based) of a file of the jobs; a file outside of the source folders is never read."""
        lines = (files.line(path, number) for files in self.of_jobs)
        return next((line for line in lines if line is not None), None)


def merge_processes(per_process: list[tuple[str, tuple[Finding, ...]]]) -> list[Finding]:
    """The findings of all processes, each once; those of a part of the processes name them."""
    kept: dict[tuple[Span, str, str], Finding] = {}
    labels: dict[tuple[Span, str, str], dict[str, None]] = {}
    for label, ran in per_process:
        for finding in ran:
            key = (finding.span, finding.code, finding.title)
            kept.setdefault(key, finding)
            labels.setdefault(key, {})[label] = None
    out = []
    for key, finding in kept.items():
        if len(labels[key]) < len(per_process):
            out.append(
                _with_paragraph(
                    finding, f"In {format_labels(labels[key])} of {len(per_process):,} processes."
                )
            )
        else:
            out.append(finding)
    return out


def format_labels(labels: Mapping[str, None]) -> str:
    """`rank 0, rank 3 and 5 more`."""
    names = list(labels)
    if len(names) <= _LISTED_FILES + 1:
        return format_list(names)
    return f"{', '.join(names[:_LISTED_FILES])} and {len(names) - _LISTED_FILES:,} more"


def with_state(finding: Finding, files: JobFiles) -> Finding:
    """The finding, with a remark where its line is not known to be the line that ran."""
    path, line = finding.span.path, finding.span.line
    state = files.state(path, line)
    if state is LineState.CURRENT:
        return finding
    if state is LineState.CHANGED:
        return _with_paragraph(
            finding,
            f"Of the job's source: line {line} was `{files.quote(path, line)}`, and has changed since.",
        )
    if state is LineState.UNKNOWN:
        return _with_paragraph(
            finding, "The trace does not quote this line: whether it has changed since is unknown."
        )
    return _with_paragraph(finding, "The file is not in the source folder: this is its path in the job.")


def _with_paragraph(finding: Finding, text: str) -> Finding:
    return replace(finding, message=f"{finding.message}\n{text}" if finding.message else text)


def _readings(paths: set[str], files: JobFiles) -> dict[str, Reading]:
    """The local files with findings, for their ignore comments."""
    texts = {
        path: "\n".join(lines) for path in sorted(paths) if (lines := files.sources.lines(path)) is not None
    }
    if not texts:
        return {}
    from fuselight_server.source.document import read_sources  # noqa: PLC0415 - only where source is here

    return read_sources(texts, (), lambda: False)


def _notes(job: LoggedJob, files: JobFiles, reports: list[Report]) -> Iterator[str]:
    for note in job.notes:
        yield f"{note.file}: {note.message}" if note.file else note.message
    own = [path for path in files.evidence if is_of_job(path)]
    absent = [path for path in own if path not in files.local]
    if absent:
        names = [f"`{path}`" for path in absent[:_LISTED_FILES]]
        more = f" and {len(absent) - _LISTED_FILES:,} more" if len(absent) > _LISTED_FILES else ""
        files_word = format_count(len(absent), "file")
        yield (
            f"The source of {files_word} of the job is not here: {', '.join(names)}{more}. "
            "Name its folder with `--source DIR`."
        )
    problems = dict.fromkeys(problem for report in reports for problem in report.problems)
    if problems:
        yield f"Not in the logs: {format_list([problem.what for problem in problems])}."


def _note_of_ranks(processes: Sequence[OpenedProcess], ranks: RankTable | None) -> Iterator[str]:
    """That not every rank has a Report of its own."""
    shown = {process.log.rank for process in processes if process.log.rank is not None}
    if ranks is not None and len(shown) < len(ranks.rows):
        yield (
            f"All {len(ranks.rows):,} ranks are compared. Findings within a rank are those of {ranks_in_words(shown)}: "
            "each stands for the ranks that compiled alike."
        )


def _progress(step: ReadStep) -> str:
    share = f" ({step.bytes_read * 100 // step.total_bytes}%)" if step.total_bytes else ""
    return f"reading {step.file}{share}"
