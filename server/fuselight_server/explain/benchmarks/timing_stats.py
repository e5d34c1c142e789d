"""Decides whether one time differs from another, given the spread of both.

Invariant: a difference is reported only where the ranges of the two times do not overlap; the range of an unsteady time
is that of all its rounds, and of earlier benchmarks of the same code. A difference below `LEAST` of the time does not
count.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.configurations import EAGER, WRITTEN
from fuselight.shared.report import Accuracy, Clock, Measured, MeasuredConfiguration, Timing
from fuselight_server.base.formatting import format_spread, format_time, format_time_range

LEAST = 0.01
_WIDE = 0.05
"""Spread of a range beyond which the range is shown in place of the median."""


@dataclass(frozen=True)
class Range:
    """A time and where it lies, microseconds."""

    us: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half of the range, as a part of the time."""
        return (self.high - self.low) / 2 / self.us if self.us else 0.0


def range_of(timing: Timing) -> Range:
    """Return the median between its quartiles, or, where it varies, between the least and the largest reading."""
    low, high = timing.low_us, timing.high_us
    if timing.unsteady or timing.earlier_us:
        readings = (low, high, *timing.rounds_us, *timing.earlier_us)
        low, high = min(readings), max(readings)
    return Range(timing.median_us, low, high)


def varies(timing: Timing) -> bool:
    """Whether a single number would not describe the readings."""
    return timing.unsteady or (bool(timing.earlier_us) and range_of(timing).spread > _WIDE)


def time_text(timing: Timing, *, with_spread: bool = True) -> str:
    """`38.4 µs ± 1%`; `4.3–7.7 ms` where the readings vary."""
    if varies(timing):
        bounds = range_of(timing)
        return format_time_range(bounds.low, bounds.high)
    spread = spread_of(timing) if with_spread else None
    return format_time(timing.median_us) + (f" {format_spread(spread)}" if spread is not None else "")


def spread_of(timing: Timing) -> float | None:
    """Return half of what lies between the quartiles, as a part of the median; a single round has none."""
    return timing.spread if len(timing.rounds_us) != 1 else None


def change(before: Range, after: Range) -> float | None:
    """Return by which part of `before` it changed, as 0.12 for 12% more; None where their spreads do not carry it."""
    if before.us <= 0 or (before.low <= after.high and after.low <= before.high):
        return None
    part = after.us / before.us - 1
    return part if abs(part) >= LEAST else None


def eager_of(measured: Measured) -> MeasuredConfiguration | None:
    """Return eager's row."""
    return next(
        (configuration for configuration in measured.configurations if configuration.name == EAGER), None
    )


def compiled_of(measured: Measured) -> tuple[MeasuredConfiguration, ...]:
    """Return the rows of what was compiled."""
    return tuple(configuration for configuration in measured.configurations if configuration.name != EAGER)


def has_times(measured: Measured | None) -> bool:
    """Whether anything has a time."""
    rows = measured.configurations if measured is not None else ()
    return any(row.wall is not None or row.device is not None for row in rows)


def is_foreign(configuration: MeasuredConfiguration) -> bool:
    """Whether a backend other than Inductor compiled the graphs, so that their work looks like eager work."""
    return configuration.name != EAGER and bool(configuration.compiles) and configuration.cudagraphs is None


def clock_of(measured: Measured) -> Clock:
    """Return the clock that all rows have: the device's, where each that was timed has it."""
    timed = [
        configuration
        for configuration in measured.configurations
        if configuration.wall is not None or configuration.device is not None
    ]
    has_device = bool(timed) and all(configuration.device is not None for configuration in timed)
    return Clock.DEVICE if has_device else Clock.WALL


def timing_of(configuration: MeasuredConfiguration | None, clock: Clock) -> Timing | None:
    """Return a row's time by a clock; None where it has none, or there is no row."""
    if configuration is None:
        return None
    return configuration.device if clock is Clock.DEVICE else configuration.wall


def wrong_results(configuration: MeasuredConfiguration) -> Accuracy | None:
    """Return how a row's results compare with eager's where they differ; None for every other row."""
    return (
        configuration.accuracy
        if configuration.accuracy is not None and configuration.accuracy.passed is False
        else None
    )


def speedup(measured: Measured, configuration: MeasuredConfiguration) -> float | None:
    """Return eager's time as a part of a row's, by the clock that they share; None where one has none."""
    clock = clock_of(measured)
    base, mine = timing_of(eager_of(measured), clock), timing_of(configuration, clock)
    if base is None or mine is None or mine.median_us <= 0:
        return None
    return base.median_us / mine.median_us


def shown_of(measured: Measured) -> MeasuredConfiguration | None:
    """Return the row whose profile stands on the lines: as the source compiles it, else `default`, else the first.

    One whose results are wrong comes after all others: what it takes is no time of the same function.
    """
    rows = [configuration for configuration in compiled_of(measured) if configuration.profile is not None]
    right = [row for row in rows if wrong_results(row) is None]
    profiled = {row.name: row for row in right or rows}
    return profiled.get(WRITTEN) or profiled.get("default") or next(iter(profiled.values()), None)
