"""Lenses that tell of benchmarks: on the target eager beside compiled, on lines the measured time of their kernels.

Invariant: a measured time stands in the place of an estimate for as long as the code is what was measured; after an
edit the estimates are back, and where there are none, what was measured says that it is from before.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from fuselight.report import Tier
from fuselight_server.features.lens import lens
from fuselight_server.features.status import describe
from fuselight_server.kernels.words import line_ranges
from fuselight_server.measured import words
from fuselight_server.measured.comparing import (
    WRITTEN,
    Range,
    clock_of,
    compiled_of,
    eager_of,
    speedup,
    timing_of,
)
from fuselight_server.measured_results import SO_FAR
from fuselight_server.runs import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.report import Measured, MeasuredConfiguration
    from fuselight_server.convert import PlainRange
    from fuselight_server.features.lens import Lens
    from fuselight_server.kernel_results import KernelResult
    from fuselight_server.measured_results import MeasuredResult, MeasuredRow
    from fuselight_server.state import Snapshot

BENCH = "fuselight.bench"
ASK = "fuselight.benchmark"
SHOW = "fuselight.showBenchmark"
"""The client's commands: one that asks what to measure before it asks us, one that opens the page."""
CANCEL = "fuselight.cancelBench"

WAITS = "Benchmark: waiting for another one"
STALE = " (before your edit)"
_PLAIN = frozenset({WRITTEN, "default"})
"""Configurations that a line does not name."""
_ROWS = 3
"""Configurations that a lens names, eager apart."""


def measured_key(snapshot: Snapshot, target: str) -> Key:
    """Name the benchmarks of a target; empty for the file's `__main__` block."""
    return Key(snapshot.path, target, Tier.MEASURED)


def target_lenses(snapshot: Snapshot, target: str, place: PlainRange) -> list[Lens]:
    """Make what stands on a target: what its last benchmark measured, and a button that makes one or ends it."""
    key = measured_key(snapshot, target)
    if key in snapshot.running or key in snapshot.waiting:
        return running_lenses(snapshot, target, place)
    result = snapshot.measured.get(key)
    lenses = [] if result is None else [lens(place, summary(result)), *_show(snapshot, target, place)]
    if snapshot.can_run:
        command = ASK if ASK in snapshot.client.commands else BENCH
        lenses.append(lens(place, "Benchmark", command, _at(snapshot, target)))
    return lenses


def running_lenses(snapshot: Snapshot, target: str, place: PlainRange) -> list[Lens]:
    """Make what stands on a target whose benchmark goes on: where it is, and what is measured already."""
    key = measured_key(snapshot, target)
    running, result = snapshot.running.get(key), snapshot.measured.get(key)
    if running is None and key not in snapshot.waiting:
        return []
    said = describe(running) if running is not None else WAITS
    so_far = [lens(place, summary(result))] if result is not None and result.unfinished else []
    end = lens(place, "Cancel", CANCEL, _at(snapshot, target))
    return [lens(place, said), end, *so_far, *_show(snapshot, target, place)]


def _show(snapshot: Snapshot, target: str, place: PlainRange) -> list[Lens]:
    return [lens(place, "Show", SHOW, _at(snapshot, target))] if SHOW in snapshot.client.commands else []


def _at(snapshot: Snapshot, target: str) -> dict[str, str | int]:
    return {"uri": snapshot.document.uri, "target": target}


def summary(result: MeasuredResult) -> str:
    """Say in one line what was measured: `eager 12.3 ms, default 4.1 ms (3.0x) - measured on NVIDIA H200`."""
    shown = result.shown
    failures = result.report.failures
    if result.unfinished == SO_FAR and not result.learnt:
        return f"{_first_calls(result)} - still measuring"
    if not shown.learnt or shown.report.measured is None:
        why = result.failures[0].message if result.failures else "nothing was measured"
        return f"no benchmark: {textwrap.shorten(why, 100, placeholder='...')}"
    text = f"{_rows(shown.report.measured)} - measured on {words.device(shown.report.measured.machine)}"
    if shown is not result:
        text += "; the one after it failed"
    elif failures:
        text += ", failed"
    return text + caveats(shown)


def _first_calls(result: MeasuredResult) -> str:
    """Say what is known before there are times: `first call of eager 109 ms, of default 12 s`."""
    rows = result.report.measured.configurations if result.report.measured is not None else ()
    told = [
        f"of {one.name} failed" if one.first_us is None else f"of {one.name} {words.time(one.first_us)}"
        for one in rows
        if one.first_us is not None or one.failure is not None
    ]
    more = len(told) - _ROWS - 1
    return f"first call {', '.join(told[: _ROWS + 1])}" + (f" and {more} more" if more > 0 else "")


def _rows(measured: Measured) -> str:
    eager = eager_of(measured)
    compiled = compiled_of(measured)
    shown = [*([eager] if eager is not None else []), *compiled[:_ROWS]]
    more = len(compiled) - _ROWS
    return ", ".join(_row(measured, one) for one in shown) + (f" and {more} more" if more > 0 else "")


def _row(measured: Measured, one: MeasuredConfiguration) -> str:
    timing = timing_of(one, clock_of(measured))
    if timing is None:
        return f"{one.name} failed" if one.failure is not None else f"{one.name} not measured"
    text = f"{one.name} {words.time(timing.median_us)}"
    faster = speedup(measured, one)
    notes = [words.times(faster)] if faster is not None and one in compiled_of(measured) else []
    notes += ["unsteady"] if timing.unsteady else []
    notes += ["WRONG results"] if one.accuracy is not None and one.accuracy.passed is False else []
    return text + (f" ({', '.join(notes)})" if notes else "")


def caveats(result: MeasuredResult) -> str:
    """Say why a result is not all, or not of the text as it is."""
    unfinished = f" ({result.unfinished})" if result.unfinished else ""
    return unfinished + (STALE if result.stale else "")


def standing(snapshot: Snapshot) -> list[MeasuredResult]:
    """Return the benchmarks whose times stand on lines of the file, the newest first."""
    found = []
    for key, one in snapshot.measured.items():
        estimates = snapshot.kernels.get(Key(key.path, key.name, Tier.KERNELS))
        if one.shown.lines and not _gives_way(one.shown, estimates.shown if estimates is not None else None):
            found.append(one.shown)
    return sorted(found, key=lambda one: -one.generation)


def stands(result: KernelResult, measured: Iterable[MeasuredResult]) -> bool:
    """Whether a target's estimates stand on its lines: no measurement does."""
    return all((one.key.path, one.key.name) != (result.key.path, result.key.name) for one in measured)


def _gives_way(measured: MeasuredResult, estimates: KernelResult | None) -> bool:
    """Whether estimates are shown instead: of the code as it is now, or for another device, asked for since."""
    if estimates is None or not estimates.learnt:
        return False
    if measured.stale:
        return True
    elsewhere = measured.report.target_device is None or (
        estimates.report.target_device is not None
        and estimates.report.target_device.key != measured.report.target_device.key
    )
    return elsewhere and not estimates.stale and estimates.generation > measured.generation


def line_words(result: MeasuredResult, rows: list[MeasuredRow]) -> str:
    """Say what lines take: `2 kernels, 38.4 us +- 1%, 17% - measured on NVIDIA H200, fused with lines 12-19`."""
    launches = {id(launch): kernel for row in rows for launch, kernel in row.time.launches}
    kernels = sum(kernel is not None for kernel in launches.values())
    others = len(launches) - kernels
    counts = [words.counted(kernels, "kernel")] if kernels else []
    counts += [words.counted(others, "eager operator")] if others else []
    ranges = [row.time.range for row in rows]
    whole = Range(
        sum(one.us for one in ranges), sum(one.low for one in ranges), sum(one.high for one in ranges)
    )
    text = f"{' and '.join(counts)}, {words.time(whole.us)} {words.spread(whole.spread)}"
    if result.us:
        text += f", {words.percent(whole.us / result.us)}"
    measured, one = result.report.measured, result.configuration
    named = f" as {one.name}" if one is not None and one.name not in _PLAIN else ""
    text += f" - measured{named} on {words.device(measured.machine)}" if measured is not None else ""
    own = {row.place for row in rows}
    fused = line_ranges(set().union(*(row.fused_with for row in rows)) - own, rows[0].place)
    return text + (f", fused with {fused}" if fused else "") + caveats(result)
