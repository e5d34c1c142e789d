"""The differences of a target as rows of text: the same in the terminal and on the page.

Invariant: each difference is one row, under one verdict; estimates carry their `~`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from fuselight.shared.report import Versions
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_first,
    format_line_ranges,
    format_time,
)
from fuselight_server.jobs.comparison.model import ChangeVerdict, JobComparison, TimeChange
from fuselight_server.jobs.comparison.rows import MAX_ROWS, change_rows
from fuselight_server.upgrades.model import (
    KernelLineChange,
    LineKernels,
    TargetComparison,
    TargetState,
    is_failure,
)
from fuselight_server.upgrades.numerics import ResultChange, result_change, result_text

_MAX_LINES = 10
"""Lines whose kernels differ, in text."""
_MAX_GROUPS = 3
"""Kernels of a line that are described."""


def as_job(target: TargetComparison) -> JobComparison:
    """The findings and functions of a target as a comparison of two jobs, which has rows and data of them."""
    return JobComparison(
        name=target.name,
        base=target.name,
        rank=None,
        base_rank=None,
        findings=target.findings,
        functions=target.functions,
        time=TimeChange(None, None),
        caches=(),
        conditions=(),
    )


def target_rows(
    target: TargetComparison,
    verdict: ChangeVerdict,
    show_path: Callable[[str], str],
    torch: tuple[str | None, str | None] = (None, None),
) -> Iterator[str]:
    """The differences of a target with a verdict; `torch`: both releases.

    New findings and those of the comparison itself are left out: they are shown with their source.
    """
    yield from change_rows(as_job(target), verdict, show_path)
    yield from _result_rows(target, verdict, torch)
    yield from _time_rows(target, verdict, show_path)
    if verdict is ChangeVerdict.CHANGE:
        yield from _line_rows(target, show_path)


def state_row(target: TargetComparison, versions: tuple[Versions, Versions]) -> str:
    """Which side ran a target, if only one did; empty if both did."""
    before, after = (f"torch {version.torch}" for version in versions)
    count = format_count(len(target.uncompared), "finding")
    left = f"; {count} of that side not compared" if target.uncompared else ""
    if target.is_undecided and target.state is not TargetState.NEITHER:
        reasons = list(dict.fromkeys(_failures(target)))
        return f"not compared, as one version did not get to the end: {'; '.join(reasons)}"
    if target.state is TargetState.ONLY_BEFORE:
        return f"only {before} can run it{left}"
    if target.state is TargetState.ONLY_AFTER:
        return f"only {after} can run it{left}"
    if target.state is TargetState.NEITHER:
        reasons = list(dict.fromkeys(_failures(target)))
        return f"it fails with {before} and with {after}, so nothing else was compared: {'; '.join(reasons)}"
    return ""


def _failures(target: TargetComparison) -> Iterator[str]:
    for change in (*target.findings, *target.uncompared):
        if is_failure(change.finding):
            yield change.finding.title


def reworded_rows(target: TargetComparison, show_path: Callable[[str], str]) -> Iterator[str]:
    """The findings that both sides have, with another ID or title."""
    for change in target.findings:
        before, finding = change.before, change.finding
        if change.verdict is not ChangeVerdict.SAME or before is None:
            continue
        place = f"{show_path(finding.span.path)}:{finding.span.line}"
        if before.code != finding.code:
            yield f"{place}: `{before.code}` is now `{finding.code}`: {finding.title}"
        elif before.title != finding.title:
            yield f"{place}: {finding.code} is worded differently: {finding.title}; it was: {before.title}"


def _result_rows(
    target: TargetComparison, verdict: ChangeVerdict, torch: tuple[str | None, str | None]
) -> Iterator[str]:
    """Results of calls. Regressions are findings (FL931), and rounding is no difference."""
    shown = {
        ChangeVerdict.IMPROVEMENT: {ResultChange.COMPILED_BETTER},
        ChangeVerdict.CHANGE: {ResultChange.COMPILED_WRONG, ResultChange.UNKNOWN},
    }.get(verdict, set())
    for call in target.calls:
        if result_change(call) in shown:
            yield f"{call.text}: {result_text(call, torch)}"


def _time_rows(
    target: TargetComparison, verdict: ChangeVerdict, show_path: Callable[[str], str]
) -> Iterator[str]:
    """Measured times. Calls that take longer are findings (FL934); within the spreads there is no difference."""
    if verdict is ChangeVerdict.REGRESSION:
        return
    times = [time for time in target.times if time.verdict is verdict is not ChangeVerdict.SAME]
    for time in times[:MAX_ROWS]:
        what = time.configuration if time.place is None else f"{show_path(time.place.path)}:{time.place.line}"
        both = f"{format_time(time.before_us)} -> {format_time(time.after_us)}"
        yield f"measured time of {time.target or '__main__'}, {what}: {both} ({time.change})"
    if len(times) > MAX_ROWS:
        yield f"and {len(times) - MAX_ROWS:,} more times: the JSON has all"


def _line_rows(target: TargetComparison, show_path: Callable[[str], str]) -> Iterator[str]:
    for change in target.lines[:_MAX_LINES]:
        yield f"kernels of {show_path(change.place.path)}:{change.place.line}: {_line(change)}"
    if len(target.lines) > _MAX_LINES:
        yield f"and kernels of {len(target.lines) - _MAX_LINES:,} more lines: the JSON has all"


def _line(change: KernelLineChange) -> str:
    before, after = change.before, change.after
    if before is None or after is None:
        side = before or after
        word = "only before" if after is None else "only now"
        return f"{word}: {_kernels(side, change.place)}"
    parts = [f"{before.kernels:,} -> {after.kernels:,}"]
    if before.estimate_us is not None and after.estimate_us is not None:
        parts.append(f"{format_estimate(before.estimate_us)} -> {format_estimate(after.estimate_us)}")
    if change.is_fused_differently:
        gone, came = before.fused_with - after.fused_with, after.fused_with - before.fused_with
        parts += [f"before {_groups(gone, change.place)}"] if gone else []
        parts += [f"now {_groups(came, change.place)}"] if came else []
    return "; ".join(parts)


def _kernels(side: LineKernels | None, place: SourceLine) -> str:
    if side is None:
        return "no kernel"
    us = f", {format_estimate(side.estimate_us)}" if side.estimate_us is not None else ""
    return f"{format_count(side.kernels, 'kernel')}{us}; {_groups(side.fused_with, place)}"


def _groups(groups: Counter[tuple[SourceLine, ...]], place: SourceLine) -> str:
    """`fused with lines 12, 14`, `alone`."""
    texts = []
    for group, count in groups.most_common():
        others = [line for line in group if line != place]
        text = f"fused with {format_line_ranges(others, place)}" if others else "alone"
        texts.append(f"{text} ({count:,} kernels)" if count > 1 else text)
    return format_first(texts, _MAX_GROUPS)
