"""Reads the logs of a job, step by step.

Invariant: a step reads a bounded number of bytes, whatever the logs contain, and what was read can be asked for at any
time. Only paths that name no log at all are an error; all else is a note of the job.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fuselight_server.jobs.trace_log.assembly import FileAssembly
from fuselight_server.jobs.trace_log.budget import MemoryBudget
from fuselight_server.jobs.trace_log.files import LogError, LogFile, LogStream, find_logs
from fuselight_server.jobs.trace_log.grouping import jobs_of
from fuselight_server.jobs.trace_log.model import LoggedCompile, LoggedJob, LogNote, NoteKind, ProcessLog
from fuselight_server.jobs.trace_log.records import RecordSplitter

_FIRST_STEP = 64 << 10
_STEP = 1 << 20
_NOTED_FILES = 20


@dataclass(frozen=True)
class FinishedCompile:
    """A compile that ended in the bytes of a step, and the rank of its process as far as it was known by then."""

    file: str
    rank: int | None
    compile: LoggedCompile


@dataclass(frozen=True)
class ReadStep:
    """Progress of a reader, in bytes of the files on disk."""

    bytes_read: int
    total_bytes: int
    file: str
    finished: tuple[FinishedCompile, ...]


class _OpenLog:
    """A log that is being read."""

    def __init__(self, file: LogFile, budget: MemoryBudget) -> None:
        self.file = file
        self.assembly = FileAssembly(file.path, file.rank, budget)
        self.splitter = RecordSplitter()
        self.offset = 0
        self.position = 0
        self.is_packed = False
        self.is_complete = False
        self.problem: str | None = None

    def chunks(self) -> Iterator[None]:
        """Read from where the last reading ended to the end of the file, one chunk at a time."""
        try:
            with closing(LogStream(self.file.path)) as stream:
                self.is_packed = stream.is_packed
                if self.offset:
                    stream.seek(self.offset)
                size = _FIRST_STEP if not self.offset else _STEP
                while data := stream.read(size):
                    size = _STEP
                    for record in self.splitter.feed(data):
                        self.assembly.add_record(record)
                    self.offset, self.position = stream.offset, stream.position
                    yield
        except OSError as error:
            self.problem = error.strerror or str(error)

    def read_last_record(self) -> None:
        """Take in the last record: nothing follows it."""
        if not self.is_complete:
            for record in self.splitter.last_record():
                self.assembly.add_record(record)
            self.is_complete = True

    def has_grown(self) -> bool:
        """Whether the file has bytes that were not read; a file that was rewritten is not read further."""
        try:
            return not self.is_packed and Path(self.file.path).stat().st_size > self.offset
        except OSError:
            return False

    def finished(self) -> tuple[FinishedCompile, ...]:
        return tuple(
            FinishedCompile(self.file.path, process.rank, compiled)
            for process in self.assembly.processes
            for compiled in process.compiles.take_finished()
        )

    def logs(self) -> Iterator[ProcessLog]:
        for process in self.assembly.processes:
            yield process.log(is_complete=self.is_complete)


class JobReader:
    """Reads the logs that some paths name: files, or folders with one log for each process."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
        is_one_run: bool = False,
    ) -> None:
        """Find the logs. Raises LogError if there are none.

        `is_cancelled` is asked before each step; `is_one_run`: whether all logs are known to be of one run.
        """
        self._is_one_run = is_one_run
        self._paths = [os.fspath(path) for path in paths]
        logs = find_logs(paths)
        self._is_cancelled = is_cancelled
        self._budget = MemoryBudget()
        self._notes = list(logs.notes)
        self._logs = {file.path: _OpenLog(file, self._budget) for file in logs.files}
        self._was_cancelled = False

    def steps(self) -> Iterator[ReadStep]:
        """Read every log to its end; after the last step, `jobs` is complete. Ends early if cancelled."""
        for log in list(self._logs.values()):
            yield from self._read(log)
            if self._was_cancelled:
                return
            log.read_last_record()
            yield self._step(log)

    def follow(self, wait: Callable[[], bool]) -> Iterator[ReadStep]:
        """Read every log, and go on while they grow and while logs are added.

        `wait` is called when everything was read, and returns whether to look again. The last record of a growing log
        is taken in when the next one starts, or at the end.
        """
        while True:
            for log in list(self._logs.values()):
                yield from self._read(log)
            if self._was_cancelled or not wait():
                break
            self._find_new()
        for log in self._logs.values():
            log.read_last_record()
            finished = log.finished()
            if finished:
                yield self._step(log, finished)

    def jobs(self) -> tuple[LoggedJob, ...]:
        """What was read up to now. Raises LogError if everything was read and no file has a record of torch's."""
        logs, notes = list(self._logs.values()), list(self._notes)
        processes: list[ProcessLog] = []
        for log in logs:
            read = [process for process in log.logs() if process.kinds]
            processes += read
            notes += self._notes_of(log, read)
        if self._was_cancelled:
            notes.append(LogNote(NoteKind.CANCELLED, "The reading was cancelled: later records are missing."))
        if not processes and all(log.is_complete for log in logs):
            raise LogError(
                f"`{self._paths[0]}` has no record of torch.compile. Open what a job wrote with `TORCH_TRACE=FOLDER`."
            )
        return jobs_of(job_name(self._paths), processes, _limited(notes), is_one_run=self._is_one_run)

    def _read(self, log: _OpenLog) -> Iterator[ReadStep]:
        if log.offset and not log.has_grown():
            return
        for _ in log.chunks():
            yield self._step(log)
            if self._is_cancelled():
                self._was_cancelled = True
                return

    def _step(self, log: _OpenLog, finished: tuple[FinishedCompile, ...] | None = None) -> ReadStep:
        return ReadStep(
            sum(open_log.position for open_log in self._logs.values()),
            sum(max(open_log.file.size, open_log.position) for open_log in self._logs.values()),
            log.file.path,
            log.finished() if finished is None else finished,
        )

    def _find_new(self) -> None:
        try:
            logs = find_logs(self._paths)
        except LogError:
            return
        for file in logs.files:
            if file.path not in self._logs:
                self._logs[file.path] = _OpenLog(file, self._budget)

    def _notes_of(self, log: _OpenLog, read: Sequence[ProcessLog]) -> Iterator[LogNote]:
        path = log.file.path
        if log.problem is not None:
            yield LogNote(
                NoteKind.UNREADABLE_FILE, f"The file cannot be read to its end: {log.problem}.", path
            )
        elif not read and log.is_complete:
            yield LogNote(NoteKind.NOT_A_LOG, "The file has no record of torch.compile.", path)
        if len(read) > 1:
            message = f"The file has the records of {len(read)} processes."
            yield LogNote(NoteKind.SEVERAL_PROCESSES, message, path)


def job_name(paths: Sequence[str | os.PathLike[str]]) -> str:
    """What the logs that some paths name are called."""
    path = Path(paths[0]).resolve()
    return path.name.removesuffix(".gz").removesuffix(".log") or str(path)


def _limited(notes: Sequence[LogNote]) -> list[LogNote]:
    """The first notes of each kind, and how many more there are."""
    counts: dict[NoteKind, int] = {}
    out: list[LogNote] = []
    for note in notes:
        counts[note.kind] = counts.get(note.kind, 0) + 1
        if counts[note.kind] <= _NOTED_FILES:
            out.append(note)
    for kind, count in counts.items():
        if count > _NOTED_FILES:
            out.append(LogNote(kind, f"The same holds for {count - _NOTED_FILES:,} more files."))
    return out


def read_jobs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    progress: Callable[[ReadStep], None] = lambda _step: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> tuple[LoggedJob, ...]:
    """The jobs whose logs the paths name or contain. Raises LogError if there are none."""
    reader = JobReader(paths, is_cancelled=is_cancelled)
    for step in reader.steps():
        progress(step)
    return reader.jobs()
