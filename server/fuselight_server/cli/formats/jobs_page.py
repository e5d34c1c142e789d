"""`fuselight open --format html`: one file that needs no network, with the findings, the compile time and the kernels.

Invariant: the look, search and sort are those of the page of a sweep; no text of a log becomes markup.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Severity
from fuselight_server.base.formatting import format_count, format_estimate, format_time
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.cli.formats.jobs import heading
from fuselight_server.commands.opened_job import outcome_of
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.benchmarks.exports import html_document
from fuselight_server.explain.benchmarks.html_parts import (
    ROWS,
    TableCell,
    TableLine,
    filled_columns,
    html_section,
    html_table,
    html_text,
    number_cell,
    search_bar,
)
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.explain.kernels.shares import places_of
from fuselight_server.jobs.caches.findings import cure_text
from fuselight_server.jobs.caches.starts import shown_lines
from fuselight_server.jobs.caches.words import CACHE_NAMES, STAGE_NAMES, STATE_NAMES, sentence, work_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.shared.report import CompileStep, Location
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.opened_job import OpenedJob, OpenedProcess
    from fuselight_server.jobs.caches.model import CacheResult

_MOST_LOOKUPS = 2_000
"""Lookups in caches that are listed."""
_MOST_LINES = 200
"""Lines of a start that are listed."""
_CHARTS = 4
"""Processes whose flame chart is drawn."""
_WIDTH, _ROW = 1160, 18
"""Of a flame chart, and the height of one of its rows, pixels."""
_MOST_STEPS = 3_000
"""Steps of a chart that are drawn, the longest ones."""
_LEAST_WIDTH = 0.5
_CHARACTER = 6.5
"""Width of a character in a chart, pixels."""
_STYLE = """
.flame svg { display: block; }
.flame rect { fill: var(--chart); fill-opacity: 0.25; stroke: var(--background); }
.flame rect:hover { fill-opacity: 0.5; }
.flame text { fill: var(--text); font-size: 11px; pointer-events: none; }
details { margin: 4px 0; }
pre { margin: 4px 0 8px 18px; white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def jobs_as_page(jobs: Sequence[OpenedJob]) -> str:
    """The page of opened jobs."""
    folder = resources.files("fuselight_server.sweep")
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    sections = [
        _findings(jobs),
        *(_details(job) for job in jobs),
        *(_compiles(job) for job in jobs),
        *(_caches(job) for job in jobs),
        *(_start(job) for job in jobs),
        *(_charts(job) for job in jobs),
        *(_kernels(job) for job in jobs),
        _processes(jobs),
        _notes(jobs),
    ]
    names = ", ".join(job.name for job in jobs)
    body = f"<header>{_header(jobs)}</header>\n<main>{''.join(sections)}</main>"
    return html_document(f"Job: {names}", style + _STYLE, body, script)


def _header(jobs: Sequence[OpenedJob]) -> str:
    outcome = outcome_of(jobs)
    count = format_count(len(outcome.findings), "finding")
    heads = "".join(f"<p>{html_text(heading(job))}</p>" for job in jobs)
    return f'<h1>torch.compile in a job</h1><p class="headline">{html_text(count)}</p>{heads}'


def _findings(jobs: Sequence[OpenedJob]) -> str:
    lines = [
        TableLine(
            (
                TableCell(job.name if len(jobs) > 1 else ""),
                TableCell(
                    severity_word(finding), css="failure" if finding.severity >= Severity.WARNING else ""
                ),
                TableCell(finding.code),
                TableCell(_place(finding)),
                TableCell(finding.title),
                TableCell("; ".join(finding.cost)),
                TableCell(job.state_of(finding).value),
            ),
            {"job": job.name, "status": severity_word(finding)},
        )
        for job in jobs
        for finding in job.findings
    ]
    if not lines:
        return html_section("Findings", "<p>No findings.</p>")
    names = ("job", "severity", "code", "line", "finding", "cost", "source here")
    columns, filled = filled_columns(names, lines)
    words = (severity.name.lower() for severity in sorted(Severity, reverse=True))
    bar = search_bar("Job", (job.name for job in jobs), "Severity", words)
    caption = "One row for each finding; press a heading to sort"
    return html_section("Findings", bar, html_table(caption, columns, filled, table_id=ROWS))


def _place(finding: Finding) -> str:
    return f"{shown_path(finding.span.path)}:{finding.span.line}"


def _details(job: OpenedJob) -> str:
    if not job.findings:
        return ""
    parts = []
    for finding in job.findings:
        source = job.outcome.sources.line(finding.span.path, finding.span.line)
        text = f"{source.strip()}\n\n{finding.message}" if source else finding.message
        summary = f"{finding.code} {_place(finding)}: {finding.title}"
        parts.append(
            f"<details><summary>{html_text(summary)}</summary><pre>{html_text(text)}</pre></details>"
        )
    return html_section(f"Details of {job.name}", *parts)


@dataclass
class _CompiledLine:
    """The compiles of the functions that start on a line."""

    function: str
    compiles: int = 0
    seconds: float = 0.0
    operators: int = 0


def _compiles(job: OpenedJob) -> str:
    compiled_lines: dict[tuple[str, int, int | None], _CompiledLine] = {}
    for process in job.processes:
        for compiled in process.report.compiles:
            frame = process.report.frames[compiled.frame]
            key = (frame.location.path, frame.location.line, frame.resumes_at)
            row = compiled_lines.setdefault(key, _CompiledLine(frame.function))
            row.compiles += 1
            row.seconds += compiled.seconds or 0.0
            row.operators = max(row.operators, compiled.graph.operators if compiled.graph is not None else 0)
    rows = sorted(compiled_lines.items(), key=lambda item: -item[1].seconds)
    lines = [
        TableLine(
            (
                TableCell(f"{shown_path(path)}:{line if resumed is None else resumed}"),
                TableCell(row.function if resumed is None else f"{row.function}, after a graph break"),
                number_cell(row.compiles),
                number_cell(row.seconds, f"{row.seconds:,.1f} s"),
                number_cell(row.operators),
            )
        )
        for (path, line, resumed), row in rows
    ]
    if not lines:
        return ""
    columns = ("line", "function", "compiles", "compile time", "operators")
    caption = "Functions by compile time, in all processes together"
    return html_section(f"Compile time of {job.name}", html_table(caption, columns, lines))


def _caches(job: OpenedJob) -> str:
    """What each compile got from each cache: misses and bypasses first, the most expensive of them before others."""
    if job.caches is None or not job.caches.results:
        return ""
    hits = tuple(row for row in job.caches.results if not row.is_lost)
    lines = [_cache_line(job, row) for row in (*job.caches.lost, *hits)[:_MOST_LOOKUPS]]
    names = ("line", "function", "cache", "result", "rank", "lost", "saved", "cause", "to do")
    columns, filled = filled_columns(names, lines)
    notes = [f"<p>{html_text(note)}</p>" for note in job.caches.notes]
    left = len(job.caches.results) - len(lines)
    notes += [f"<p>{left:,} more lookups are not listed.</p>"] if left > 0 else []
    caption = "One row for each lookup; seconds are estimates"
    return html_section(f"Caches of {job.name}", html_table(caption, columns, filled), *notes)


def _cache_line(job: OpenedJob, row: CacheResult) -> TableLine:
    cause = row.causes[0] if row.causes else None
    where = (cause.location if cause is not None else None) or row.location
    name = f"{CACHE_NAMES[row.cache]}{' (remote)' if row.is_remote else ''}"
    return TableLine(
        (
            TableCell(_line(job.files.location(where)) if where is not None else ""),
            TableCell(row.function or ""),
            TableCell(name),
            TableCell(STATE_NAMES[row.state], css="failure" if row.is_lost else ""),
            TableCell("" if row.rank is None else str(row.rank)),
            _seconds_cell(row.lost_seconds),
            _seconds_cell(row.saved_seconds),
            TableCell(sentence(cause.text) if cause is not None else ""),
            TableCell(cure_text(cause) if cause is not None else ""),
        )
    )


def _seconds_cell(seconds: float | None) -> TableCell:
    return number_cell(seconds, format_estimate(seconds * 1e6)) if seconds else TableCell("")


def _start(job: OpenedJob) -> str:
    """The start of the process that compiled for longest: its stages, then its lines."""
    start = max(job.starts, key=lambda picture: picture.compile_seconds, default=None)
    if start is None or not start.seconds:
        return ""
    labels = {process.log.file: process.label for process in job.processes}
    stages = [
        TableLine((TableCell(STAGE_NAMES[part.stage]), _exact_cell(part.seconds))) for part in start.stages
    ]
    rows = shown_lines(start)
    lines = [
        TableLine(
            (
                TableCell(_line(job.files.location(row.location)) if row.location is not None else ""),
                TableCell(work_text(row) or "outside of compiles"),
                number_cell(row.compiles) if row.compiles else TableCell(""),
                _exact_cell(row.seconds),
                _exact_cell(row.with_nested or row.seconds),
                _seconds_cell(row.saved_by_second_start),
            )
        )
        for row in rows[:_MOST_LINES]
    ]
    left = len(rows) - len(lines)
    notes = [f"<p>{html_text(note)}</p>" for note in start.notes]
    notes += [f"<p>{left:,} more lines are not listed.</p>"] if left > 0 else []
    names = ("line", "what it does", "compiles", "time", "with what it imports", "a second start saves")
    columns, filled = filled_columns(names, lines)
    return html_section(
        f"Start of {job.name}, {labels.get(start.file, start.file)}",
        html_table("Stages, each second once", ("stage", "time"), stages),
        html_table("Lines that import, and functions by compile time", columns, filled),
        *notes,
    )


def _exact_cell(seconds: float) -> TableCell:
    return number_cell(seconds, format_time(seconds * 1e6))


def _charts(job: OpenedJob) -> str:
    charts = [_chart(process) for process in job.processes[:_CHARTS] if process.compile_steps]
    if not charts:
        return ""
    left = len(job.processes) - _CHARTS
    more = f"<p>{left:,} more processes are not drawn.</p>" if left > 0 else ""
    return html_section(f"Flame chart of compile time of {job.name}", *charts, more)


def _chart(process: OpenedProcess) -> str:
    steps = process.compile_steps
    total = max(step.start_us + step.us for step in steps) or 1.0
    scale = _WIDTH / total
    drawn = [step for step in steps if step.us * scale >= _LEAST_WIDTH]
    drawn = sorted(drawn, key=lambda step: -step.us)[:_MOST_STEPS]
    height = _ROW * (max((step.depth for step in drawn), default=0) + 1)
    label = f"{process.label}: {format_time(total)} from the first phase to the last"
    return (
        f'<figure class="flame"><figcaption>{html_text(label)}</figcaption>'
        f'<svg role="img" aria-label="{html_text(label)}" width="{_WIDTH}" height="{height}">'
        f"{''.join(_step(step, scale) for step in drawn)}</svg></figure>"
    )


def _step(step: CompileStep, scale: float) -> str:
    left, top, width = step.start_us * scale, step.depth * _ROW, step.us * scale
    where = f", {_line(step.location)}" if step.location is not None else ""
    title = f"{step.name}: {format_time(step.us)}{where}"
    box = (
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 1}">'
        f"<title>{html_text(title)}</title></rect>"
    )
    fitting = int((width - 6) / _CHARACTER)
    if fitting < len(step.name[:4]):
        return box
    return f'{box}<text x="{left + 3:.1f}" y="{top + _ROW - 6}">{html_text(step.name[:fitting])}</text>'


def _line(location: Location) -> str:
    return f"{shown_path(location.path)}:{location.line}"


def _kernels(job: OpenedJob) -> str:
    """Each kernel once, with the lines that it computes and how often all processes launch it."""
    launches: Counter[tuple[str, str, str, str]] = Counter()
    for process in job.processes:
        roots = process.report.roots
        for graph in process.report.generated:
            for kernel in graph.kernels:
                places = ", ".join(f"{shown_path(at.path)}:{at.line}" for at in places_of(kernel, roots))
                launches[kernel.name, kernel.kind.value, graph.phase.value, places] += 1
    lines = [
        TableLine((*(TableCell(text) for text in texts), number_cell(count)))
        for texts, count in launches.most_common()
    ]
    if not lines:
        return ""
    columns = ("kernel", "kind", "phase", "lines", "launches in the generated code")
    caption = "Generated kernels and library calls; a trace has no times of kernels"
    return html_section(f"Kernels of {job.name}", html_table(caption, columns, lines))


def _processes(jobs: Sequence[OpenedJob]) -> str:
    lines = [
        TableLine(
            (
                TableCell(job.name),
                TableCell(process.label),
                TableCell(str(counts(process.report))),
                number_cell(
                    process.report.phases.get("compile", 0.0),
                    f"{process.report.phases.get('compile', 0.0):,.1f} s",
                ),
                TableCell(process.log.torch_version or ""),
                TableCell(process.log.file),
            )
        )
        for job in jobs
        for process in job.processes
    ]
    columns = ("job", "process", "result", "compile time", "torch", "log")
    return html_section("Processes", html_table("One row for each process", columns, lines))


def _notes(jobs: Sequence[OpenedJob]) -> str:
    return html_section("Notes", *_paragraphs(jobs))


def _paragraphs(jobs: Sequence[OpenedJob]) -> Iterator[str]:
    for job in jobs:
        for note in job.notes:
            yield f"<p>{html_text(note)}</p>"
