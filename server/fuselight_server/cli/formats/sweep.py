"""`fuselight sweep` for people: a line for each row as it comes, and the summary at the end.

Invariant: a measured time carries its spread, and nothing is shown by color alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_list,
    format_ratio,
    format_spread,
    format_time,
)
from fuselight_server.base.terminal import Terminal
from fuselight_server.sweep.comparison import SweepComparison
from fuselight_server.sweep.rows import RowStatus, SweepJob, SweepRow, TimedConfiguration
from fuselight_server.sweep.summary import CauseCount, summarize

_STYLES = {
    RowStatus.DONE: "green",
    RowStatus.FAILED: "red",
    RowStatus.LOST: "red",
    RowStatus.ABSENT: "yellow",
}
_MAX_CAUSES = 8
_MAX_CHANGES = 20


def print_row(row: SweepRow, terminal: Terminal) -> None:
    """One line: status, model, job, result, and what a reader must know of it."""
    where = f" on {row.node}" if row.attempts > 1 and row.node else ""
    again = f" (attempt {row.attempts}{where})" if row.attempts > 1 else ""
    terminal.print(
        (f"{row.status.value:<7}", _STYLES[row.status]),
        f"{row.id}: {result_in_words(row)}{again}",
    )
    if row.failure is not None and row.failure.next_step:
        terminal.print(("        next: ", "dim"), row.failure.next_step)
    for note in row.notes:
        terminal.print(("        note: ", "dim"), note)


def result_in_words(row: SweepRow) -> str:
    """`2 graphs, 1 break`, `24 kernels, ~228 µs on h200`, `eager 12 ms, default 4 ms (3.0×)`, or why there is none."""
    if row.failure is not None:
        place = f" ({row.failure.place})" if row.failure.place else ""
        return f"{row.failure.message}{place}"
    if row.job is SweepJob.CHECK:
        counted = (
            (row.graphs, "graph"), (row.breaks, "break"),
            (row.recompilations, "recompilation"), (row.operators, "operator"),
        )  # fmt: skip
        return ", ".join(format_count(count, noun) for count, noun in counted if count is not None)
    if row.job is SweepJob.KERNELS:
        estimate = f", {format_estimate(row.kernel_us)}" if row.kernel_us else ""
        return f"{format_count(row.kernels or 0, 'kernel')}{estimate} on {row.kernel_device}"
    return ", ".join(map(_timed, row.configurations)) + _decision(row)


def _decision(row: SweepRow) -> str:
    """What a search came to."""
    if not row.winner:
        return ""
    if row.gain is None or row.winner == "default":
        return "; nothing was shown to be faster than default"
    return f"; {row.winner} wins, {format_ratio(row.gain)} over default"


def _timed(configuration: TimedConfiguration) -> str:
    if configuration.us is None:
        why = f": {configuration.failure.message}" if configuration.failure is not None else ""
        return f"{configuration.name} not measured{why}"
    spread = (
        f" {format_spread((configuration.high_us - configuration.low_us) / 2 / configuration.us)}"
        if configuration.high_us and configuration.low_us
        else ""
    )
    notes = (
        [format_ratio(configuration.speedup)]
        if configuration.speedup is not None and configuration.name != "eager"
        else []
    )
    notes += ["WRONG results"] if configuration.is_accurate is False else []
    notes += ["unsteady"] if configuration.is_unsteady else []
    return f"{configuration.name} {format_time(configuration.us)}{spread}" + (
        f" ({', '.join(notes)})" if notes else ""
    )


def print_summary(
    rows: Sequence[SweepRow], comparison: SweepComparison | None, against: str, terminal: Terminal
) -> None:
    """The sweep in numbers, after its rows; regressions come first."""
    summary = summarize(rows)
    terminal.print("")
    if comparison is not None:
        _print_comparison(comparison, against, terminal)
    counted = ", ".join(f"{count:,} {name}" for name, count in summary.statuses.items())
    terminal.print((f"{format_count(len(rows), 'row')}: ", "bold"), counted)
    if len(summary.torches) > 1:
        parts = [f"torch {name} in {format_count(count, 'row')}" for name, count in summary.torches.items()]
        terminal.print(("machines differ: ", "yellow"), f"{format_list(parts)}. Compare their rows with care")
    for group in (*summary.speedups, *([summary.gain] if summary.gain is not None else [])):
        terminal.print(
            f"{group.name}: geometric mean {format_ratio(group.mean)} in {format_count(group.rows, 'row')} "
            f"({format_ratio(group.least)} to {format_ratio(group.most)})"
        )
    _print_causes("breaks", summary.breaks, terminal)
    _print_causes("recompilations", summary.recompilations, terminal)
    _print_causes("failures", summary.failures, terminal)


def _print_causes(title: str, causes: Sequence[CauseCount], terminal: Terminal) -> None:
    if not causes:
        return
    terminal.print((f"{title} by cause:", "bold"))
    for cause in causes[:_MAX_CAUSES]:
        terminal.print(f"  {cause.count:>4}  {cause.cause} in {format_count(len(cause.rows), 'model')}")
    terminal.print_more(len(causes) - _MAX_CAUSES, "cause", indent=2)


def _print_comparison(comparison: SweepComparison, against: str, terminal: Terminal) -> None:
    worse = len(comparison.regressions)
    terminal.print(
        (f"compared with {against}: ", "bold"),
        f"{format_count(worse, 'regression')}, {format_count(len(comparison.changes) - worse, 'improvement')} in "
        f"{format_count(comparison.compared, 'row')}",
    )
    for change in comparison.changes[:_MAX_CHANGES]:
        detail = f" ({change.detail})" if change.detail else ""
        terminal.print(
            (f"  {change.direction.value:<11}", "red" if change.direction.value == "regression" else "green"),
            f" {change.id}: {change.what}: {change.before} -> {change.after}{detail}",
        )
    terminal.print_more(len(comparison.changes) - _MAX_CHANGES, "change", indent=2)
    for title, ids in (
        ("only in this sweep", comparison.added),
        ("only in the earlier sweep", comparison.missing),
    ):
        if ids:
            terminal.print(f"  {format_count(len(ids), 'row')} {title}")
    terminal.print("")
