"""What a benchmark comes to, in words: whether compiled is faster than eager, and what its time goes into.

Invariant: a sentence about a difference is only made where the spread of both times carries it (`comparing.change`); a
cause is a share that was measured, with the line that it belongs to where that is known. The first statement is the
headline.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuselight_server.formatting import format_list, format_ratio, format_time
from fuselight_server.kernels.shares import place_of
from fuselight_server.measured import words
from fuselight_server.measured.causes import Cause, Statement, causes
from fuselight_server.measured.timing_stats import (
    EAGER,
    change,
    clock_of,
    compiled_of,
    eager_of,
    range_of,
    time_text,
    timing_of,
    varies,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Clock, Measured, MeasuredConfiguration, Report, Timing


def verdict(report: Report) -> tuple[Statement, ...]:
    """Return the statements about a benchmark; none where nothing was measured."""
    measured = report.measured
    if measured is None or not measured.configurations:
        return ()
    clock = clock_of(measured)
    eager = eager_of(measured)
    base = timing_of(eager, clock) if eager is not None else None
    timed = [one for one in compiled_of(measured) if timing_of(one, clock) is not None]
    right = [one for one in timed if not _is_wrong(one)]
    best = min(right or timed, key=lambda one: _us(one, clock), default=None)
    found: list[Statement] = []
    if best is None or base is None:
        found += _without_comparison(measured, base, timed, clock)
    else:
        mine = timing_of(best, clock)
        if mine is not None:
            found += _compared(report, best, base, mine, wrong=not right)
    found += [_wrong(report, one) for one in timed if _is_wrong(one)]
    said = eager.failure.message if eager is not None and eager.failure is not None else None
    found += [
        Statement(
            Cause.FAILED,
            f"{words.subject(one.name)} could not be measured: {one.failure.message}",
            configuration=one.name,
        )
        for one in compiled_of(measured)
        if one.failure is not None and one.failure.message != said
    ]
    return tuple(found)


def _us(one: MeasuredConfiguration, clock: Clock) -> float:
    timing = timing_of(one, clock)
    return timing.median_us if timing is not None else math.inf


def _is_wrong(one: MeasuredConfiguration) -> bool:
    return one.accuracy is not None and one.accuracy.passed is False


def _eager_failed(one: MeasuredConfiguration) -> Statement:
    message = one.failure.message if one.failure is not None else "it has no time"
    return Statement(
        Cause.FAILED, f"eager could not be measured, so there is nothing to compare with: {message}"
    )


def _without_comparison(
    measured: Measured, base: Timing | None, timed: list[MeasuredConfiguration], clock: Clock
) -> Iterator[Statement]:
    eager = eager_of(measured)
    if base is None and eager is not None and eager.failure is not None:
        yield _eager_failed(eager)
    for one in timed:
        yield Statement(
            Cause.TIME,
            f"{words.subject(one.name)} takes {_time(timing_of(one, clock))}",
            configuration=one.name,
        )
    if not timed and base is not None:
        tried = [one for one in measured.configurations if one.name != EAGER]
        lack = "no other configuration was measured" if tried else "no compiled configuration was measured"
        still = "no other configuration has a time yet"
        yield Statement(Cause.TIME, f"eager takes {_time(base)}; {lack if measured.finished else still}")


def _compared(
    report: Report, best: MeasuredConfiguration, base: Timing, mine: Timing, *, wrong: bool
) -> Iterator[Statement]:
    part = change(range_of(base), range_of(mine))
    numbers = f"{_time(mine)} vs. {_time(base)}"
    but = "; its results differ from eager's" if wrong else ""
    but = _limits(best, eager_of(report.measured) if report.measured is not None else None) + but
    if part is not None and part < 0:
        fast = (
            f"{words.subject(best.name)} is {format_ratio(base.median_us / mine.median_us)} as fast as eager"
        )
        yield Statement(Cause.FASTER, f"{fast}: {numbers}{but}", configuration=best.name)
    elif part is not None:
        slow = f"{words.subject(best.name)} takes {format_ratio(1 + part)} the time of eager"
        yield Statement(Cause.SLOWER, f"{slow}: {numbers}{but}", configuration=best.name)
    elif varies(mine) or varies(base):
        name = words.subject(best.name)
        yield Statement(
            Cause.UNSTEADY,
            f"Too noisy to call: {name} {_time(mine)}, eager {_time(base)}{but}",
            configuration=best.name,
        )
    else:
        yield Statement(
            Cause.EVEN,
            f"{words.subject(best.name)} is no faster than eager: {numbers} (within the spread){but}",
            configuration=best.name,
        )
    if part is not None or not (varies(mine) or varies(base)):
        yield from _compile(best, report, faster=part is not None and part < 0)
    yield from causes(report, best, faster=part is not None and part < 0)


def _compile(best: MeasuredConfiguration, report: Report, *, faster: bool) -> Iterator[Statement]:
    """After how many calls the compile has been worth it, by the host's clock, which alone has the first call."""
    measured = report.measured
    eager = eager_of(measured) if measured is not None else None
    wall, base = best.wall, eager.wall if eager is not None else None
    if best.first_us is None or wall is None or base is None:
        return
    extra = best.first_us + (best.second_us or wall.median_us) - 2 * wall.median_us
    if extra <= 0:
        return
    cold = f"its cold compile takes {format_time(extra)}"
    won = change(range_of(base), range_of(wall))
    if won is not None and won < 0:
        calls = math.ceil(extra / (base.median_us - wall.median_us))
        yield Statement(Cause.COMPILE, f"{cold}, which pays off after {_about(calls)} calls")
    elif not faster:
        yield Statement(Cause.COMPILE, f"{cold}, which later calls do not recover")


def _wrong(report: Report, one: MeasuredConfiguration) -> Statement:
    accuracy = one.accuracy
    place = place_of(accuracy.first, report.roots) if accuracy is not None else None
    failed = [tensor for tensor in accuracy.tensors if not tensor.passed] if accuracy is not None else []
    which = f" in {failed[0].what}" if failed else ""
    where = (
        f"; the first operator that differs is {accuracy.first_operator}"
        if accuracy and accuracy.first_operator
        else ""
    )
    return Statement(
        Cause.ACCURACY,
        f"{words.subject(one.name)} gives different results from eager{which}{where}",
        place,
        one.name,
    )


def _limits(best: MeasuredConfiguration, eager: MeasuredConfiguration | None) -> str:
    """`; the host limits eager`: names the configurations whose time depends on the host's load."""
    rows = [one for one in (best, eager) if one is not None and one.host_bound]
    return f"; the host limits {format_list(words.subject(one.name) for one in rows)}" if rows else ""


def _time(timing: Timing | None) -> str:
    return time_text(timing) if timing is not None else "an unknown time"


def _about(calls: int) -> str:
    """Two digits: the times have no more."""
    if calls < 100:  # noqa: PLR2004 - two digits
        return str(calls)
    scale = 10 ** (len(str(calls)) - 2)
    return f"about {round(calls / scale) * scale:,}"
