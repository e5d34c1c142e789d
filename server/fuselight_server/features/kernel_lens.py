"""Lenses that tell of generated kernels: on the target how many and how long, on lines or functions their part.

Invariant: every time is an estimate and carries its `~`; a kernel that several lines share is told on each with its
part of the time, so that the parts of all lines are the target's total.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fuselight.report import Tier
from fuselight_server.features import bench_lens
from fuselight_server.features.lens import lens
from fuselight_server.findings.text import counted
from fuselight_server.kernels.words import compiled_again, line_ranges, microseconds, share, size
from fuselight_server.runs import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fuselight_server.convert import PlainRange
    from fuselight_server.features.lens import Lens
    from fuselight_server.kernel_results import KernelResult, Row
    from fuselight_server.measured_results import MeasuredResult, MeasuredRow
    from fuselight_server.state import Snapshot
    from fuselight_server.static.reading import StaticTarget

KERNELS = "fuselight.server.kernels"
SHOW = "fuselight.showKernel"
"""The client's command that opens the source of a kernel."""

STALE = " (before your edit)"


def kernel_key(snapshot: Snapshot, target: str) -> Key:
    """Name the runs of tier kernels of a target; empty for the file's `__main__` block."""
    return Key(snapshot.path, target, Tier.KERNELS)


def target_lenses(snapshot: Snapshot, target: str, place: PlainRange) -> list[Lens]:
    """Make what stands on a target: its kernels all together, and a button that generates them."""
    lenses = []
    result = snapshot.kernels.get(kernel_key(snapshot, target))
    if result is not None:
        lenses.append(lens(place, total(result)))
    if snapshot.can_run:
        arguments = {"uri": snapshot.document.uri, "target": target or "__main__"}
        lenses.append(lens(place, "Kernels", KERNELS, arguments))
    return lenses


def lenses_so_far(snapshot: Snapshot, target: str, place: PlainRange) -> list[Lens]:
    """Make what stands on a target whose run goes on: the kernels that it has generated already."""
    result = snapshot.kernels.get(kernel_key(snapshot, target))
    return [lens(place, total(result))] if result is not None and result.unfinished else []


def total(result: KernelResult) -> str:
    """Say in one line what a run generated: `24 kernels, ~228 us on h200, saves 12.6 MB for backward`."""
    shown = result.shown
    failures = result.report.failures
    if not shown.learnt:
        return f"no kernels: {failures[0].message}"[:120]
    text = f"{counted(shown.count, 'kernel')}{_time(shown.us)} on {shown.device}"
    if compiled_again(shown.report):
        text += ", recompiled graphs included"
    if shown.kept_bytes:
        text += f", saves {size(shown.kept_bytes)} for backward"
    lost = sum(graph.failure is not None for graph in shown.report.generated)
    if lost:
        text += f", {counted(lost, 'graph')} without"
    if failures:
        text += ", failed"
    if shown.headline:
        text += f" - {shown.headline}"
    return text + _caveats(shown)


def line_lenses(snapshot: Snapshot) -> Iterator[Lens]:
    """Make a lens for each line, or for each function, that has a part in kernels: measured times before estimates."""
    how = snapshot.settings.kernels.lens
    if how == "off":
        return
    measured = bench_lens.standing(snapshot)
    estimated = [one.shown for one in snapshot.kernels.values() if bench_lens.stands(one.shown, measured)]
    estimated.sort(key=lambda one: -one.generation)
    shown: list[MeasuredResult | KernelResult] = [*measured, *estimated]
    several = sum(bool(one.rows(snapshot.path)) for one in shown) > 1
    told: set[int] = set()
    for benchmark in measured:
        generated = replace(benchmark.key, tier=Tier.KERNELS) in snapshot.kernels
        for line, timed in _grouped(snapshot, benchmark.rows(snapshot.path), told):
            place = _at(snapshot, line)
            yield lens(place, _name(benchmark, several) + bench_lens.line_words(benchmark, timed))
            if generated:
                yield from _show(snapshot, benchmark.key.name, place, timed)
    for result in estimated:
        for line, group in _grouped(snapshot, result.rows(snapshot.path), told):
            place = _at(snapshot, line)
            yield lens(place, _name(result, several) + words(result, group))
            yield from _show(snapshot, result.key.name, place, group)


def _show(
    snapshot: Snapshot, target: str, place: PlainRange, rows: Sequence[Row | MeasuredRow]
) -> Iterator[Lens]:
    """Yield the button that opens the source of the kernels of some lines."""
    if SHOW in snapshot.client.commands:
        first, last = rows[0].place.line - 1, rows[-1].place.line - 1
        at: dict[str, str | int] = {
            "uri": snapshot.document.uri,
            "target": target,
            "line": first,
            "last": last,
        }
        yield lens(place, "Show", SHOW, at)


Lined = TypeVar("Lined", "Row", "MeasuredRow")


def _grouped(snapshot: Snapshot, rows: Iterable[Lined], told: set[int]) -> list[tuple[int, list[Lined]]]:
    """Put rows on lines that are not `told` of yet, or under their functions, as the settings say."""
    fresh = [row for row in rows if row.place.line not in told]
    told.update(row.place.line for row in fresh)
    if snapshot.settings.kernels.lens == "function":
        return _functions(snapshot, fresh)
    return [(row.place.line, [row]) for row in fresh]


def _at(snapshot: Snapshot, line: int) -> PlainRange:
    at = {"line": line - 1, "character": _indent(snapshot.line(line))}
    return {"start": at, "end": at}


def _name(result: KernelResult | MeasuredResult, several: bool) -> str:  # noqa: FBT001 - one of two words
    return f"{result.key.name or '__main__'}: " if several else ""


def words(result: KernelResult, rows: list[Row]) -> str:
    """Say what lines have to do with kernels: `2 kernels, ~41 us on h200 (18%), fused with lines 12-19`."""
    launches = {(id(graph), kernel.launch) for row in rows for graph, kernel in row.cost.launches}
    us = sum(row.us for row in rows)
    text = counted(len(launches), "kernel")
    if result.us:
        text += f"{_time(us)} on {result.device} ({share(us, result.us)})"
    else:
        text += f" on {result.device}, {size(float(sum(row.cost.bytes for row in rows)))}"
    own = {row.place for row in rows}
    fused = line_ranges(set().union(*(row.fused_with for row in rows)) - own, rows[0].place)
    if fused:
        text += f", fused with {fused}"
    kept = sum(row.kept.bytes for row in rows if row.kept)
    if kept:
        text += f", saves {size(kept)} for backward"
    return text + _caveats(result)


def _caveats(result: KernelResult) -> str:
    """Say why a result is not all, or not of the text as it is: ` (so far: backward still being generated)`."""
    unfinished = f" ({result.unfinished})" if result.unfinished else ""
    return unfinished + (STALE if result.stale else "")


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
    return f", {microseconds(us)}" if us else ""


def _indent(line: str | None) -> int:
    text = line or ""
    return len(text) - len(text.lstrip())
