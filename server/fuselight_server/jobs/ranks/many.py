"""Reads the logs of a job with many ranks in bounded memory.

Invariant: one log at a time is in memory as data; of each, its digest is kept. Only the ranks that stand for a group of
equal ones are read again as a whole, at most `MAX_SHOWN` of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fuselight_server.jobs.ranks.digests import RankDigest, SharedParts, digest
from fuselight_server.jobs.ranks.rows import groups_of
from fuselight_server.jobs.trace_log.files import FoundLogs, LogError
from fuselight_server.jobs.trace_log.grouping import jobs_of
from fuselight_server.jobs.trace_log.model import LoggedJob, LogNote, NoteKind, ProcessLog
from fuselight_server.jobs.trace_log.reader import JobReader

MANY_RANKS = 64
"""Logs from which on a job is read this way."""
MAX_SHOWN = 16
"""Ranks that are read as a whole."""
_MAX_PHASES = 60
"""Phases of each rank in the timeline."""


@dataclass(frozen=True)
class DigestedJob:
    """A job of many ranks. `job` has the processes that stand for groups of ranks, the digests are of all."""

    job: LoggedJob
    digests: tuple[RankDigest, ...]


def read_many(
    logs: FoundLogs,
    name: str,
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    is_canceled: Callable[[], bool] = lambda: False,
) -> tuple[DigestedJob, ...]:
    """The jobs that these logs are of. Raises LogError if no file is a log. `progress`: logs read, and all."""
    digests: list[RankDigest] = []
    notes = list(logs.notes)
    files = [file.path for file in logs.files]
    for number, (items, about) in enumerate(_digests(files, is_canceled), 1):
        digests += items
        notes += about
        progress(number, len(files))
        if is_canceled():
            notes.append(LogNote(NoteKind.CANCELLED, "The reading was cancelled: later logs are missing."))
            break
    if not digests:
        raise LogError(
            f"`{name}` has no record of torch.compile. Open what a job wrote with `TORCH_TRACE=FOLDER`."
        )
    by_log = {id(item.log): item for item in digests}
    return tuple(
        _job(job, tuple(by_log[id(process)] for process in job.processes))
        for job in jobs_of(name, [item.log for item in digests], notes)
    )


def _digests(
    files: Iterable[str], is_canceled: Callable[[], bool]
) -> Iterator[tuple[list[RankDigest], list[LogNote]]]:
    """The processes of each log, and what is to be said of it."""
    parts = SharedParts()
    for file in files:
        try:
            processes, notes = _read(file, is_canceled)
        except LogError as error:
            yield [], [LogNote(NoteKind.NOT_A_LOG, str(error), file)]
            continue
        yield [digest(process, parts, most_phases=_MAX_PHASES) for process in processes], notes
        parts.texts.clear()


def _read(
    file: str, is_canceled: Callable[[], bool] = lambda: False
) -> tuple[list[ProcessLog], list[LogNote]]:
    """All processes of a log, and the notes that are about the file itself."""
    reader = JobReader([file], is_cancelled=is_canceled)
    for _ in reader.steps():
        pass
    jobs = reader.jobs()
    kinds = {NoteKind.UNREADABLE_FILE, NoteKind.SEVERAL_PROCESSES}
    notes = {note: None for job in jobs for note in job.notes if note.kind in kinds}
    return [process for job in jobs for process in job.processes], list(notes)


def _job(job: LoggedJob, digests: tuple[RankDigest, ...]) -> DigestedJob:
    chosen = set(_chosen(digests))
    processes = [
        process
        for file in dict.fromkeys(item.log.file for item in digests if item.log.rank in chosen)
        for process in _read(file)[0]
    ]
    ranks: dict[int | None, tuple[ProcessLog, ...]] = {}
    for process in sorted(processes, key=lambda item: item.rank or 0):
        if process.rank in chosen:
            ranks[process.rank] = (*ranks.get(process.rank, ()), process)
    return DigestedJob(dataclasses.replace(job, ranks=ranks), digests)


def _chosen(digests: Sequence[RankDigest]) -> list[int | None]:
    """The first rank of each group of equal ranks, the largest groups first."""
    ranks = {item.log.rank: item for item in digests if item.log.rank is not None}
    if not ranks:
        return [None]
    return [group.ranks[0] for group in groups_of(dict(sorted(ranks.items())))[:MAX_SHOWN]]
