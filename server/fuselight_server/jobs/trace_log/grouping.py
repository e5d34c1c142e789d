"""Which processes belong to one job.

Invariant: a log names no job. Processes that ran at the same time are one job, unless two of them have the same rank; a
process that starts after all others have ended starts another job.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fuselight_server.jobs.trace_log.model import LoggedJob, LogNote, NoteKind, ProcessLog

_GAP = 2.0
"""Seconds without any process after which a job has ended: workers of one job can follow each other."""
_MAX_NAMED = 10
_MAX_COMPARED = 64
"""Processes without a rank that are compared with each other."""


@dataclass
class _Group:
    processes: list[ProcessLog] = field(default_factory=list)
    ends: float | None = None

    def add_process(self, process: ProcessLog) -> None:
        self.processes.append(process)
        end = process.ended if process.ended is not None else process.started
        if end is not None:
            self.ends = end if self.ends is None else max(self.ends, end)

    def has_ended(self, process: ProcessLog) -> bool:
        """Whether the process starts after all others of the group."""
        return (
            self.ends is not None and process.started is not None and process.started > self.ends + _GAP
        ) or self.version not in {None, process.torch_version}

    def has_rank(self, process: ProcessLog) -> bool:
        """Whether another log than the process's own has its rank."""
        return process.rank is not None and any(
            log.rank == process.rank and log.file != process.file for log in self.processes
        )

    @property
    def version(self) -> str | None:
        return next(
            (process.torch_version for process in self.processes if process.torch_version is not None), None
        )


def jobs_of(
    name: str, processes: Iterable[ProcessLog], notes: Sequence[LogNote], *, is_one_run: bool = False
) -> tuple[LoggedJob, ...]:
    """The jobs of these processes, in order of their start. `notes`: about the files.

    `is_one_run`: whether they are known to be of one job, whose processes can follow each other at any distance. Only
    ranks that start again are another job then.
    """
    groups: list[_Group] = []
    overlapping = False
    ordered = sorted(processes, key=lambda log: (log.started is None, log.started or 0.0))
    for process in ordered:
        fitting = [
            group
            for group in groups
            if (is_one_run or not group.has_ended(process)) and not group.has_rank(process)
        ]
        if not fitting:
            overlapping |= any(not group.has_ended(process) and group.has_rank(process) for group in groups)
            fitting = [_Group()]
            groups += fitting
        fitting[-1 if is_one_run else 0].add_process(process)
    shared = list(notes)
    if not is_one_run and any(_has_strangers(group.processes) for group in groups):
        message = (
            "Processes without a rank ran at the same time and compiled no file in common: they may be of several "
            "jobs. Open the logs of each job by themselves to tell them apart."
        )
        shared.append(LogNote(NoteKind.OVERLAPPING_JOBS, message))
    if overlapping:
        message = (
            "Several processes have the same rank at the same time: which ranks belong together is not known."
        )
        shared.append(LogNote(NoteKind.OVERLAPPING_JOBS, message))
    return tuple(
        _job(name if len(groups) == 1 else f"{name} ({number})", group.processes, shared)
        for number, group in enumerate(groups, 1)
    )


def _has_strangers(processes: Sequence[ProcessLog]) -> bool:
    """Whether two processes without a rank ran at the same time, and compiled no file in common."""
    known = [(log, files) for log in processes if log.rank is None and (files := _compiled_files(log))]
    return any(
        first_files.isdisjoint(second_files) and _overlap(first, second)
        for (first, first_files), (second, second_files) in itertools.combinations(known[:_MAX_COMPARED], 2)
    )


def _compiled_files(process: ProcessLog) -> set[str]:
    return {compiled.location.path for compiled in process.compiles if compiled.location is not None}


def _overlap(first: ProcessLog, second: ProcessLog) -> bool:
    if first.started is None or second.started is None:
        return False
    early, late = sorted((first, second), key=lambda log: log.started or 0.0)
    return late.started is not None and early.ended is not None and late.started < early.ended


def _job(name: str, processes: Sequence[ProcessLog], shared: Sequence[LogNote]) -> LoggedJob:
    ranks: dict[int | None, list[ProcessLog]] = {}
    for process in processes:
        ranks.setdefault(process.rank, []).append(process)
    ordered = sorted(ranks, key=lambda rank: (rank is None, rank or 0))
    started = min((log.started for log in processes if log.started is not None), default=None)
    notes = [*shared, *_missing_ranks(ranks)]
    for process in processes:
        notes += _notes_of(process)
    return LoggedJob(name, started, {rank: tuple(ranks[rank]) for rank in ordered}, tuple(notes))


def _missing_ranks(ranks: Iterable[int | None]) -> Iterable[LogNote]:
    known = {rank for rank in ranks if rank is not None}
    if not known or max(known) > 1_000_000:  # noqa: PLR2004 - no job has a million ranks
        return
    missing = [rank for rank in range(max(known)) if rank not in known]
    if missing:
        named = ", ".join(map(str, missing[:_MAX_NAMED])) + (", ..." if len(missing) > _MAX_NAMED else "")
        subject = "rank" if len(missing) == 1 else "ranks"
        verb = "has" if len(missing) == 1 else "have"
        message = f"{len(missing):,} {subject} below {max(known)} {verb} no log: {named}."
        yield LogNote(NoteKind.MISSING_RANKS, message)


def _notes_of(process: ProcessLog) -> Iterable[LogNote]:
    if process.bad_records:
        offset, cause = process.bad_lines[0]
        records = "record" if process.bad_records == 1 else "records"
        message = f"{process.bad_records:,} {records} cannot be read; the first, at byte {offset:,}: {cause}."
        yield LogNote(NoteKind.BAD_RECORDS, message, process.file)
    if process.is_truncated:
        yield LogNote(NoteKind.TRUNCATED, "The log ends inside a record.", process.file)
    if process.not_kept:
        counts = ", ".join(f"{count:,} {name}" for name, count in process.not_kept.items())
        message = f"The job has more than is kept in memory; not kept: {counts}."
        yield LogNote(NoteKind.NOT_KEPT, message, process.file)
