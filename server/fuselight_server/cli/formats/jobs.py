"""Opened jobs in the terminal and as JSON: the findings as `check` has them, and what they were read from.

Invariant: the text has the findings that JSON has, under their job. One that was printed while a job was followed is
printed again only if it has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fuselight.shared.codec import encode
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.cli.formats.findings import print_blocks, target_line, totals
from fuselight_server.cli.formats.fix_first import print_first
from fuselight_server.cli.formats.jobs_caches import print_caches, print_start, start_data, summary_data
from fuselight_server.cli.formats.jobs_memory import memory_data, print_memory
from fuselight_server.cli.formats.json import as_data
from fuselight_server.cli.formats.ranks import print_ranks
from fuselight_server.commands.opened_job import OpenedJob, OpenedProcess, outcome_of
from fuselight_server.commands.sources import shown_path
from fuselight_server.jobs.trace_log.log_ends import log_end

_MAX_PROCESSES = 8
"""Processes that are listed in text: a job may have a thousand."""


class _PrintedJob:
    """What was printed of a job. While it is followed, its name, its number and its first process can change."""

    def __init__(self) -> None:
        self.processes: set[tuple[str, int | None]] = set()
        self.findings: dict[tuple[object, ...], Finding] = {}


class FindingStream:
    """Prints the findings of jobs, each once for each job, and again at the end if it has changed since."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._jobs: list[_PrintedJob] = []
        self._heading: tuple[_PrintedJob, str] | None = None
        """The last heading: the job and its name."""

    def __call__(self, jobs: Sequence[OpenedJob]) -> None:
        """Print the findings of jobs that were not printed yet."""
        for job in jobs:
            printed = self._printed(job)
            new = [finding for finding in job.findings if _identity(finding) not in printed.findings]
            self._print(job, new)
        self._terminal.flush()

    def has_printed(self, job: OpenedJob) -> bool:
        """Whether findings of the job were printed."""
        return bool(self._printed(job).findings)

    def print_changes(self, job: OpenedJob) -> None:
        """Print the findings that differ from what was printed of them, and those that turned out otherwise."""
        printed = self._printed(job)
        last = {_identity(finding): finding for finding in job.findings}
        changed = [
            finding
            for key, finding in last.items()
            if key in printed.findings and not _is_same(finding, printed.findings[key])
        ]
        gone = [finding for key, finding in printed.findings.items() if key not in last]
        if changed or gone:
            self.print_heading(job)
        for finding in gone:
            place = f"{shown_path(finding.span.path)}:{finding.span.line}"
            self._terminal.print(
                f"no longer: {severity_word(finding)}[{finding.code}] {place}: {finding.title}"
            )
            del printed.findings[_identity(finding)]
        if changed:
            self._terminal.print("Changed since they were printed:", "\n")
            self._print(job, changed)

    def print_heading(self, job: OpenedJob) -> None:
        """Print which job the next lines are of, unless the last heading says so."""
        current = self._printed(job), job.name
        if current != self._heading:
            self._heading = current
            self._terminal.print((heading(job), "bold"), "\n")

    def _print(self, job: OpenedJob, findings: Sequence[Finding]) -> None:
        if findings:
            self.print_heading(job)
            print_blocks(findings, job.outcome.sources, self._terminal)
            self._printed(job).findings.update((_identity(finding), finding) for finding in findings)

    def _printed(self, job: OpenedJob) -> _PrintedJob:
        """What was printed of a job: of one that has a process in common. Jobs can turn out to be one."""
        processes = {(process.log.file, process.log.process) for process in job.processes} or {
            (job.name, None)
        }
        same = [printed for printed in self._jobs if printed.processes & processes]
        kept = same[0] if same else _PrintedJob()
        for other in same[1:]:
            kept.findings |= other.findings
        self._jobs = [*(printed for printed in self._jobs if printed not in same), kept]
        kept.processes |= processes
        return kept


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.span, finding.code, finding.title


def _is_same(finding: Finding, printed: Finding) -> bool:
    """Whether a finding is shown as it was; the name of its job is part of it, and can change."""
    return replace(finding, inputs="") == replace(printed, inputs="")


def heading(job: OpenedJob) -> str:
    """`Job today, started 2026-11-27 20:46, 4 processes, torch 2.13.0`."""
    versions = sorted({process.log.torch_version for process in job.processes if process.log.torch_version})
    parts = [
        f"Job {job.name}",
        f"started {_moment(job.started)}" if job.started is not None else "",
        ""
        if job.is_partial or not job.processes
        else format_count(len(job.processes), "process", "processes"),
        format_count(len(job.memory.processes), "snapshot") if job.memory is not None else "",
        f"torch {format_list(versions)}" if versions else "",
    ]
    return ", ".join(part for part in parts if part)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=timezone.utc).astimezone():%Y-%m-%d %H:%M}"


def print_jobs(jobs: Sequence[OpenedJob], stream: FindingStream, terminal: Terminal) -> None:
    """Print the findings that were not printed before, then the summary of each job."""
    for job in jobs:
        if stream.has_printed(job):
            stream.print_changes(job)
            stream((job,))
            stream.print_heading(job)
            print_first(job.outcome, terminal)
        else:
            stream.print_heading(job)
            print_first(job.outcome, terminal)
            stream((job,))
        for line in _summary(job):
            terminal.print((line, "dim"))
        print_ranks(job.ranks, terminal)
        if job.caches is not None and job.caches.results:
            terminal.print("caches:")
            print_caches(job.caches, terminal, locate=job.files.location)
        if job.starts:
            slowest = max(job.starts, key=lambda picture: picture.compile_seconds)
            labels = {process.log.file: process.label for process in job.processes}
            label = labels.get(slowest.file, Path(slowest.file).name)
            terminal.print("start:" if len(job.starts) == 1 else f"slowest start ({label}):")
            print_start(slowest, terminal, locate=job.files.location)
        print_memory(job.memory, terminal, job.files.line)
        for note in job.notes:
            terminal.print((f"note: {note}", "dim"))
        if not job.findings:
            terminal.print(("No findings.", "bold green"))
    if any(job.findings for job in jobs):
        terminal.print((totals(outcome_of(jobs)), "bold"))


def _summary(job: OpenedJob) -> Iterator[str]:
    for process in job.processes[:_MAX_PROCESSES]:
        label = f"{process.label}: " if len(job.processes) > 1 else ""
        yield f"{label}{target_line(process.report)}{_unfinished(process)}"
    if len(job.processes) > _MAX_PROCESSES:
        yield f"and {len(job.processes) - _MAX_PROCESSES:,} more processes"


def _unfinished(process: OpenedProcess) -> str:
    """That the numbers are those of a log that ends inside a compile."""
    compiled = log_end(process.log).compile
    if compiled is None:
        return ""
    name = f" of {compiled.function}" if compiled.function else ""
    return f", and a compile{name} that had not ended when the log ended"


def jobs_as_json(jobs: Sequence[OpenedJob]) -> str:
    """The object that `check` prints, with `jobs`: what each was read from, and what its lines are compared with."""
    data = as_data(outcome_of(jobs))
    return json.dumps({**data, "jobs": [_job(job) for job in jobs]}, indent=2)


def _job(job: OpenedJob) -> dict[str, Any]:
    return {
        "name": job.name,
        "started": job.started,
        "processes": [_process(process) for process in job.processes],
        "files": [
            {"path": path, "local": job.files.local.get(path)}
            for path in job.files.evidence
            if path in job.files.local
        ],
        "lines": [
            {"path": finding.span.path, "line": finding.span.line, "source": job.state_of(finding).value}
            for finding in job.findings
        ],
        "notes": list(job.notes),
        "ranks": None if job.ranks is None else encode(job.ranks),
        "caches": summary_data(job.caches),
        "starts": [start_data(picture) for picture in job.starts],
        "memory": memory_data(job.memory),
    }


def _process(process: OpenedProcess) -> dict[str, Any]:
    return {
        "log": process.log.file,
        "rank": process.log.rank,
        "process": process.log.process,
        "torch": process.log.torch_version,
        "is_complete": process.log.is_complete,
        "is_truncated": process.log.is_truncated,
        "compiles": len(process.report.compiles),
        "seconds": process.report.phases.get("compile", 0.0),
    }
