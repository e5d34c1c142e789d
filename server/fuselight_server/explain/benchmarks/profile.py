"""What a profile says: the measured time of each line, what kernels achieve, and where the time of one call goes.

A kernel's time is shared between its lines exactly as estimates are; what no graph launched is on the line that called
it. Invariant: parts of lines are exact fractions, whose sum is that over all that ran on the device; the parts of a
call add up to its wall time, what the profile does not attribute is a part of its own, and kernels that overlap on
several streams count once. Where a launch stands for several kernels of a library, or a fact is missing, there is no
rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fuselight.shared.devices.estimate import rate
from fuselight.shared.report import (
    Device,
    Gap,
    GapKind,
    Kernel,
    KernelKind,
    LaunchKind,
    MeasuredConfiguration,
    MeasuredLaunch,
    Profile,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.benchmarks.timing_stats import Range
from fuselight_server.explain.kernels.shares import LinePart, place_of, shares

_TICKS = 1 << 40
"""Of a microsecond: far below what any clock tells."""


@dataclass
class LineTime(LinePart["tuple[MeasuredLaunch, Kernel | None]"]):
    """What one line takes on the device in one call: each launch with its kernel, if it could be joined to one."""

    low: Fraction = Fraction(0)
    high: Fraction = Fraction(0)
    """The line's part of the quartiles."""

    @property
    def range(self) -> Range:
        """The time and where it lies."""
        return together([self])


def together(lines: Sequence[LineTime]) -> Range:
    """Return the time of some lines in sum, and where it lies."""
    return Range(
        float(sum(line.us for line in lines)),
        float(sum(line.low for line in lines)),
        float(sum(line.high for line in lines)),
    )


def kernel_of(configuration: MeasuredConfiguration, launch: MeasuredLaunch) -> Kernel | None:
    """Return the kernel that a launch is joined to; None where there is none."""
    if launch.graph is None or launch.launch is None:
        return None
    if not 0 <= launch.graph < len(configuration.generated):
        return None
    kernels = configuration.generated[launch.graph].kernels
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


def times_by_line(configuration: MeasuredConfiguration, roots: Sequence[str]) -> tuple[LineTime, ...]:
    """Return the time of every line with a part in what ran on the device, the longest first."""
    times: dict[SourceLine | None, LineTime] = {}
    # Exact and fast: numerators are added up by denominator.
    sums: defaultdict[SourceLine | None, defaultdict[int, list[int]]]
    sums = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for launch in configuration.profile.launches if configuration.profile is not None else ():
        kernel = kernel_of(configuration, launch)
        parts = parts_of(launch, kernel, roots)
        ticks = (_ticks(launch.us), _ticks(launch.low_us), _ticks(launch.high_us))
        for place, part in parts.items():
            line = times.setdefault(place, LineTime(place))
            line.launches.append((launch, kernel))
            known = sums[place][part.denominator]
            for index, time in enumerate(ticks):
                known[index] += part.numerator * time
            line.fused_with.update(other for other in parts if other is not None and other != place)
    for place, line in times.items():
        line.us, line.low, line.high = (
            sum(
                (Fraction(known[index], bottom * _TICKS) for bottom, known in sums[place].items()), Fraction()
            )
            for index in range(3)
        )
    return tuple(sorted(times.values(), key=lambda line: (-line.us, line.place or SourceLine("", 0))))


def eager_times(row: MeasuredConfiguration, roots: Sequence[str]) -> dict[SourceLine, float]:
    """Return the time in eager mode of each line in one call: its own kernels, and its gaps in which none runs."""
    profile = row.profile
    launches = profile.launches if profile is not None else ()
    gaps = profile.gaps if profile is not None else ()
    eager = [(launch.stack, launch.us) for launch in launches if launch.kind is LaunchKind.EAGER]
    eager += [(gap.stack, gap.us) for gap in gaps if gap.kind is GapKind.EAGER]
    times: defaultdict[SourceLine, float] = defaultdict(float)
    for stack, us in eager:
        place = place_of(stack, roots)
        if place is not None and math.isfinite(us):
            times[place] += us
    return dict(times)


def whole_us(profile: Profile) -> float:
    """Return what all lines are in sum, microseconds: each launch's median, where `device_us` is that of the sums."""
    return float(Fraction(sum(_ticks(launch.us) for launch in profile.launches), _TICKS))


def main_place(launch: MeasuredLaunch, kernel: Kernel | None, roots: Sequence[str]) -> SourceLine | None:
    """Return the line with the largest part in a launch, the first of equals."""
    parts = parts_of(launch, kernel, roots)
    lines = sorted((-part, place) for place, part in parts.items() if place is not None)
    return lines[0][1] if lines else None


def _ticks(us: float) -> int:
    """Count a time in whole ticks, which add up exactly; what is no number counts as none."""
    ticks = us * _TICKS
    return round(ticks) if math.isfinite(ticks) else 0


_LIBRARIES = frozenset({KernelKind.EXTERN, KernelKind.FALLBACK})


@dataclass(frozen=True)
class Rates:
    """What one kernel achieves."""

    bandwidth_gbs: float | None = None
    tflops: float | None = None
    of_limit: float | None = None
    """Of what bounds it, from 0 to 1; None where the device's limits are not known."""
    bound: str | None = None
    """`memory` or `compute`: of which limit that is."""
    intensity: float | None = None
    """Floating-point operations for each byte."""


def rates(launch: MeasuredLaunch, kernel: Kernel | None, device: Device | None) -> Rates:
    """Return what a launch achieves."""
    # Of several kernels of a library, nobody knows which of them does the work that is counted.
    if kernel is None or (kernel.kind in _LIBRARIES and launch.count > 1) or launch.us <= 0:
        return Rates()
    times = max(launch.count, 1.0)
    moved = None
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        moved = kernel.bytes_read + kernel.bytes_written
    gbs = moved * times / launch.us / 1e3 if moved else None
    tflops = kernel.flops * times / launch.us / 1e6 if kernel.flops else None
    parts: dict[str, float] = {}
    if device is not None and gbs is not None and device.bandwidth_gbs > 0:
        parts["memory"] = gbs / device.bandwidth_gbs
    most = rate(device, kernel.dtype) if device is not None else None
    if tflops is not None and most:
        parts["compute"] = tflops / most
    bound = max(parts, key=lambda name: parts[name], default=None)
    return Rates(
        bandwidth_gbs=gbs,
        tflops=tflops,
        of_limit=min(parts[bound], 1.0) if bound is not None else None,  # more than 1 came out of a cache
        bound=bound,
        intensity=kernel.flops / moved if kernel.flops and moved else None,
    )


_NEGLIGIBLE = 0.001
"""Of the wall time: what is less is rounding."""

KERNEL = "kernel"
LAUNCHES = {
    LaunchKind.KERNEL: (KERNEL, "compiled kernels"),
    LaunchKind.EAGER: ("kernel_eager", "kernels that were not compiled"),
    LaunchKind.INPUTS: ("kernel_copy", "making the inputs of compiled graphs"),
    LaunchKind.COPY: ("kernel_copy", "copies and fills"),
}
GAPS = {
    GapKind.LAUNCH: "waiting for a kernel to start",
    GapKind.GUARDS: "checking guards",
    GapKind.WRAPPER: "code around compiled kernels",
    GapKind.EAGER: "calls that were not compiled",
    GapKind.SYNC: "waiting for the device",
    GapKind.COPY: "copies between host and device",
    GapKind.HOST: "Python and other work on the host",
}
FOREIGN = "operators of this backend, and what was not compiled"
"""Two kinds of work that look the same where a backend other than Inductor runs the graphs."""
_FOREIGN_LAUNCHES = {LaunchKind.EAGER: ("kernel_backend", f"kernels of {FOREIGN}")}
_FOREIGN_GAPS = {GapKind.EAGER: ("backend", f"calls of {FOREIGN}")}


@dataclass(frozen=True)
class Part:
    """A part of one call's wall time."""

    kind: str
    """`kernel`, `kernel_eager`, `kernel_copy`, `kernel_backend`; a GapKind's word, `backend`; `unknown`."""
    label: str
    us: float
    place: SourceLine | None = None
    what: str = ""


def parts(profile: Profile, roots: Sequence[str], *, foreign: bool = False) -> tuple[Part, ...]:
    """Return kernels by kind, then gaps by kind, longest first within a kind, then the unattributed time.

    `foreign`: a backend other than Inductor compiled the graphs.
    """
    parts = [*_kernels(profile, foreign=foreign), *_gaps(profile.gaps, roots, foreign=foreign)]
    rest = profile.wall_us - sum(part.us for part in parts)
    if rest > _NEGLIGIBLE * profile.wall_us:
        parts.append(Part("unknown", "unattributed", rest))
    return tuple(parts)


def _kernels(profile: Profile, *, foreign: bool) -> Iterator[Part]:
    whole = sum(max(launch.us, 0.0) for launch in profile.launches)
    if whole <= 0:
        if profile.kernel_us > 0:
            yield Part(KERNEL, "kernels", profile.kernel_us)
        return
    for kind, known in LAUNCHES.items():
        name, label = _FOREIGN_LAUNCHES.get(kind, known) if foreign else known
        us = sum(max(launch.us, 0.0) for launch in profile.launches if launch.kind is kind)
        if us > 0:
            yield Part(name, label, us * profile.kernel_us / whole)


def _gaps(gaps: Sequence[Gap], roots: Sequence[str], *, foreign: bool = False) -> Iterator[Part]:
    for kind, known in GAPS.items():
        plain = (kind.value, known)
        name, label = _FOREIGN_GAPS.get(kind, plain) if foreign else plain
        here: dict[tuple[SourceLine | None, str], float] = {}
        for gap in gaps:
            if gap.kind is kind:
                key = (place_of(gap.stack, roots), gap.what)
                here[key] = here.get(key, 0.0) + gap.us
        for (place, what), us in sorted(here.items(), key=lambda item: -item[1]):
            yield Part(name, label, us, place=place, what=what)


def of_kind(profile: Profile, *kinds: GapKind) -> float:
    """Return the time of gaps of these kinds in one call, microseconds."""
    return sum(gap.us for gap in profile.gaps if gap.kind in kinds)


def longest(profile: Profile, kind: GapKind, roots: Sequence[str]) -> tuple[SourceLine | None, str]:
    """Return the line, and the call, that most of the time of a kind goes to, of those that have a line if any has."""
    parts = [part for part in _gaps(profile.gaps, roots) if part.kind == kind.value]
    best = next((part for part in parts if part.place is not None), next(iter(parts), None))
    return (best.place, best.what) if best is not None else (None, "")
