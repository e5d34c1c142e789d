"""Lenses of generated kernels: a line or function has its part of a target's time.

Invariant: every estimate carries its `~`. A kernel that several lines share gives each its part of the time, so that
the parts of all lines are the target's total.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fuselight.report import Tier
from fuselight_server.features.bench import lens as bench_lens
from fuselight_server.features.lens import LONGEST, STALE, Info, lens, shorten, with_state
from fuselight_server.formatting import (
    format_count,
    format_estimate,
    format_percent,
    format_size,
)
from fuselight_server.kernels.summary import target_details, target_summary
from fuselight_server.runs.keys import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fuselight_server.features.convert import PlainRange
    from fuselight_server.features.lens import Lens
    from fuselight_server.results.benchmarks import MeasuredResult, MeasuredRow
    from fuselight_server.results.kernels import KernelResult, KernelRow
    from fuselight_server.session.state import Snapshot
    from fuselight_server.static.reading import StaticTarget

KERNELS = "fuselight.server.kernels"
SHOW = "fuselight.showKernel"
"""The client's command that opens the source of a kernel."""
DETAILS = "fuselight.showDetails"


def kernel_key(snapshot: Snapshot, target: str) -> Key:
    """Name the runs of tier kernels of a target; empty for the file's `__main__` block."""
    return Key(snapshot.path, target, Tier.KERNELS)


def target_info(result: KernelResult, *, is_running: bool, running: str) -> Info:
    """Say how many kernels a target has: `24 kernels, ~228 µs on h200`."""
    shown = result.shown
    state = (
        running if is_running and result.unfinished else result.unfinished or (STALE if shown.stale else "")
    )
    if not shown.has_data:
        return Info(f"no kernels: {result.report.failures[0].message}", "", DETAILS)
    failed = ", failed" if result.report.failures else ""
    return Info(target_summary(shown.report) + failed, state, DETAILS)


def total(result: KernelResult) -> str:
    """Say all that a run generated: `24 kernels, ~228 µs on h200, saves 12.6 MB for backward`."""
    shown = result.shown
    failures = result.report.failures
    if not shown.has_data:
        return shorten(f"no kernels: {failures[0].message}", 2 * LONGEST)
    text = target_details(shown.report, shown.kept_bytes)
    if failures:
        text += ", failed"
    if shown.headline:
        text += f" - {shown.headline}"
    return text + _caveats(shown)


def line_lenses(snapshot: Snapshot) -> Iterator[Lens]:
    """Make a lens for each line, or each function, that has a part in kernels: measured times before estimates."""
    how = snapshot.settings.kernels.lens
    if how == "off":
        return
    measured = bench_lens.standing(snapshot)
    estimated = [one.shown for one in snapshot.kernels.values() if bench_lens.stands(one.shown, measured)]
    estimated.sort(key=lambda one: -one.generation)
    shown: list[MeasuredResult | KernelResult] = [*measured, *estimated]
    several = sum(bool(one.rows(snapshot.path)) for one in shown) > 1
    covered: set[int] = set()
    for benchmark in measured:
        has_source = replace(benchmark.key, tier=Tier.KERNELS) in snapshot.kernels
        for line, timed in _grouped(snapshot, benchmark.rows(snapshot.path), covered):
            text = _name(benchmark, several) + bench_lens.line_words(benchmark, timed, longest=LONGEST)
            yield _line_lens(snapshot, benchmark, line, timed, text, has_source=has_source)
    for result in estimated:
        for line, group in _grouped(snapshot, result.rows(snapshot.path), covered):
            text = _name(result, several) + short_words(result, group)
            yield _line_lens(snapshot, result, line, group, text, has_source=True)


def _line_lens(
    snapshot: Snapshot,
    result: KernelResult | MeasuredResult,
    line: int,
    rows: Sequence[KernelRow | MeasuredRow],
    text: str,
    *,
    has_source: bool,
) -> Lens:
    """Make a lens; a click opens the source of the kernels of its lines."""
    at = {"line": line - 1, "character": _indent(snapshot.line(line))}
    place: PlainRange = {"start": at, "end": at}
    if not has_source or SHOW not in snapshot.client.commands:
        return lens(place, text)
    named: dict[str, str | int] = {"uri": snapshot.document.uri, "target": result.key.name}
    first, last = rows[0].place.line - 1, rows[-1].place.line - 1
    return lens(place, text, SHOW, {**named, "line": first, "last": last})


Lined = TypeVar("Lined", "KernelRow", "MeasuredRow")


def _grouped(snapshot: Snapshot, rows: Iterable[Lined], covered: set[int]) -> list[tuple[int, list[Lined]]]:
    """Put rows on lines that are not `covered` yet, or under their functions, as the settings say."""
    fresh = [row for row in rows if row.place.line not in covered]
    covered.update(row.place.line for row in fresh)
    if snapshot.settings.kernels.lens == "function":
        return _functions(snapshot, fresh)
    return [(row.place.line, [row]) for row in fresh]


def _name(result: KernelResult | MeasuredResult, several: bool) -> str:  # noqa: FBT001 - one of two words
    return f"{result.key.name or '__main__'}: " if several else ""


def short_words(result: KernelResult, rows: list[KernelRow]) -> str:
    """Say the part of some lines: `2 kernels, ~41 µs (18%), fused with lines 12-19`."""
    text = _counted(rows)
    if result.us:
        us = sum(row.us for row in rows)
        text += f"{_time(us)} ({format_percent(us, result.us)})"
    else:
        text += f", {format_size(_bytes(rows))}"
    return text + bench_lens.fused(rows, LONGEST - len(text))


def words(result: KernelResult, rows: list[KernelRow]) -> str:
    """Say all about some lines: `2 kernels, ~41 µs on h200 (18%), fused with lines 12-19, saves 1 MB for backward`."""
    text = _counted(rows)
    if result.us:
        us = sum(row.us for row in rows)
        text += f"{_time(us)} on {result.device} ({format_percent(us, result.us)})"
    else:
        text += f" on {result.device}, {format_size(_bytes(rows))}"
    text += bench_lens.fused(rows)
    saved = sum(one.bytes for row in rows if (one := result.saved_on(row)) is not None)
    if saved:
        text += f", saves {format_size(saved)} for backward"
    return text + _caveats(result)


def _counted(rows: Iterable[KernelRow]) -> str:
    launches = {(id(graph), kernel.launch) for row in rows for graph, kernel in row.line.launches}
    return format_count(len(launches), "kernel")


def _bytes(rows: Iterable[KernelRow]) -> float:
    return float(sum(row.line.bytes for row in rows))


def _caveats(result: KernelResult) -> str:
    """Say why a result is not final, and that it is not of the current text."""
    return with_state(with_state("", result.unfinished), STALE if result.stale else "")


def _functions(snapshot: Snapshot, rows: Iterable[Lined]) -> list[tuple[int, list[Lined]]]:
    """Put lines under the innermost function or module around them; the rest stand for themselves."""
    groups: dict[int, list[Lined]] = {}
    for row in rows:
        around = [one for one in snapshot.reading.targets if _holds(one, row.place.line)]
        inner = max(around, key=lambda one: one.span.line, default=None)
        groups.setdefault(inner.name_span.line if inner else row.place.line, []).append(row)
    return sorted(groups.items())


def _holds(target: StaticTarget, line: int) -> bool:
    return target.span.line <= line <= (target.span.end_line or target.span.line)


def _time(us: float) -> str:
    return f", {format_estimate(us)}" if us else ""


def _indent(line: str | None) -> int:
    text = line or ""
    return len(text) - len(text.lstrip())
