"""Opens the logs of jobs: reads them in a thread, with partial results, and follows those that grow.

Invariant: nothing of the job runs, and no local file is read outside of the source folders.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.formatting import format_list
from fuselight_server.commands.chosen_files import keep_choices, kept_choices
from fuselight_server.commands.job_findings import compose_job
from fuselight_server.commands.opened_job import OpenedJob, OpenedProcess
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings import Thresholds
from fuselight_server.jobs.caches.pairing import earlier_start
from fuselight_server.jobs.memory.comparison import differences_of
from fuselight_server.jobs.memory.files import find_snapshots, is_snapshot, read_memory
from fuselight_server.jobs.memory.locations import located, locations_of
from fuselight_server.jobs.memory.model import JobMemory
from fuselight_server.jobs.ranks.comparison import compare_digests, compare_ranks
from fuselight_server.jobs.ranks.digests import RankDigest, SharedParts
from fuselight_server.jobs.ranks.flight_recorder import DumpPlace
from fuselight_server.jobs.ranks.many import MANY_RANKS, read_many
from fuselight_server.jobs.reports.conversion import read_report
from fuselight_server.jobs.reports.evidence import read_evidence
from fuselight_server.jobs.reports.mapping import (
    AmbiguousFile,
    JobFiles,
    LocalSources,
    files_in_place,
    is_of_job,
    map_files,
)
from fuselight_server.jobs.reports.moved_lines import SourceEvidence
from fuselight_server.jobs.reports.texts import LogTexts
from fuselight_server.jobs.trace_log.files import FoundLogs, LogError, find_logs
from fuselight_server.jobs.trace_log.log_ends import log_end
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    GraphKind,
    LoggedCompile,
    LoggedJob,
    ProcessLog,
)
from fuselight_server.jobs.trace_log.reader import JobReader, ReadStep, job_name

_Shown = TypeVar("_Shown")
ChooseFile: TypeAlias = "Callable[[AmbiguousFile], Awaitable[str | None]]"
"""Asks which local file a file of the job is; None: none of them."""
_FIRST_PARTIAL = 0.2
"""Seconds after which the first partial result is reported."""
_PARTIAL_COST = 4
"""Times as long as a partial result took is the time to the next one."""
_FOLLOW_EVERY = 0.5
"""Seconds between two looks at logs that grow."""
_NO_THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class OpenRequest:
    """Which logs to open, and where the job's source is."""

    paths: tuple[Path, ...]
    """Logs and snapshots of the allocator, or folders with them."""
    source: tuple[Path, ...]
    """Folders with the job's source. The first one has the store of answers."""
    is_followed: bool = False
    """Whether to go on while the logs grow: until the token is canceled, which then is no error."""
    thresholds: Thresholds = _NO_THRESHOLDS
    ran_here: float | None = None
    """Seconds since the epoch when the one job started on this machine, from these folders; None for jobs elsewhere."""
    dumps: DumpPlace | None = None
    """Where dumps of the flight recorder are besides the folders of the logs."""


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
        jobs = await (reading if request.is_followed else token.run(asyncio.shield(reading)))
    except LogError as error:
        raise opening.refusal or CommandError(str(error)) from None
    finally:
        stops.set()
        if not reading.done():
            await asyncio.wait([reading])
    if opening.refusal is not None:
        raise opening.refusal
    return jobs


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
        self._log_paths: list[Path] = []
        self.refusal: Exception | None = None
        """What the face raised as it got progress or a partial result: nobody reads on, as after `| head`."""

    def read(self, stops: threading.Event) -> tuple[OpenedJob, ...]:
        """Read the logs to their end, or until they are no longer followed."""
        self._stops = stops
        self._check_source()
        self._chosen = dict(kept_choices(self._request.source[0]))
        self._log_paths = [
            path for path in self._request.paths if path.is_dir() or not is_snapshot(str(path))
        ]
        try:
            logs = self._find_logs()
        except LogError:
            memory = self._read_memory()
            if not memory:
                raise
            return (self._compose_memory(memory),)
        if len(logs.files) >= MANY_RANKS and not self._request.is_followed:
            return self._read_many(logs)
        reader = JobReader(
            self._log_paths,
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
        return self._compose(reader.jobs(), is_partial=False, memory=self._read_memory())

    def _read_memory(self) -> list[JobMemory]:
        """Each snapshot of the paths by itself, those that cannot be read as a note."""
        out = []
        files = find_snapshots(self._request.paths)
        for number, path in enumerate(files, 1):
            if self._is_canceled() and not self._request.is_followed:
                raise LogError("The reading was canceled.")
            self._show_soon(f"reading snapshot {number:,} of {len(files):,}")
            read = read_memory(path)
            out.append(
                JobMemory((read.process,) if read.process else (), notes=(read.note,) if read.note else ())
            )
        return out

    def _compose_memory(self, memory: list[JobMemory]) -> OpenedJob:
        """A job of which only snapshots are here. Raises LogError if none can be read."""
        if not any(item.processes for item in memory):
            raise LogError(" ".join(note for item in memory for note in item.notes))
        job = LoggedJob(job_name(self._request.paths), None, {})
        return self._compose_job(job, is_partial=False, memory=memory)

    def _find_logs(self) -> FoundLogs:
        """The logs; of a job that is followed, which writes none before its first compile, once there are some."""
        if not self._log_paths:
            raise LogError("There are only snapshots.")
        has_files = any(not path.is_dir() for path in self._log_paths)
        while True:
            try:
                return find_logs(self._log_paths)
            except LogError:
                if not self._request.is_followed or has_files:
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
        memory = _by_job([item.job for item in jobs], self._read_memory())
        return tuple(
            self._compose_job(item.job, is_partial=False, digests=item.digests, memory=memory[number])
            for number, item in enumerate(jobs)
        )

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
        self._call_soon(self._show, text)

    def _call_soon(self, function: Callable[[_Shown], None], shown: _Shown) -> None:
        """Call a function of the face in its thread; what it raises ends the opening."""

        def call() -> None:
            if self.refusal is not None:
                return
            try:
                function(shown)
            except Exception as error:  # noqa: BLE001 - raised by `open_jobs`, where the face awaits it
                self.refusal = error
                self._stops.set()

        self._loop.call_soon_threadsafe(call)

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
            self._call_soon(self._on_partial, opened)

    def _compose(
        self, jobs: tuple[LoggedJob, ...], *, is_partial: bool, memory: Sequence[JobMemory] = ()
    ) -> tuple[OpenedJob, ...]:
        of_job = _by_job(jobs, memory)
        return tuple(
            self._compose_job(
                job, is_partial=is_partial, earlier=earlier_start(job, jobs[:number]), memory=of_job[number]
            )
            for number, job in enumerate(jobs)
        )

    def _compose_job(
        self,
        job: LoggedJob,
        *,
        is_partial: bool,
        digests: Sequence[RankDigest] | None = None,
        earlier: LoggedJob | None = None,
        memory: Sequence[JobMemory] = (),
    ) -> OpenedJob:
        """The job as it was read; of one with many ranks, `digests` has all of them."""
        for process in job.processes:
            self._texts.read(process)
        snapshots = _joined(memory)
        files = self._map(job, snapshots, is_partial=is_partial)
        processes = [
            OpenedProcess(
                process, read_report(_traced(process) if is_partial else process, files, self._texts)
            )
            for process in job.processes
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
            ends=[log_end(process) for process in job.processes]
            if digests is None
            else [item.end for item in digests],
            is_followed=self._request.is_followed,
            has_ended=self._request.ran_here is not None,
            memory=located(snapshots, files.location) if snapshots is not None else None,
        )

    def _map(self, job: LoggedJob, memory: JobMemory | None, *, is_partial: bool) -> JobFiles:
        if self._sources is None:
            self._show_soon("listing the source")
            self._sources = LocalSources(self._request.source)
        evidence = read_evidence(job.processes, self._texts)
        for place in locations_of(memory) if memory is not None else ():
            if is_of_job(place.path):
                evidence.setdefault(place.path, SourceEvidence())
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


def _by_job(jobs: Sequence[LoggedJob], memory: Sequence[JobMemory]) -> list[list[JobMemory]]:
    """The snapshots of each job: of the last one that had started when it was taken, else of the last one."""
    out: list[list[JobMemory]] = [[] for _ in jobs]
    for item in memory:
        taken = item.processes[0].taken if item.processes else None
        started = [
            number
            for number, job in enumerate(jobs)
            if taken is not None and job.started is not None and job.started <= taken
        ]
        if out:
            out[max(started, key=lambda number: jobs[number].started or 0.0) if started else -1].append(item)
    return out


def _joined(memory: Sequence[JobMemory]) -> JobMemory | None:
    if not memory:
        return None
    processes = sorted(
        (process for item in memory for process in item.processes),
        key=lambda process: (process.rank is None, process.rank or 0),
    )
    notes = tuple(note for item in memory for note in item.notes)
    return JobMemory(tuple(processes), differences_of(processes), notes)


def _traced(process: ProcessLog) -> ProcessLog:
    """Without a compile that is still being traced: its findings may get another line from what it logs next."""
    return replace(process, compiles=tuple(compiled for compiled in process.compiles if _is_traced(compiled)))


def _is_traced(compiled: LoggedCompile) -> bool:
    last = compiled.last
    kinds = {graph.kind for graph in last.graphs}
    return last.state is not AttemptState.UNFINISHED or GraphKind.DYNAMO in kinds


def _source_of(files: JobFiles) -> Callable[[str], Sequence[str] | None]:
    """The local lines of a file of the job, None if it is not here as it ran."""

    def lines(path: str) -> Sequence[str] | None:
        local = files.local.get(path)
        return None if local is None or files.has_moved(path) else files.sources.lines(local)

    return lines


def _progress(step: ReadStep) -> str:
    share = f" ({step.bytes_read * 100 // step.total_bytes}%)" if step.total_bytes else ""
    return f"reading {step.file}{share}"
