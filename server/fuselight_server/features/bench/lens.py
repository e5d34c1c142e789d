"""Lenses of benchmarks: eager and compiled times on the target, the measured time of a line's kernels on lines.

Invariant: a measured time replaces an estimate as long as the code is what was measured; after an edit the estimates
are back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import Tier
from fuselight_server.features.lens import LONGEST, Info, age, shorten, with_state
from fuselight_server.formatting import format_count, format_line_ranges
from fuselight_server.kernels import SourceLine
from fuselight_server.measured import words
from fuselight_server.measured.timing_stats import WRITTEN
from fuselight_server.measured.words import first_calls, line_summary, target_summary
from fuselight_server.results.target_result import STILL_RUNNING
from fuselight_server.runs.keys import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight_server.results.benchmarks import MeasuredResult, MeasuredRow
    from fuselight_server.results.kernels import KernelResult, KernelRow
    from fuselight_server.session.state import Snapshot

BENCH = "fuselight.server.bench"
CANCEL = "fuselight.server.cancelBench"
ASK = "fuselight.benchmark"
SHOW = "fuselight.showBenchmark"
"""The client's commands: one that asks what to measure before it asks the server, one that opens the page."""

_PLAIN = frozenset({WRITTEN, "default"})
"""Configurations that a line does not name."""
_ROWS = 3
"""Configurations that a summary names, eager apart."""


def measured_key(snapshot: Snapshot, target: str) -> Key:
    """Name the benchmarks of a target; empty for the file's `__main__` block."""
    return Key(snapshot.path, target, Tier.MEASURED)


def target_info(result: MeasuredResult, *, is_running: bool, running: str) -> Info:
    """Say what was measured of a target: `eager 12.3 ms, default 4.1 ms (3.0×)`."""
    shown = result.shown
    state = running if is_running and result.unfinished else result.unfinished or age(shown)
    measured = shown.report.measured
    if result.unfinished == STILL_RUNNING and not result.has_data:
        return Info(first_calls(measured.configurations if measured else (), 2), state, SHOW)
    if not shown.has_data or measured is None:
        return Info(_nothing(result), "", SHOW)
    failed = ", failed" if result.report.failures or shown is not result else ""
    text = target_summary(measured, _ROWS, LONGEST - len(failed) - (len(state) + 3 if state else 0))
    return Info(text + failed, state, SHOW)


def summary(result: MeasuredResult) -> str:
    """Say all in one line: `eager 12.3 ms, default 4.1 ms (3.0×), measured on NVIDIA H200`."""
    shown = result.shown
    if result.unfinished == STILL_RUNNING and not result.has_data:
        rows = result.report.measured.configurations if result.report.measured is not None else ()
        return with_state(first_calls(rows, _ROWS + 1), "still measuring")
    if not shown.has_data or shown.report.measured is None:
        return shorten(_nothing(result), 2 * LONGEST)
    measured = shown.report.measured
    text = f"{target_summary(measured, _ROWS)}, measured on {words.device(measured.machine)}"
    if shown is not result:
        text += "; the benchmark after it failed"
    elif result.report.failures:
        text += ", failed"
    return text + caveats(shown)


def _nothing(result: MeasuredResult) -> str:
    return f"no benchmark: {result.failures[0].message if result.failures else 'nothing was measured'}"


def caveats(result: MeasuredResult) -> str:
    """Say why a result is not final, and that it is not of the current text."""
    return with_state(with_state("", result.unfinished), age(result))


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
    if estimates is None or not estimates.has_data:
        return False
    if measured.stale:
        return True
    elsewhere = measured.report.target_device is None or (
        estimates.report.target_device is not None
        and estimates.report.target_device.key != measured.report.target_device.key
    )
    return elsewhere and not estimates.stale and estimates.generation > measured.generation


def line_words(result: MeasuredResult, rows: list[MeasuredRow], *, longest: int | None = None) -> str:
    """Say the part of some lines: `2 kernels, 38.4 µs ± 1% (17%), fused with lines 12-19`.

    Without a length, all about them: where it was measured, and whether that is current.
    """
    text = line_summary((row.line for row in rows), result.us)
    if longest is not None:
        return text + fused(rows, longest - len(text))
    measured, one = result.report.measured, result.configuration
    named = f" as {one.name}" if one is not None and one.name not in _PLAIN else ""
    text += f", measured{named} on {words.device(measured.machine)}" if measured is not None else ""
    return text + fused(rows) + caveats(result)


def fused(rows: Sequence[KernelRow | MeasuredRow], longest: int | None = None) -> str:
    """`, fused with lines 12-19`: the lines that share kernels with `rows`; their number where that is too long."""
    lines = frozenset[SourceLine]().union(*(row.fused_with for row in rows)) - {row.place for row in rows}
    if not lines:
        return ""
    text = f", fused with {format_line_ranges(lines, rows[0].place)}"
    return (
        text
        if longest is None or len(text) <= longest
        else f", fused with {format_count(len(lines), 'line')}"
    )
