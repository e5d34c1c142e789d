"""One benchmark against another: of an earlier run, another branch, another file.

Invariant: lines are paired by their text, in order, also where their numbers moved; a line that was edited in place is
paired with itself. A change within both spreads is None and is never reported as a change. The diff also lists every
other difference between the two runs.
"""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.shared.report import Clock, Measured, MeasuredConfiguration, Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import (
    format_change,
    format_line_ranges,
    format_moment,
    format_target,
    format_time,
)
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.benchmarks.page_types import (
    ConfigurationChange,
    LineChange,
    PagePlace,
    RunComparison,
)
from fuselight_server.explain.benchmarks.profile import times_by_line
from fuselight_server.explain.benchmarks.timing_stats import (
    Range,
    change,
    clock_of,
    range_of,
    shown_of,
    timing_of,
)

_EARLIER = 5
"""Benchmarks whose readings are added to one of the same code."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.explain.benchmarks.history import BenchmarkRun, History
    from fuselight_server.explain.benchmarks.page import Shows
    from fuselight_server.explain.benchmarks.page_types import PastRun


@dataclass(frozen=True)
class Pair:
    """A time before and after; None on a side that has none."""

    before: Range | None
    after: Range | None

    @property
    def change(self) -> float | None:
        """By which part it changed; None where that is not known, or within the spreads."""
        return change(self.before, self.after) if self.before is not None and self.after is not None else None

    def __str__(self) -> str:
        """`1 ms -> 1.1 ms`, or the one time that there is."""
        return " -> ".join(format_time(side.us) for side in (self.before, self.after) if side is not None)


@dataclass(frozen=True)
class LinePair(Pair):
    """One line in both runs: a new one has no time before, and one that is gone none after."""

    place: SourceLine
    """Where it is now; where it was, for a line that is gone."""


@dataclass(frozen=True)
class Comparison:
    """What changed since `before`."""

    before: BenchmarkRun
    configurations: tuple[tuple[str, Pair], ...]
    lines: tuple[LinePair, ...]
    """Of the configuration whose profile stands on the lines, the largest change first."""
    differs: tuple[str, ...] = ()
    """What differed in addition to the code, as text: it may explain a change."""


def compare(before: BenchmarkRun, after: BenchmarkRun) -> Comparison:
    """Compare two runs."""
    old, new = before.report.measured, after.report.measured
    if old is None or new is None:
        return Comparison(before, (), ())
    clock = clock_of(new) if clock_of(new) is clock_of(old) else Clock.WALL
    was, now = (
        {
            configuration.name: range_of(timing)
            for configuration in side.configurations
            if (timing := timing_of(configuration, clock))
        }
        for side in (old, new)
    )
    return Comparison(
        before,
        tuple((name, Pair(was[name], later)) for name, later in now.items() if name in was),
        tuple(_lines(before, after, old, new)),
        tuple(_differences(before.report, after.report).values()),
    )


def with_earlier_readings(report: Report, history: History) -> Report:
    """Return a finished benchmark with what the last ones of the same code read, where a time depends on the process.

    Readings count where nothing but the configurations differs: neither files, versions, inputs nor the device.

    A call that the host limits takes another time in each process, and one process does not show it: its spread is
    small. Earlier processes show the range that a claim has to respect.
    """
    measured = report.measured
    if measured is None or not measured.finished:
        return report
    clock = clock_of(measured)
    wanted = {
        measured_configuration.name: timing
        for measured_configuration in measured.configurations
        if (timing := timing_of(measured_configuration, clock)) is not None
        and (measured_configuration.host_bound or timing.unsteady)
    }
    readings: defaultdict[str, list[float]] = defaultdict(list)
    for past in history.runs()[:_EARLIER] if wanted else ():
        run = history.read(past.id)
        earlier = run.report if run is not None else None
        if earlier is None or earlier.measured is None or earlier.files != report.files:
            continue
        if _differences(earlier, report).keys() - {"configurations"}:
            continue
        for configuration in earlier.measured.configurations:
            timing = timing_of(configuration, clock)
            if timing is not None and configuration.name in wanted:
                readings[configuration.name].append(timing.median_us)
    rows = {
        measured_configuration.name: measured_configuration
        for measured_configuration in measured.configurations
    }
    for name, earlier_us in readings.items():
        timing = replace(wanted[name], earlier_us=tuple(earlier_us))
        configuration = rows[name]
        rows[name] = (
            replace(configuration, device=timing)
            if clock is Clock.DEVICE
            else replace(configuration, wall=timing)
        )
    return replace(report, measured=replace(measured, configurations=tuple(rows.values())))


def _differences(before: Report, after: Report) -> dict[str, str]:
    """Return the facts that differ, by name, with both values as text."""
    facts = ((name, of(before), of(after)) for name, of in _FACTS.items())
    return {
        name: f"{name}: {then or 'unknown'} then, {now or 'unknown'} now"
        for name, then, now in facts
        if then != now
    }


def _measured(read: Callable[[Measured], object]) -> Callable[[Report], str]:
    return lambda report: str(read(report.measured)) if report.measured is not None else ""


_FACTS: dict[str, Callable[[Report], str]] = {
    "target": lambda report: format_target(report.target.name),
    "inputs": lambda report: "; ".join(call.text for call in report.inputs.calls) if report.inputs else "",
    "one call": _measured(lambda measured: words.WORK[measured.work]),
    "configurations": _measured(
        lambda measured: ", ".join(configuration.name for configuration in measured.configurations)
    ),
    "device": _measured(lambda measured: words.device(measured.machine)),
    "threads": _measured(lambda measured: measured.machine.threads or ""),
    "times by": _measured(lambda measured: words.CLOCK[clock_of(measured)]),
    "cache of the device": _measured(lambda measured: "cleared" if measured.cold_cache else "warm"),
    "torch": lambda report: report.versions.torch or "",
    "triton": lambda report: report.versions.triton or "",
    "Python": lambda report: report.versions.python,
    "driver": _measured(lambda measured: measured.machine.driver),
}
"""What has to be the same for a change to be the code's, by its name."""


def _lines(before: BenchmarkRun, after: BenchmarkRun, old: Measured, new: Measured) -> list[LinePair]:
    shown = shown_of(new)
    earlier = next(
        (
            configuration
            for configuration in old.configurations
            if shown and configuration.name == shown.name and configuration.profile is not None
        ),
        None,
    )
    if shown is None or earlier is None:
        return []
    was, now = _by_file(before, earlier), _by_file(after, shown)
    pairs: list[LinePair] = []
    for file in was.keys() | now.keys():
        pairs += _paired(was.get(file, []), now.get(file, []), before, after)
    return sorted(pairs, key=lambda pair: (-_size(pair), pair.place))


def _size(pair: Pair) -> float:
    if pair.before is None or pair.after is None:
        return max((side.us for side in (pair.before, pair.after) if side is not None), default=0.0)
    return abs(pair.after.us - pair.before.us) if pair.change is not None else 0.0


Timed = list[tuple[SourceLine, Range]]


def _by_file(run: BenchmarkRun, configuration: MeasuredConfiguration) -> dict[str, Timed]:
    """Return the lines with a time, from the top, by file; the target's own has the empty name."""
    lines_by_file: dict[str, Timed] = {}
    for line in times_by_line(configuration, run.report.roots):
        if line.place is not None:
            own = line.place.path == run.report.target.path
            name = "" if own else os.path.relpath(line.place.path, run.root)
            lines_by_file.setdefault(name, []).append((line.place, line.range))
    return {name: sorted(lines, key=lambda item: item[0]) for name, lines in lines_by_file.items()}


def _paired(was: Timed, now: Timed, before: BenchmarkRun, after: BenchmarkRun) -> Iterator[LinePair]:
    texts, new_texts = (
        [(run.line(place.path, place.line) or f"\0{place.line}").strip() for place, _ in side]
        for run, side in ((before, was), (after, now))
    )
    left: list[int] = []
    fresh: list[int] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, texts, new_texts, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and _in_place(was, now, (a, b), (c, d))):
            for index, other in zip(range(a, b), range(c, d), strict=True):
                yield LinePair(was[index][1], now[other][1], now[other][0])
        else:
            left += range(a, b)
            fresh += range(c, d)
    for other in fresh:  # a line that moved past others
        match = next((number for number in left if texts[number] == new_texts[other]), None)
        if match is not None:
            left.remove(match)
        yield LinePair(was[match][1] if match is not None else None, now[other][1], now[other][0])
    for index in left:
        yield LinePair(was[index][1], None, was[index][0])


def _in_place(was: Timed, now: Timed, old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether lines with other texts are the same, edited: they have not moved, or as far as the ones around them."""
    if old[1] - old[0] != new[1] - new[0]:
        return False

    def moved(index: int, other: int) -> int | None:
        inside = 0 <= index < len(was) and 0 <= other < len(now)
        return now[other][0].line - was[index][0].line if inside else None

    around = {0, moved(old[0] - 1, new[0] - 1), moved(old[1], new[1])}
    shifts = {moved(*pair) for pair in zip(range(*old), range(*new), strict=True)}
    return len(shifts) == 1 and shifts <= around


def changes_in_words(
    comparison: Comparison,
    after: BenchmarkRun,
    now: Callable[[SourceLine], SourceLine] = lambda place: place,
) -> tuple[str, ...]:
    """Say what changed: `default: +12%, 4.1 ms -> 4.6 ms`, then lines, as `+12%, line 42: 1 ms -> 1.1 ms`.

    `now`: how a line of now is called. A line of then that has other names now is quoted.
    """
    out = []
    for name, pair in comparison.configurations:
        if pair.change is not None:
            out.append(f"{name}: {format_change(pair.change)}, {pair}")
    reference = SourceLine(after.report.target.path, 0)
    for line in comparison.lines:
        where = format_line_ranges([now(line.place)], reference=reference)
        if line.change is not None:
            out.append(f"{format_change(line.change)}, {where}: {line}")
        elif line.before is None:
            out.append(f"new, {where}: {line}")
        elif line.after is None:
            is_numbered = now(line.place) == line.place
            text = (comparison.before.line(line.place.path, line.place.line) or "").strip()
            at = f"{where} of then" if is_numbered or not text else f"`{text}`"
            out.append(f"gone, {at}: {line}")
    return tuple(out)


def label(past: PastRun) -> str:
    """Name a run: when it was, where, and what it came to."""
    return ", ".join(part for part in (format_moment(past.when), past.device, past.label) if part)


def on_page(comparison: Comparison, view: Shows) -> RunComparison:
    """Return it for the page."""
    past = comparison.before.past
    return RunComparison(
        past.id,
        label(past),
        comparison.differs,
        tuple(
            ConfigurationChange(name, pair.before.us, pair.after.us, pair.change)
            for name, pair in comparison.configurations
            if pair.before is not None and pair.after is not None
        ),
        tuple(_line_changes(comparison, view)),
    )


def _line_changes(comparison: Comparison, view: Shows) -> Iterator[LineChange]:
    for line in comparison.lines:
        place = (
            view.page_line(line.place)
            if line.after is not None
            else _place_then(comparison, line.place, view)
        )
        if place is not None:
            before, after = (side.us if side is not None else None for side in (line.before, line.after))
            yield LineChange(place, before, after, line.change)


def _place_then(comparison: Comparison, at: SourceLine, view: Shows) -> PagePlace:
    """Return a line that is gone."""
    text = comparison.before.line(at.path, at.line) or ""
    shown, line, cell = view.shown(at.path), at.line, comparison.before.cell(at)
    if cell is not None:
        shown, line = f"{shown}:cell {cell[0]}", cell[1]
    return PagePlace("", f"{shown} (then)", line - 1, text.strip())
