"""The measured time of each line: a kernel's time shared between its lines exactly as estimates are.

What no graph launched is on the line that called it. Invariant: parts are exact fractions, so that the sum over lines,
with what has no line, equals the sum over all that ran on the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from fuselight_server.kernels.shares import SourceLine, place_of, shares
from fuselight_server.measured.timing_stats import Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight.report import Kernel, MeasuredConfiguration, MeasuredLaunch, Profile

_TICKS = 1 << 40
"""Of a microsecond: far below what any clock tells."""


@dataclass
class LineTime:
    """What one line takes on the device in one call; `place` is None for what has no line."""

    place: SourceLine | None
    launches: list[tuple[MeasuredLaunch, Kernel | None]] = field(default_factory=list)
    """Each with the kernel of the report that it is, where it could be joined to one."""
    us: Fraction = Fraction(0)
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(0)
    """The line's part of the quartiles."""
    fused_with: set[SourceLine] = field(default_factory=set)
    """Other lines that have operators in the same kernels."""

    @property
    def range(self) -> Range:
        """The time and where it lies."""
        return Range(float(self.us), float(self.low), float(self.high))

    @property
    def kernels(self) -> int:
        """How many kernels of compiled graphs it has a part in."""
        return sum(kernel is not None for _, kernel in self.launches)


def kernel_of(one: MeasuredConfiguration, launch: MeasuredLaunch) -> Kernel | None:
    """Return the kernel that a launch is joined to; None where there is none."""
    if launch.graph is None or launch.launch is None:
        return None
    if not 0 <= launch.graph < len(one.generated):
        return None
    kernels = one.generated[launch.graph].kernels
    if 0 <= launch.launch < len(kernels) and kernels[launch.launch].launch == launch.launch:
        return kernels[launch.launch]
    return next((kernel for kernel in kernels if kernel.launch == launch.launch), None)


def parts_of(
    launch: MeasuredLaunch, kernel: Kernel | None, roots: Sequence[str]
) -> dict[SourceLine | None, Fraction]:
    """Return the part of each line in a launch; the parts are 1 in sum."""
    if kernel is not None:
        return shares(kernel, roots)
    return {place_of(launch.stack, roots): Fraction(1)}


def times_by_line(one: MeasuredConfiguration, roots: Sequence[str]) -> tuple[LineTime, ...]:
    """Return the time of every line with a part in what ran on the device, the longest first."""
    found: dict[SourceLine | None, LineTime] = {}
    sums: dict[SourceLine | None, _Sums] = {}
    for launch in one.profile.launches if one.profile is not None else ():
        kernel = kernel_of(one, launch)
        parts = parts_of(launch, kernel, roots)
        ticks = (_ticks(launch.us), _ticks(launch.low_us), _ticks(launch.high_us))
        for place, part in parts.items():
            line = found.setdefault(place, LineTime(place))
            line.launches.append((launch, kernel))
            sums.setdefault(place, _Sums()).add(part, ticks)
            line.fused_with.update(other for other in parts if other is not None and other != place)
    for place, line in found.items():
        line.us, line.low, line.high = sums[place].totals()
    return tuple(sorted(found.values(), key=lambda line: (-line.us, line.place or SourceLine("", 0))))


class _Sums:
    """Three sums of parts of times, exact and fast: numerators are added up by denominator."""

    def __init__(self) -> None:
        self._by_denominator: dict[int, list[int]] = {}

    def add(self, part: Fraction, ticks: tuple[int, int, int]) -> None:
        """Add a part of three times."""
        known = self._by_denominator.setdefault(part.denominator, [0, 0, 0])
        for index, one in enumerate(ticks):
            known[index] += part.numerator * one

    def totals(self) -> tuple[Fraction, Fraction, Fraction]:
        """The three sums, microseconds."""
        first, second, third = (
            sum(
                (Fraction(known[index], bottom * _TICKS) for bottom, known in self._by_denominator.items()),
                Fraction(0),
            )
            for index in range(3)
        )
        return first, second, third


def whole_us(profile: Profile) -> float:
    """Return what all lines are in sum, microseconds: each launch's median, where `device_us` is that of the sums."""
    return float(Fraction(sum(_ticks(launch.us) for launch in profile.launches), _TICKS))


def main_place(launch: MeasuredLaunch, kernel: Kernel | None, roots: Sequence[str]) -> SourceLine | None:
    """Return the line with the largest part in a launch, the first of equals."""
    parts = parts_of(launch, kernel, roots)
    lines = sorted((-part, place) for place, part in parts.items() if place is not None)
    return lines[0][1] if lines else None


def exact(us: float) -> Fraction:
    """Return a time as it is counted."""
    return Fraction(_ticks(us), _TICKS)


def _ticks(us: float) -> int:
    """Count a time in whole ticks, which add up exactly; what is no number counts as none."""
    return round(us * _TICKS) if math.isfinite(us) else 0
