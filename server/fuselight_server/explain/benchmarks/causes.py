"""What a compiled call's time goes into that could be won, each as a sentence with its line: shares of its profile.

Invariant: a share is of the wall time of the profiled call and was measured; what is below `SHARE` is left out. Kernels
are called slower than eager's only where the quartiles of both do not meet.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight.shared.report import GapKind, LaunchKind, MeasuredConfiguration, Profile, Report, Work
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_count, format_line_ranges, format_percent, format_time
from fuselight_server.explain.benchmarks.profile import (
    FOREIGN,
    LineTime,
    kernel_of,
    longest,
    main_place,
    of_kind,
    rates,
    times_by_line,
    together,
    whole_us,
)
from fuselight_server.explain.benchmarks.timing_stats import change, eager_of, is_foreign
from fuselight_server.explain.kernels.shares import place_of

SHARE = 0.1
"""Of a call's wall time: what takes less is not worth a sentence."""
NEAR = 0.7
"""Of the device's bandwidth: kernels above it are bound by memory traffic, and nothing but less of it helps."""
SLOWED = 1.25
"""Times the time of a call without the profiler: from there on, the text says so."""
_SLOWER = 3
"""The most lines to list that are slower than in eager mode."""


class Cause(str, enum.Enum):
    """What a statement is about."""

    FASTER = "faster"
    SLOWER = "slower"
    EVEN = "even"
    UNSTEADY = "unsteady"
    TIME = "time"
    FAILED = "failed"
    ACCURACY = "accuracy"
    COMPILE = "compile"
    GUARDS = "guards"
    BREAKS = "breaks"
    RECOMPILATIONS = "recompilations"
    LAUNCHES = "launches"
    WAITING = "waiting"
    COPIES = "copies"
    HOST = "host"
    MEMORY = "memory"
    KERNEL = "kernel"
    LINE = "line"


@dataclass(frozen=True)
class Statement:
    """One sentence, without a full stop."""

    cause: Cause
    text: str
    place: SourceLine | None = None
    configuration: str = ""
    """The configuration that it names; empty for a detail of the headline."""


def causes(report: Report, configuration: MeasuredConfiguration, *, faster: bool) -> Iterator[Statement]:
    """Yield what takes a part of the time that is worth a sentence; `faster`: what else could be won."""
    yield from _breaks(report, configuration)
    yield from _recompilations(report, configuration)
    profile = configuration.profile
    if profile is None or profile.wall_us <= 0:
        return
    yield from _gaps(report, configuration, profile)
    if not faster:
        yield from _slower_lines(report, configuration)
    yield from _memory(report, configuration, profile)
    yield from _longest_line(report, configuration, profile)


def _breaks(report: Report, configuration: MeasuredConfiguration) -> Iterator[Statement]:
    if not configuration.graph_breaks:
        return
    place = next((line for broken in report.breaks if (line := place_of(broken.stack, report.roots))), None)
    profile = configuration.profile
    launches = profile.launches if profile is not None and not is_foreign(configuration) else ()
    eager = sum(launch.us for launch in launches if launch.kind is LaunchKind.EAGER)
    took = f"; the eager operators there take {format_time(eager)} on the device" if eager else ""
    if place is None and profile is not None:
        place, _ = longest(profile, GapKind.EAGER, report.roots)
    across = "it" if configuration.graph_breaks == 1 else "them"
    yield Statement(
        Cause.BREAKS,
        f"{format_count(configuration.graph_breaks, 'graph break')}: no fusion across {across}{took}",
        place,
    )


def _recompilations(report: Report, configuration: MeasuredConfiguration) -> Iterator[Statement]:
    if not configuration.recompiles:
        return
    place = next(
        (
            SourceLine(recompilation.location.path, recompilation.location.line)
            for recompilation in report.recompiles
        ),
        None,
    )
    yield Statement(
        Cause.RECOMPILATIONS,
        f"{format_count(configuration.recompiles, 'recompilation')}: each adds a compile to a call",
        place,
    )


def _gaps(report: Report, configuration: MeasuredConfiguration, profile: Profile) -> Iterator[Statement]:
    def share_of(cause: Cause, text: str, kind: GapKind) -> Iterator[Statement]:
        us = of_kind(profile, kind)
        if us >= SHARE * profile.wall_us:
            place, what = longest(profile, kind, report.roots)
            call = f" ({what})" if what else ""
            share = format_percent(us / profile.wall_us)
            of = _profiled_call(configuration, profile)
            yield Statement(cause, f"{share} of {of} is {text}{call}: {format_time(us)}", place)

    yield from share_of(Cause.GUARDS, "checking guards", GapKind.GUARDS)
    yield from _launches(configuration, profile)
    if is_foreign(configuration):
        yield from share_of(Cause.HOST, f"calls of {FOREIGN}", GapKind.EAGER)
    else:
        yield from share_of(Cause.BREAKS, "calls that were not compiled", GapKind.EAGER)
    yield from share_of(Cause.WAITING, "waiting for the device", GapKind.SYNC)
    yield from share_of(Cause.COPIES, "copies between host and device", GapKind.COPY)
    yield from share_of(Cause.HOST, "Python and other work on the host", GapKind.HOST)


def _launches(configuration: MeasuredConfiguration, profile: Profile) -> Iterator[Statement]:
    us = of_kind(profile, GapKind.LAUNCH, GapKind.WRAPPER)
    if us < SHARE * profile.wall_us:
        return
    count = sum(launch.count for launch in profile.launches)
    hint = ""
    if configuration.cudagraphs is False and configuration.device is not None:
        hint = "; mode='reduce-overhead' replays them as one CUDA graph where possible"
    yield Statement(
        Cause.LAUNCHES,
        f"{format_percent(us / profile.wall_us)} of {_profiled_call(configuration, profile)} is launching "
        f"{format_count(count, 'kernel')}, "
        f"while the device is idle: {format_time(us)}{hint}",
    )


def _profiled_call(configuration: MeasuredConfiguration, profile: Profile) -> str:
    """What a share is of: where the profiler slows the call, its host parts are larger than those of a timed call."""
    timed = configuration.wall
    is_slowed = timed is not None and profile.wall_us > SLOWED * timed.median_us  # not for an unknown time
    if timed is None or not is_slowed:
        return "a call"
    return (
        f"a call under the profiler, which takes {format_time(profile.wall_us)} in place of "
        f"{format_time(timed.median_us)},"
    )


def _slower_lines(report: Report, configuration: MeasuredConfiguration) -> Iterator[Statement]:
    """Lines whose kernels take longer than eager's do; those that share kernels are compared together."""
    measured = report.measured
    eager = eager_of(measured) if measured is not None else None
    # Eager's backward kernels are on no line of their own, or on other lines than a compiled backward's.
    if measured is None or eager is None or eager.profile is None or measured.work is not Work.INFERENCE:
        return
    before = {line.place: line for line in times_by_line(eager, report.roots)}
    slower = []
    for group in _groups(times_by_line(configuration, report.roots)):
        known = [before[line.place] for line in group if line.place in before]
        if len(known) < len(group):
            continue  # what eager did there is not known
        old, new = together(known), together(group)
        least = SHARE / 2 * configuration.profile.wall_us if configuration.profile is not None else 0.0
        if change(old, new) is not None and new.us - old.us > least:
            slower.append((new.us - old.us, group, old, new))
    for _, group, old, new in sorted(slower, key=lambda item: -item[0])[:_SLOWER]:
        launch, _ = max((item for line in group for item in line.launches), key=lambda item: item[0].us)
        places = [line.place for line in group if line.place is not None]
        first = min(places)
        yield Statement(
            Cause.KERNEL,
            f"the kernels of {format_line_ranges(places, reference=first)} take {format_time(new.us)}, vs. "
            f"{format_time(old.us)} in eager: {launch.name}",
            first,
        )


def _groups(lines: Iterable[LineTime]) -> list[list[LineTime]]:
    """Put lines together that share kernels, directly or through others."""
    left = {line.place: line for line in lines if line.place is not None}
    groups = []
    while left:
        _, line = left.popitem()
        group, wanted = [line], set(line.fused_with)
        while wanted:
            other = left.pop(wanted.pop(), None)
            if other is not None:
                group.append(other)
                wanted |= other.fused_with
        groups.append(group)
    return groups


def _memory(report: Report, configuration: MeasuredConfiguration, profile: Profile) -> Iterator[Statement]:
    near = []
    for launch in profile.launches:
        kernel = kernel_of(configuration, launch)
        achieved = rates(launch, kernel, report.target_device)
        if achieved.bound == "memory" and achieved.of_limit is not None and achieved.of_limit >= NEAR:
            near.append((launch.us, main_place(launch, kernel, report.roots)))
    us = sum(taken for taken, _ in near)
    whole = whole_us(profile)
    if whole > 0 and us >= whole / 2:
        yield Statement(
            Cause.MEMORY,
            f"{format_percent(us / whole)} of the kernel time runs at {format_percent(NEAR)} or more of "
            "the device's memory bandwidth: only less memory traffic makes it faster",
            max(near, key=lambda item: item[0])[1],
        )


def _longest_line(
    report: Report, configuration: MeasuredConfiguration, profile: Profile
) -> Iterator[Statement]:
    lines = [line for line in times_by_line(configuration, report.roots) if line.place is not None]
    whole = whole_us(profile)
    if len(lines) <= 1 or whole <= 0 or float(lines[0].us) / whole < SHARE:
        return
    us = float(lines[0].us)
    yield Statement(
        Cause.LINE,
        f"this line has the largest part of the kernel time: {format_time(us)}, {format_percent(us / whole)}",
        lines[0].place,
    )
