"""The findings of an opened job: those of its processes, its ranks and its caches, each once, and its notes.

Invariant: a finding whose line is not known to be the line that ran says so. The findings of a partial result are those
of the compiles that were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fuselight.shared.report import Location, Report
from fuselight_server.base.finding import Finding, Span, by_place
from fuselight_server.base.formatting import format_count, format_first, format_list
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.commands.findings import compose_findings
from fuselight_server.commands.opened_job import JobSources, OpenedJob, OpenedProcess
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import Thresholds, findings, nothing_ran
from fuselight_server.explain.findings.common.text import sentence
from fuselight_server.jobs.caches.findings import cache_findings
from fuselight_server.jobs.caches.starts import start_pictures
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.memory.findings import CODES as MEMORY_CODES
from fuselight_server.jobs.memory.findings import memory_findings
from fuselight_server.jobs.memory.model import JobMemory
from fuselight_server.jobs.ranks.findings import rank_findings
from fuselight_server.jobs.ranks.log_end_findings import JobLogs, log_end_findings, log_end_notes
from fuselight_server.jobs.ranks.model import RankTable
from fuselight_server.jobs.reports.mapping import JobFiles, LineState, is_of_job
from fuselight_server.jobs.trace_log.log_ends import LogEnd
from fuselight_server.jobs.trace_log.model import LoggedJob
from fuselight_server.source.reading import Reading

_LISTED_FILES = 3


def compose_job(
    job: LoggedJob,
    processes: tuple[OpenedProcess, ...],
    files: JobFiles,
    thresholds: Thresholds,
    *,
    is_partial: bool,
    ranks: RankTable | None,
    earlier: LoggedJob | None,
    ends: Sequence[LogEnd],
    is_followed: bool,
    has_ended: bool,
    memory: JobMemory | None = None,
) -> OpenedJob:
    """The findings of a job's processes and of its ranks, and its notes.

    `earlier`: the start before it in the same logs, with whose cache keys its own are compared. `ends`: where the log
    of each process ends. `memory`: its snapshots, with local lines. `is_followed`: whether the logs were followed;
    `has_ended`: whether the job is known to have ended.
    """
    logs = JobLogs(job.name, _torch_version(processes), is_followed, has_ended, files.shown)
    open_ends = () if is_partial else tuple(ends)
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
        notes=(
            *_notes(job, files, outcome.reports),
            *_note_of_ranks(processes, ranks),
            *map(sentence, log_end_notes(open_ends)),
            *(memory.notes if memory is not None else ()),
        ),
        is_partial=is_partial,
        ranks=ranks,
        caches=None if is_partial else summarize(job, earlier, read_line=_line_reader(files)),
        starts=() if is_partial else start_pictures(job, read_line=_line_reader(files)),
        memory=memory,
    )
    per_process = [
        (process.label, findings(process.report, thresholds=thresholds, read_line=files.line))
        for process in processes
    ]
    of_job = [
        *log_end_findings(open_ends, logs),
        *_of_ranks(opened),
        *_of_caches(opened),
        *_of_memory(opened),
    ]
    ran = [_with_state(finding, files) for finding in [*_merge_processes(per_process), *of_job]]
    outcome.readings = _readings({finding.span.path for finding in ran}, files)
    # A trace need not reach every line, so no ignore comment counts as unused.
    kept = compose_findings(ran, (), outcome.readings, has_run=nothing_ran)
    outcome.findings = sorted(kept, key=by_place)
    return opened


def _of_ranks(opened: OpenedJob) -> list[Finding]:
    """Where the ranks of a job differ: known only when the logs of all ranks were read."""
    if opened.ranks is None or opened.is_partial:
        return []
    version = _torch_version(opened.processes)
    return rank_findings(opened.ranks, inputs=opened.name, torch=version, locate=opened.files.shown)


def _of_caches(opened: OpenedJob) -> list[Finding]:
    """What a cache missed or cannot keep, where the cause is known."""
    if opened.caches is None:
        return []
    version = _torch_version(opened.processes)
    return cache_findings(opened.caches, inputs=opened.name, torch=version, locate=opened.files.shown)


def _of_memory(opened: OpenedJob) -> list[Finding]:
    """What its snapshots show."""
    if opened.memory is None:
        return []
    return memory_findings(opened.memory, inputs=opened.name, torch=_torch_version(opened.processes))


def _torch_version(processes: Iterable[OpenedProcess]) -> str:
    return next((process.log.torch_version for process in processes if process.log.torch_version), "")


def _line_reader(files: JobFiles) -> Callable[[str, int], str | None]:
    """Reads a line of a file by its path in the job."""

    def read_line(path: str, number: int) -> str | None:
        here = files.location(Location(path, number))
        return files.line(here.path, here.line)

    return read_line


def _merge_processes(per_process: list[tuple[str, tuple[Finding, ...]]]) -> list[Finding]:
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
                    finding, f"In {_format_labels(labels[key])} of {len(per_process):,} processes."
                )
            )
        else:
            out.append(finding)
    return out


def _format_labels(labels: Mapping[str, None]) -> str:
    """`rank 0, rank 3 and 5 more`."""
    names = list(labels)
    if len(names) <= _LISTED_FILES + 1:
        return format_list(names)
    return format_first(names, _LISTED_FILES)


def _with_state(finding: Finding, files: JobFiles) -> Finding:
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
        record = "snapshot" if finding.code in MEMORY_CODES else "trace"
        return _with_paragraph(
            finding, f"The {record} does not quote this line: whether it has changed since is unknown."
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
        names = format_first([f"`{path}`" for path in absent], _LISTED_FILES)
        files_word = format_count(len(absent), "file")
        yield (
            f"The source of {files_word} of the job is not here: {names}. "
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
