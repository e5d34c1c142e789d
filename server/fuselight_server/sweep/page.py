"""The page of a sweep: one HTML file that needs no network, with search and sort.

Invariant: the script and the style of this package are all that its content policy allows, and no text of a row becomes
markup. Each chart has a table with the same data.
"""

from __future__ import annotations

import html
import itertools
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

from fuselight.shared.report.visible import visible
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_list,
    format_moment,
    format_ratio,
    format_size,
    format_spread,
    format_time,
)
from fuselight_server.explain.benchmarks.exports import html_document
from fuselight_server.sweep.rows import RowStatus, SweepJob
from fuselight_server.sweep.summary import EDGES, CauseCount, SpeedupGroup, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight_server.sweep.comparison import RowChange, SweepComparison
    from fuselight_server.sweep.rows import SweepAbout, SweepRow, TimedConfiguration
    from fuselight_server.sweep.summary import SweepSummary

_CAUSES = "The cause in the most models first"
_MOST_NAMES = 12
"""Models that are listed for a cause."""
_BAR_WIDTH, _BAR_HEIGHT = 80, 90
"""Of the histogram, pixels."""
STATUS_WORDS = {
    RowStatus.DONE: "done",
    RowStatus.FAILED: "failed",
    RowStatus.LOST: "lost: the worker died twice",
    RowStatus.ABSENT: "absent",
}


@dataclass(frozen=True)
class _Cell:
    """A cell of a table."""

    text: str
    sort: float | None = None
    """A number to sort by."""
    css: str = ""


@dataclass(frozen=True)
class _Line:
    """A line of a table."""

    cells: tuple[_Cell, ...]
    attributes: dict[str, str] = field(default_factory=dict)


def as_page(
    rows: Sequence[SweepRow],
    about: SweepAbout,
    comparison: SweepComparison | None = None,
    against: str = "",
) -> str:
    """The page of the rows, and of what changed since the sweep `against`."""
    folder = resources.files("fuselight_server.sweep")
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    summary = summarize(rows)
    sections = [
        _comparison(comparison, against) if comparison is not None else "",
        _speedups(summary),
        _causes("Breaks by cause", summary.breaks, "break", "No graph break was found."),
        _causes("Recompilations by cause", summary.recompilations, "recompilation", ""),
        _causes("Failures by cause", summary.failures, "failure", "Nothing failed."),
        _rows(rows),
    ]
    body = f"<header>{_header(rows, about, summary)}</header>\n<main>{''.join(sections)}</main>"
    return html_document(f"Sweep: {about.suite}", style, body, script)


def _text(value: object) -> str:
    return html.escape(visible(str(value)))


def _header(rows: Sequence[SweepRow], about: SweepAbout, summary: SweepSummary) -> str:
    counted = ", ".join(f"{count:,} {name}" for name, count in summary.statuses.items())
    facts = [
        format_moment(about.started),
        about.engine,
        *(f"torch {version}" for version in summary.torches),
        *dict.fromkeys(row.machine for row in rows if row.machine),
        f"Fuselight {about.fuselight}" if about.fuselight else "",
    ]
    parts = [
        f"<h1>Sweep: {_text(about.suite)}</h1>",
        f'<p class="headline">{_text(format_count(len(rows), "row"))}: {_text(counted)}</p>',
        f"<p>{_text(' · '.join(fact for fact in facts if fact))}</p>",
    ]
    if about.command:
        parts.append(f"<p>{_text(about.command)}</p>")
    if len(summary.torches) > 1:
        counts = [f"torch {name} in {format_count(count, 'row')}" for name, count in summary.torches.items()]
        text = f"Machines have different releases of torch ({format_list(counts)}): compare their rows with care."
        parts.append(f'<p class="doubt">{_text(text)}</p>')
    return "".join(parts)


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{''.join(parts)}</section>"


def _table(caption: str, columns: Sequence[str], lines: Iterable[_Line], *, table_id: str = "") -> str:
    heads = "".join(
        f'<th scope="col"><button type="button">{_text(name)}</button></th>'
        if table_id
        else f'<th scope="col">{_text(name)}</th>'
        for name in columns
    )
    body = "".join(_line(line) for line in lines)
    named = f' id="{table_id}"' if table_id else ""
    return (
        f'<div class="scroll" tabindex="0"><table{named}><caption>{_text(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _line(line: _Line) -> str:
    attributes = "".join(f' data-{name}="{_text(value)}"' for name, value in line.attributes.items())
    return f"<tr{attributes}>{''.join(map(_cell, line.cells))}</tr>"


def _cell(cell: _Cell) -> str:
    css = " ".join(filter(None, ["number" if cell.sort is not None else "", cell.css]))
    kind = f' class="{css}"' if css else ""
    value = f' data-sort="{cell.sort:.10g}"' if cell.sort is not None else ""
    return f"<td{kind}{value}>{_text(cell.text)}</td>"


def _number(value: float | None, text: str | None = None) -> _Cell:
    if value is None:
        return _Cell("")
    return _Cell(f"{value:,}" if text is None else text, float(value))


def _speedups(summary: SweepSummary) -> str:
    groups = [*summary.speedups, *([summary.gain] if summary.gain is not None else [])]
    if not groups:
        return ""
    lines = [
        _Line(
            (
                _Cell(group.name),
                _number(group.rows),
                _number(group.mean, format_ratio(group.mean)),
                _number(group.least, format_ratio(group.least)),
                _number(group.most, format_ratio(group.most)),
                *(_number(count) for count in group.counts),
            )
        )
        for group in groups
    ]
    columns = ["configuration", "rows", "geometric mean", "least", "most", *_bins()]
    caption = "Speed-up over eager of rows with right results, and rows by speed-up"
    return _section(
        "Speed-up",
        "<p>2.0× is twice as fast as eager. Configurations with wrong results are left out.</p>",
        *(_histogram(group) for group in groups),
        _table(caption, columns, lines),
    )


def _bins() -> list[str]:
    between = [f"{low:g}–{high:g}×" for low, high in itertools.pairwise(EDGES)]
    return [f"<{EDGES[0]:g}×", *between, f"≥{EDGES[-1]:g}×"]


def _histogram(group: SpeedupGroup) -> str:
    most = max(group.counts) or 1
    bars = []
    for index, (name, count) in enumerate(zip(_bins(), group.counts, strict=True)):
        height = round(_BAR_HEIGHT * count / most)
        left, middle = index * _BAR_WIDTH, index * _BAR_WIDTH + _BAR_WIDTH // 2
        top = 16 + _BAR_HEIGHT - height
        bars.append(
            f'<rect x="{left + 8}" y="{top}" width="{_BAR_WIDTH - 16}" height="{height}"></rect>'
            + (f'<text x="{middle}" y="{top - 4}">{count}</text>' if count else "")
            + f'<text x="{middle}" y="{_BAR_HEIGHT + 32}">{_text(name)}</text>'
        )
    width = _BAR_WIDTH * len(group.counts)
    line = f'<line x1="0" x2="{width}" y1="{_BAR_HEIGHT + 16}" y2="{_BAR_HEIGHT + 16}"></line>'
    label = f"{group.name}: {format_count(group.rows, 'row')} by speed-up, geometric mean {format_ratio(group.mean)}"
    return (
        f'<figure class="histogram"><figcaption>{_text(label)}</figcaption>'
        f'<svg role="img" aria-label="{_text(label)}" width="{width}" height="{_BAR_HEIGHT + 40}">'
        f"{line}{''.join(bars)}</svg></figure>"
    )


def _causes(title: str, causes: Sequence[CauseCount], noun: str, nothing: str) -> str:
    if not causes:
        return _section(title, f"<p>{_text(nothing)}</p>") if nothing else ""
    lines = []
    for cause in causes:
        more = len(cause.rows) - _MOST_NAMES
        names = ", ".join(cause.rows[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        lines.append(
            _Line((_Cell(cause.cause), _number(len(cause.rows)), _number(cause.count), _Cell(names)))
        )
    return _section(title, _table(_CAUSES, ["cause", "models", f"{noun}s", "in"], lines))


def _comparison(comparison: SweepComparison, against: str) -> str:
    worse = len(comparison.regressions)
    better = len(comparison.changes) - worse
    head = (
        f"{format_count(worse, 'regression')}, {format_count(better, 'improvement')} in "
        f"{format_count(comparison.compared, 'row')} that both sweeps have"
    )
    parts = [f'<p class="headline">{_text(head)}</p>']
    if comparison.changes:
        caption = "Regressions first; times count only where their spreads do not overlap"
        parts.append(_table(caption, *_filled(_CHANGES, map(_change, comparison.changes))))
    for title, ids in (
        ("Only in this sweep", comparison.added),
        ("Only in the earlier sweep", comparison.missing),
    ):
        if ids:
            more = f" and {len(ids) - _MOST_NAMES} more" if len(ids) > _MOST_NAMES else ""
            parts.append(f"<p>{_text(title)}: {_text(', '.join(ids[:_MOST_NAMES]))}{more}.</p>")
    return _section(f"Compared with {against}", *parts)


def _change(change: RowChange) -> _Line:
    by = change.detail if change.detail.endswith("%") else ""
    css = "failure" if change.direction.value == "regression" else ""
    cells = (
        change.id,
        change.direction.value,
        change.what,
        change.before,
        change.after,
        by,
        "" if by else change.detail,
    )
    return _Line(tuple(_Cell(text, css=css if text == change.direction.value else "") for text in cells))


_CHANGES = ("row", "change", "what", "before", "after", "by", "detail")
_COLUMNS = (
    "model", "group", "variant", "job", "device", "status", "graphs", "breaks", "recompilations", "operators",
    "kernels", "estimate", "eager", "compiled", "speed-up", "gain over default", "configuration", "first call",
    "memory", "results", "time", "torch", "machine", "remarks",
)  # fmt: skip


def _rows(rows: Sequence[SweepRow]) -> str:
    controls = (
        '<div class="bar"><label>Search <input id="search" type="search"></label>'
        f'<label>Job <select id="job">{_options(job.value for job in SweepJob)}</select></label>'
        f'<label>Status <select id="status">{_options(status.value for status in RowStatus)}</select></label>'
        '<span id="shown" role="status" class="muted"></span></div>'
    )
    caption = "One row for each model, job and device; press a heading to sort"
    return _section("Rows", controls, _table(caption, *_filled(_COLUMNS, map(_row, rows)), table_id="rows"))


def _filled(columns: Sequence[str], lines: Iterable[_Line]) -> tuple[list[str], list[_Line]]:
    """The columns in which at least one line has a text, and the lines with these alone."""
    lines = list(lines)
    filled = [index for index in range(len(columns)) if any(line.cells[index].text for line in lines)]
    kept = [_Line(tuple(line.cells[index] for index in filled), line.attributes) for line in lines]
    return [columns[index] for index in filled], kept


def _options(values: Iterable[str]) -> str:
    shown = "".join(f'<option value="{_text(text)}">{_text(text)}</option>' for text in values)
    return f'<option value="">all</option>{shown}'


def _row(row: SweepRow) -> _Line:
    eager = next(
        (configuration for configuration in row.configurations if configuration.name == "eager"), None
    )
    best = row.best or next(
        (configuration for configuration in row.configurations if configuration.name != "eager"), None
    )
    remarks = [*row.notes]
    if row.failure is not None:
        place = f" ({row.failure.place})" if row.failure.place else ""
        remarks.insert(0, f"{row.failure.message}{place}. {row.failure.next_step}".strip())
    remarks += [
        f"{configuration.name}: {configuration.failure.message}"
        for configuration in row.configurations
        if configuration.failure is not None
    ]
    bad = row.status is not RowStatus.DONE
    return _Line(
        (
            _Cell(row.name),
            _Cell(row.group),
            _Cell(row.variant),
            _Cell(row.job.value),
            _Cell(row.device or row.kernel_device),
            _Cell(STATUS_WORDS[row.status], css="failure" if bad else ""),
            _number(row.graphs),
            _number(row.breaks),
            _number(row.recompilations),
            _number(row.operators),
            _number(row.kernels),
            _number(row.kernel_us, format_estimate(row.kernel_us) if row.kernel_us is not None else None),
            _time(eager),
            _time(best),
            _ratio(best.speedup if best is not None else None),
            _ratio(row.gain),
            _Cell(best.name if best is not None else ""),
            _first(best),
            _memory(best),
            _Cell(_results(row.configurations)),
            _number(row.seconds or None, f"{row.seconds:,.1f} s"),
            _Cell(row.torch),
            _Cell(row.machine or row.node),
            _Cell("; ".join(remarks), css="failure" if bad else ""),
        ),
        {"job": row.job.value, "status": row.status.value},
    )


def _time(configuration: TimedConfiguration | None) -> _Cell:
    if configuration is None or configuration.us is None:
        return _Cell("")
    spread = (
        (configuration.high_us - configuration.low_us) / 2 / configuration.us
        if configuration.high_us and configuration.low_us and configuration.us
        else None
    )
    text = format_time(configuration.us) + (f" {format_spread(spread)}" if spread is not None else "")
    return _Cell(
        f"{text}, unsteady" if configuration.is_unsteady else text,
        configuration.us,
        "doubt" if configuration.is_unsteady else "",
    )


def _first(configuration: TimedConfiguration | None) -> _Cell:
    return (
        _number(configuration.first_us, format_time(configuration.first_us))
        if configuration and configuration.first_us
        else _Cell("")
    )


def _memory(configuration: TimedConfiguration | None) -> _Cell:
    return (
        _number(configuration.peak_bytes, format_size(configuration.peak_bytes))
        if configuration and configuration.peak_bytes
        else _Cell("")
    )


def _ratio(value: float | None) -> _Cell:
    return _number(value, format_ratio(value)) if value is not None else _Cell("")


def _results(configurations: Sequence[TimedConfiguration]) -> str:
    wrong = [configuration.name for configuration in configurations if configuration.is_accurate is False]
    if wrong:
        return f"WRONG in {', '.join(wrong)}"
    return "right" if any(configuration.is_accurate for configuration in configurations) else ""
