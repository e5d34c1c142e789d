"""An opened job against an earlier one: `fuselight open A --against B`.

Invariant: the exit code is that of a check with the earlier job's findings as its baseline.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.jobs.comparison.comparison import compare_jobs
from fuselight_server.jobs.comparison.model import FindingState, JobComparison
from fuselight_server.jobs.comparison.sides import ComparedSide, LoggedReport
from fuselight_server.jobs.trace_log.files import LogError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fuselight_server.commands.opened_job import OpenedJob


@dataclass(frozen=True)
class ComparedJobs:
    """Two jobs, and what differs."""

    job: OpenedJob
    base: OpenedJob
    """The earlier job."""
    comparison: JobComparison
    outcome: CheckOutcome
    """Of the new findings alone."""

    @property
    def exit_code(self) -> int:
        """0 without a new warning, 1 with one, 2 if the later job has a new failure outside of the user's code."""
        return self.outcome.exit_code


def compare_opened(job: OpenedJob, base: OpenedJob) -> ComparedJobs:
    """Compare a job with an earlier one. It reads the logs. Raises CommandError."""
    _check_logs(job, base)
    for opened in (job, base):
        if not any(process.log.compiles for process in opened.processes):
            raise CommandError(
                f"the logs of {opened.name} have no compile, so there is nothing to compare. "
                "Name logs of a job that called a compiled function."
            )
    try:
        comparison = compare_jobs(_side(job), _side(base))
    except LogError as error:
        raise CommandError(str(error)) from None
    new = [change.finding for change in comparison.findings_in(FindingState.NEW)]
    outcome = CheckOutcome(
        findings=new,
        reports=job.outcome.reports,
        sources=job.outcome.sources,
        known=len(job.findings) - len(new),
    )
    return ComparedJobs(job, base, comparison, outcome)


def only_job(jobs: Sequence[OpenedJob], paths: Sequence[Path]) -> OpenedJob:
    """The job in the named logs. Raises CommandError if there are several."""
    if len(jobs) > 1:
        names = ", ".join(f"`{job.name}`" for job in jobs)
        shown = ", ".join(f"`{path}`" for path in paths)
        raise CommandError(
            f"{shown} has the logs of {len(jobs):,} jobs: {names}. Name the logs of the job to compare."
        )
    return jobs[0]


def check_paths(paths: Sequence[Path], base: Sequence[Path]) -> None:
    """Raise CommandError if both jobs are named by the same path."""
    named = {os.path.realpath(path): path for path in paths}
    for path in base:
        if os.path.realpath(path) in named:
            raise CommandError(
                f"`{path}` is also the job to compare. Name the logs of another job after `--against`."
            )


def _check_logs(job: OpenedJob, base: OpenedJob) -> None:
    """Raise CommandError if a log belongs to both jobs: one folder can be inside the other."""
    logs = {os.path.realpath(process.log.file) for process in job.processes}
    for process in base.processes:
        if os.path.realpath(process.log.file) in logs:
            raise CommandError(
                f"the log `{process.log.file}` is in both jobs. Name the logs of another job after `--against`."
            )


def _side(opened: OpenedJob) -> ComparedSide:
    return ComparedSide(
        job=opened.job,
        processes=tuple(LoggedReport(process.log, process.report) for process in opened.processes),
        findings=tuple(opened.findings),
        files=opened.files,
    )
