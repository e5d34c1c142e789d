"""One job whose logs were opened, as every face shows it.

Invariant: only the source folders of a job are read, and lines that its logs quote.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fuselight_server.base.formatting import format_count
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.jobs.reports.compile_steps import read_compile_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight.shared.report import CompileStep, Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.jobs.caches.model import CacheSummary, StartPicture
    from fuselight_server.jobs.memory.model import JobMemory
    from fuselight_server.jobs.ranks.model import RankTable
    from fuselight_server.jobs.reports.mapping import JobFiles, LineState
    from fuselight_server.jobs.trace_log.model import LoggedJob, ProcessLog


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

    memory: JobMemory | None = None
    """What its snapshots of the allocator show, on local lines; None without one."""

    @property
    def findings(self) -> list[Finding]:
        """The findings of all processes, each once, by place."""
        return self.outcome.findings

    @property
    def exit_code(self) -> int:
        """As after a check: 0 nothing at warning or above, 1 findings, 2 something could not be analyzed."""
        return self.outcome.exit_code

    @property
    def size(self) -> str:
        """`8 processes`, `2 snapshots` of a job without logs."""
        if not self.processes and self.memory is not None:
            return format_count(len(self.memory.processes), "snapshot")
        return format_count(len(self.processes), "process", "processes")

    def __repr__(self) -> str:
        """Short: asyncio forms the text of a result when it removes its handler of Ctrl-C, 300 MB for a log of 1 GB."""
        return f"OpenedJob({self.name!r}, {len(self.processes)} processes)"

    def state_of(self, finding: Finding) -> LineState:
        """How the line of a finding compares with the line that ran."""
        return self.files.state(finding.span.path, finding.span.line)


@dataclass
class JobSources(SourceFiles):
    """The lines of a job's files: local ones, and those that the logs quote of files that are not here."""

    of_jobs: tuple[JobFiles, ...] = ()

    def line(self, path: str, number: int) -> str | None:
        """Line `number` (1-based) of a file of the jobs; a file outside of the source folders is never read."""
        lines = (files.line(path, number) for files in self.of_jobs)
        return next((line for line in lines if line is not None), None)


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
