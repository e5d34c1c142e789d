"""The page of a sweep: one HTML file that needs no network, with search and sort.

Invariant: no text of a row becomes markup, and each chart has a table with the same data.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_first,
    format_list,
    format_moment,
    format_ratio,
    format_size,
    format_spread,
    format_time,
)
from fuselight_server.explain.pages.document import static_page
from fuselight_server.explain.pages.parts import (
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
from fuselight_server.sweep.comparison import RowChange, SweepComparison
from fuselight_server.sweep.rows import RowStatus, SweepAbout, SweepJob, SweepRow, TimedConfiguration
from fuselight_server.sweep.summary import EDGES, CauseCount, SpeedupGroup, SweepSummary, summarize

_CAUSES = "The cause in the most models first"
_MAX_NAMES = 12
"""Models that are listed for a cause."""
_BAR_WIDTH, _BAR_HEIGHT = 80, 90
"""Of the histogram, pixels."""
STATUS_WORDS = {
    RowStatus.DONE: "done",
    RowStatus.FAILED: "failed",
    RowStatus.LOST: "lost: the worker died twice",
    RowStatus.ABSENT: "absent",
}


def as_page(
    rows: Sequence[SweepRow],
    about: SweepAbout,
    comparison: SweepComparison | None = None,
    against: str = "",
) -> str:
    """The page of the rows, and of what changed since the sweep `against`."""
    summary = summarize(rows)
    sections = [
        _comparison(comparison, against) if comparison is not None else "",
        _speedups(summary),
        _causes("Breaks by cause", summary.breaks, "break", "No graph break was found."),
        _causes("Recompilations by cause", summary.recompilations, "recompilation", ""),
        _causes("Failures by cause", summary.failures, "failure", "Nothing failed."),
        _rows(rows),
    ]
    counted = ", ".join(f"{count:,} {name}" for name, count in summary.statuses.items())
    headline = f"{format_count(len(rows), 'row')}: {counted}"
    return static_page(f"Sweep: {about.suite}", headline, _facts(rows, about, summary), sections)


def _facts(rows: Sequence[SweepRow], about: SweepAbout, summary: SweepSummary) -> list[str]:
    facts = [
        format_moment(about.started),
        about.engine,
        *(f"torch {version}" for version in summary.torches),
        *dict.fromkeys(row.machine for row in rows if row.machine),
        f"Fuselight {about.fuselight}" if about.fuselight else "",
    ]
    parts = [f"<p>{html_text(' · '.join(fact for fact in facts if fact))}</p>"]
    if about.command:
        parts.append(f"<p>{html_text(about.command)}</p>")
    if len(summary.torches) > 1:
        counts = [f"torch {name} in {format_count(count, 'row')}" for name, count in summary.torches.items()]
        text = f"Machines have different releases of torch ({format_list(counts)}): compare their rows with care."
        parts.append(f'<p class="doubt">{html_text(text)}</p>')
    return parts


def _speedups(summary: SweepSummary) -> str:
    groups = [*summary.speedups, *([summary.gain] if summary.gain is not None else [])]
    if not groups:
        return ""
    lines = [
        TableLine(
            (
                TableCell(group.name),
                number_cell(group.rows),
                number_cell(group.mean, format_ratio(group.mean)),
                number_cell(group.least, format_ratio(group.least)),
                number_cell(group.most, format_ratio(group.most)),
                *(number_cell(count) for count in group.counts),
            )
        )
        for group in groups
    ]
    columns = ["configuration", "rows", "geometric mean", "least", "most", *_bins()]
    caption = "Speed-up over eager of rows with right results, and rows by speed-up"
    return html_section(
        "Speed-up",
        "<p>2.0× is twice as fast as eager. Configurations with wrong results are left out.</p>",
        *(_histogram(group) for group in groups),
        html_table(caption, columns, lines),
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
            + f'<text x="{middle}" y="{_BAR_HEIGHT + 32}">{html_text(name)}</text>'
        )
    width = _BAR_WIDTH * len(group.counts)
    line = f'<line x1="0" x2="{width}" y1="{_BAR_HEIGHT + 16}" y2="{_BAR_HEIGHT + 16}"></line>'
    label = f"{group.name}: {format_count(group.rows, 'row')} by speed-up, geometric mean {format_ratio(group.mean)}"
    return (
        f'<figure class="histogram"><figcaption>{html_text(label)}</figcaption>'
        f'<svg role="img" aria-label="{html_text(label)}" width="{width}" height="{_BAR_HEIGHT + 40}">'
        f"{line}{''.join(bars)}</svg></figure>"
    )


def _causes(title: str, causes: Sequence[CauseCount], noun: str, nothing: str) -> str:
    if not causes:
        return html_section(title, f"<p>{html_text(nothing)}</p>") if nothing else ""
    lines = []
    for cause in causes:
        names = format_first(cause.rows, _MAX_NAMES)
        lines.append(
            TableLine(
                (
                    TableCell(cause.cause),
                    number_cell(len(cause.rows)),
                    number_cell(cause.count),
                    TableCell(names),
                )
            )
        )
    return html_section(title, html_table(_CAUSES, ["cause", "models", f"{noun}s", "in"], lines))


def _comparison(comparison: SweepComparison, against: str) -> str:
    worse = len(comparison.regressions)
    better = len(comparison.changes) - worse
    head = (
        f"{format_count(worse, 'regression')}, {format_count(better, 'improvement')} in "
        f"{format_count(comparison.compared, 'row')} that both sweeps have"
    )
    parts = [f'<p class="headline">{html_text(head)}</p>']
    if comparison.changes:
        caption = "Regressions first; times count only where their spreads do not overlap"
        parts.append(html_table(caption, *filled_columns(_CHANGES, map(_change, comparison.changes))))
    for title, ids in (
        ("Only in this sweep", comparison.added),
        ("Only in the earlier sweep", comparison.missing),
    ):
        if ids:
            parts.append(f"<p>{html_text(title)}: {html_text(format_first(ids, _MAX_NAMES))}.</p>")
    return html_section(f"Compared with {against}", *parts)


def _change(change: RowChange) -> TableLine:
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
    return TableLine(
        tuple(TableCell(text, css=css if text == change.direction.value else "") for text in cells)
    )


_CHANGES = ("row", "change", "what", "before", "after", "by", "detail")
_COLUMNS = (
    "model", "group", "variant", "job", "device", "status", "graphs", "breaks", "recompilations", "operators",
    "kernels", "estimate", "eager", "compiled", "speed-up", "gain over default", "configuration", "first call",
    "memory", "results", "time", "torch", "machine", "remarks",
)  # fmt: skip


def _rows(rows: Sequence[SweepRow]) -> str:
    controls = search_bar(
        "Job", (job.value for job in SweepJob), "Status", (status.value for status in RowStatus)
    )
    caption = "One row for each model, job and device; press a heading to sort"
    return html_section(
        "Rows", controls, html_table(caption, *filled_columns(_COLUMNS, map(_row, rows)), table_id=ROWS)
    )


def _row(row: SweepRow) -> TableLine:
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
    return TableLine(
        (
            TableCell(row.name),
            TableCell(row.group),
            TableCell(row.variant),
            TableCell(row.job.value),
            TableCell(row.device or row.kernel_device),
            TableCell(STATUS_WORDS[row.status], css="failure" if bad else ""),
            number_cell(row.graphs),
            number_cell(row.breaks),
            number_cell(row.recompilations),
            number_cell(row.operators),
            number_cell(row.kernels),
            number_cell(row.kernel_us, format_estimate(row.kernel_us) if row.kernel_us is not None else None),
            _time(eager),
            _time(best),
            _ratio(best.speedup if best is not None else None),
            _ratio(row.gain),
            TableCell(best.name if best is not None else ""),
            _first(best),
            _memory(best),
            TableCell(_results(row.configurations)),
            number_cell(row.seconds or None, f"{row.seconds:,.1f} s"),
            TableCell(row.torch),
            TableCell(row.machine or row.node),
            TableCell("; ".join(remarks), css="failure" if bad else ""),
        ),
        {"job": row.job.value, "status": row.status.value},
    )


def _time(configuration: TimedConfiguration | None) -> TableCell:
    if configuration is None or configuration.us is None:
        return TableCell("")
    spread = (
        (configuration.high_us - configuration.low_us) / 2 / configuration.us
        if configuration.high_us and configuration.low_us and configuration.us
        else None
    )
    text = format_time(configuration.us) + (f" {format_spread(spread)}" if spread is not None else "")
    return TableCell(
        f"{text}, unsteady" if configuration.is_unsteady else text,
        configuration.us,
        "doubt" if configuration.is_unsteady else "",
    )


def _first(configuration: TimedConfiguration | None) -> TableCell:
    return (
        number_cell(configuration.first_us, format_time(configuration.first_us))
        if configuration and configuration.first_us
        else TableCell("")
    )


def _memory(configuration: TimedConfiguration | None) -> TableCell:
    return (
        number_cell(configuration.peak_bytes, format_size(configuration.peak_bytes))
        if configuration and configuration.peak_bytes
        else TableCell("")
    )


def _ratio(value: float | None) -> TableCell:
    return number_cell(value, format_ratio(value)) if value is not None else TableCell("")


def _results(configurations: Sequence[TimedConfiguration]) -> str:
    wrong = [configuration.name for configuration in configurations if configuration.is_accurate is False]
    if wrong:
        return f"WRONG in {', '.join(wrong)}"
    return "right" if any(configuration.is_accurate for configuration in configurations) else ""
