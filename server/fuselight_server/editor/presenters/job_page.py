"""The page of a job: what its logs show, as data of `job_page_types.py`.

Invariant: a page of 1,024 ranks stays small: lists are cut, and say by how much. Lines are where they are now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.finding import Finding, Severity, rank
from fuselight_server.base.formatting import format_count, format_list
from fuselight_server.commands.comparison import compare_opened
from fuselight_server.commands.opened_job import OpenedJob, OpenedProcess
from fuselight_server.editor.presenters.job_changes import changes_section
from fuselight_server.editor.presenters.job_page_types import JobChanges, JobChoice, JobFindingRow, JobPage
from fuselight_server.editor.presenters.job_sections import (
    JobView,
    cache_section,
    difference_rows,
    rank_section,
    start_section,
    timeline_section,
    wait_rows,
)
from fuselight_server.editor.results.jobs import JobResult
from fuselight_server.explain.benchmarks.page_types import MachineFact, StepRow
from fuselight_server.jobs.caches.model import CacheSummary
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.comparison.model import JobComparison
from fuselight_server.jobs.memory.words import memory_statements
from fuselight_server.jobs.reports.mapping import LineState
from fuselight_server.jobs.trace_log.files import LogError

MAX_FINDINGS = 200
MAX_DIFFERENCES = 50
MAX_STEPS = 2_000
_TERMINAL_ADVICE = " Name its folder with `--source"
"""What only a user of the terminal can do; the editor asks for the folder."""
_STATES = {
    LineState.CURRENT: "",
    LineState.CHANGED: "of the job's source: this line has changed since",
    LineState.UNKNOWN: "",
    LineState.ABSENT: "not in the source folders",
}


@dataclass(frozen=True)
class ComparedLogs:
    """What the logs of two jobs show together."""

    caches: CacheSummary | None
    comparison: JobComparison | None
    problem: str
    """Why there is no comparison."""


def _compared_logs(job: JobResult, against: JobResult) -> ComparedLogs:
    """A job against another one: the logs are read once."""
    earlier, compared = job.compared.get(against.id, (None, None))
    if earlier is not against.opened or compared is None:
        compared = _compare(job.opened, against.opened)
        job.compared[against.id] = against.opened, compared
    assert isinstance(compared, ComparedLogs)  # noqa: S101 - only this function adds some
    return compared


def _compare(opened: OpenedJob, earlier: OpenedJob) -> ComparedLogs:
    try:
        caches: CacheSummary | None = summarize(opened.job, earlier.job)
    except LogError:
        caches = opened.caches
    try:
        return ComparedLogs(caches, compare_opened(opened, earlier).comparison, "")
    except CommandError as error:
        return ComparedLogs(caches, None, str(error))


def _changes(compared: ComparedLogs, against: JobResult, view: JobView) -> JobChanges:
    if compared.comparison is None:
        return JobChanges(against.opened.name, (compared.problem,), (), 0, ())
    return changes_section(compared.comparison, view)


def page_of(
    job: JobResult, against: JobResult | None, others: Sequence[JobResult], shown: Callable[[str], str]
) -> JobPage:
    """Make the page of an open job. `shown` returns a path as the page shows it."""
    opened = job.opened
    view = JobView(job, shown)
    compared = _compared_logs(job, against) if against is not None else None
    table, caches = opened.ranks, opened.caches if compared is None else compared.caches
    listed = sorted(opened.findings, key=rank)
    slowest = _slowest(opened)
    differences = table.differences if table is not None else ()
    return JobPage(
        job=job.id,
        source=job.source,
        found=True,
        running=opened.is_partial,
        stale=False,
        message="Reading the logs" if opened.is_partial else "",
        title=opened.name,
        when=job.when,
        statements=tuple(_statements(opened)),
        facts=tuple(_facts(opened)),
        notes=tuple(note.partition(_TERMINAL_ADVICE)[0] for note in opened.notes),
        findings=tuple(_finding_row(finding, opened, view) for finding in listed[:MAX_FINDINGS]),
        more_findings=max(len(listed) - MAX_FINDINGS, 0),
        ranks=rank_section(table, view) if table is not None else None,
        differences=difference_rows(differences[:MAX_DIFFERENCES], view),
        more_differences=max(len(differences) - MAX_DIFFERENCES, 0),
        waits=wait_rows(table, view) if table is not None else (),
        timeline=timeline_section(table.timeline)
        if table is not None and table.timeline is not None
        else None,
        caches=cache_section(caches, opened, view) if caches is not None else None,
        start=start_section(opened.starts, opened, view),
        steps=tuple(_steps(slowest, view)) if slowest is not None else (),
        steps_of=slowest.label if slowest is not None else "",
        others=tuple(JobChoice(other.id, other.label.removeprefix("job ")) for other in others),
        against=against.id if against is not None else "",
        comparison=_changes(compared, against, view)
        if compared is not None and against is not None
        else None,
    )


def closed_page(job: str) -> JobPage:
    """Make the page of a job that is not open, as after a restart of the server."""
    source = job.rpartition("#")[0]
    name = source.rstrip("/").rpartition("/")[2]
    return JobPage(
        job=job,
        source=source,
        found=False,
        running=False,
        stale=False,
        message="This job is closed. Open its logs again to see it.",
        title=name,
        when="",
        statements=(),
        facts=(),
        notes=(),
        findings=(),
        more_findings=0,
        ranks=None,
        differences=(),
        more_differences=0,
        waits=(),
        timeline=None,
        caches=None,
        start=None,
        steps=(),
        steps_of="",
        others=(),
        against="",
        comparison=None,
    )


def _statements(opened: OpenedJob) -> Iterator[str]:
    """Yield the summary, the most important first."""
    severities = Counter(finding.severity for finding in opened.findings)
    worst = [
        format_count(severities[severity], severity.name.lower())
        for severity in (Severity.ERROR, Severity.WARNING)
        if severities[severity]
    ]
    findings = format_count(len(opened.findings), "finding")
    yield f"{findings} in {opened.size}{f' ({format_list(worst)})' if worst else ''}"
    yield from memory_statements(opened.memory)
    if not opened.processes:
        return
    compiles = [compiled for process in opened.processes for compiled in process.log.compiles]
    again = sum(compiled.recompile_reasons is not None for compiled in compiles)
    breaks = sum(len({item.location for item in compiled.breaks}) for compiled in compiles)
    yield (
        f"{format_count(len(compiles), 'compile')}, {format_count(again, 'recompilation')}, "
        f"{format_count(breaks, 'graph break')}"
    )


def _facts(opened: OpenedJob) -> Iterator[MachineFact]:
    """Yield what the logs record of the job."""
    yield MachineFact("logs", format_count(len({process.log.file for process in opened.processes}), "file"))
    environment: dict[str, dict[str, None]] = {}
    for process in opened.processes:
        for name, value in process.log.environment.items():
            environment.setdefault(name, {})[value] = None
    for name, values in sorted(environment.items()):
        yield MachineFact(name, next(iter(values)) if len(values) == 1 else "differs between processes")


def _finding_row(finding: Finding, opened: OpenedJob, view: JobView) -> JobFindingRow:
    return JobFindingRow(
        severity=finding.severity.name.lower(),
        code=finding.code,
        title=finding.title,
        details=finding.message,
        at=view.line(finding.span.path, finding.span.line),
        state=_STATES[opened.state_of(finding)],
    )


def _slowest(opened: OpenedJob) -> OpenedProcess | None:
    """The process that compiled for longest."""
    timed = [process for process in opened.processes if process.compile_steps]
    return max(
        timed,
        key=lambda process: sum(step.us for step in process.compile_steps if step.depth == 0),
        default=None,
    )


def _steps(process: OpenedProcess, view: JobView) -> Iterator[StepRow]:
    """Yield the phases of a process, the outermost if there are too many."""
    steps = sorted(process.compile_steps, key=lambda step: (step.depth, -step.us))[:MAX_STEPS]
    for step in sorted(steps, key=lambda step: step.start_us):
        at = step.location
        yield StepRow(
            name=step.name,
            start_us=step.start_us,
            us=step.us,
            depth=step.depth,
            place=view.line(at.path, at.line).place if at is not None else None,
            compile_id=step.compile_id,
            sampled=step.sampled,
        )
