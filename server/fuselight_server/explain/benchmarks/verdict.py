"""What a benchmark comes to, in words: whether compiled is faster than eager, and what its time goes into.

Invariant: a sentence about a difference is only made where the spread of both times carries it (`timing_stats.change`);
a cause is a share that was measured, with the line that it belongs to where that is known. The first statement is the
headline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fuselight.shared.configurations import EAGER
from fuselight.shared.report import Accuracy, Measured, MeasuredConfiguration, Report, Timing
from fuselight_server.base.formatting import format_list, format_ratio, format_time
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.benchmarks.causes import Cause, Statement, causes
from fuselight_server.explain.benchmarks.timing_stats import (
    change,
    clock_of,
    compiled_of,
    eager_of,
    range_of,
    time_text,
    timing_of,
    varies,
    wrong_results,
)
from fuselight_server.explain.kernels.shares import place_of


def verdict(report: Report) -> tuple[Statement, ...]:
    """Return the statements about a benchmark; none where nothing was measured."""
    measured = report.measured
    if measured is None or not measured.configurations:
        return ()
    clock = clock_of(measured)
    eager = eager_of(measured)
    base = timing_of(eager, clock)
    timed = [
        (configuration, timing)
        for configuration in compiled_of(measured)
        if (timing := timing_of(configuration, clock)) is not None
    ]
    right = [item for item in timed if wrong_results(item[0]) is None]
    statements: list[Statement] = []
    if eager is None or base is None or not timed:
        statements += _without_comparison(measured, eager, base, timed)
    else:
        best, mine = min(right or timed, key=lambda item: item[1].median_us)
        statements += _compared(report, eager, best, base, mine, wrong=not right)
    statements += [
        _wrong(report, configuration.name, accuracy)
        for configuration, _ in timed
        if (accuracy := wrong_results(configuration))
    ]
    message = eager.failure.message if eager is not None and eager.failure is not None else None
    statements += [
        Statement(
            Cause.FAILED,
            f"{words.subject(configuration.name)} could not be measured: {configuration.failure.message}",
            configuration=configuration.name,
        )
        for configuration in compiled_of(measured)
        if configuration.failure is not None and configuration.failure.message != message
    ]
    return tuple(statements)


def _without_comparison(
    measured: Measured,
    eager: MeasuredConfiguration | None,
    base: Timing | None,
    timed: list[tuple[MeasuredConfiguration, Timing]],
) -> Iterator[Statement]:
    if base is None and eager is not None and eager.failure is not None:
        why = eager.failure.message
        yield Statement(
            Cause.FAILED, f"eager could not be measured, so there is nothing to compare with: {why}"
        )
    for configuration, timing in timed:
        takes = f"{words.subject(configuration.name)} takes {time_text(timing)}"
        yield Statement(Cause.TIME, takes, configuration=configuration.name)
    if not timed and base is not None:
        tried = [
            measured_configuration
            for measured_configuration in measured.configurations
            if measured_configuration.name != EAGER
        ]
        lack = "no other configuration was measured" if tried else "no compiled configuration was measured"
        still = "no other configuration has a time yet"
        yield Statement(Cause.TIME, f"eager takes {time_text(base)}; {lack if measured.finished else still}")


def _compared(
    report: Report,
    eager: MeasuredConfiguration,
    best: MeasuredConfiguration,
    base: Timing,
    mine: Timing,
    *,
    wrong: bool,
) -> Iterator[Statement]:
    part = change(range_of(base), range_of(mine))
    name, numbers = words.subject(best.name), f"{time_text(mine)} vs. {time_text(base)}"
    faster = part is not None and part < 0
    if part is None and (varies(mine) or varies(base)):
        cause, text = Cause.UNSTEADY, f"Too noisy to call: {name} {time_text(mine)}, eager {time_text(base)}"
    elif part is None:
        cause, text = Cause.EVEN, f"{name} is no faster than eager: {numbers} (within the spread)"
    elif faster:
        ratio = format_ratio(base.median_us / mine.median_us)
        cause, text = Cause.FASTER, f"{name} is {ratio} as fast as eager: {numbers}"
    else:
        cause, text = Cause.SLOWER, f"{name} takes {format_ratio(1 + part)} the time of eager: {numbers}"
    limited = [
        words.subject(configuration.name) for configuration in (best, eager) if configuration.host_bound
    ]
    text += f"; the host limits {format_list(limited)}" if limited else ""
    text += "; its results differ from eager's" if wrong else ""
    yield Statement(cause, text, configuration=best.name)
    if cause is not Cause.UNSTEADY:
        yield from _compile(best, eager, faster=faster)
    yield from causes(report, best, faster=faster)


def _compile(
    best: MeasuredConfiguration, eager: MeasuredConfiguration, *, faster: bool
) -> Iterator[Statement]:
    """After how many calls the compile has been worth it, by the host's clock, which alone has the first call."""
    wall, base = best.wall, eager.wall
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


def _wrong(report: Report, name: str, accuracy: Accuracy) -> Statement:
    which = next((f" in {tensor.what}" for tensor in accuracy.tensors if not tensor.passed), "")
    first = accuracy.first_operator
    where = f"; the first operator that differs is {first}" if first else ""
    text = f"{words.subject(name)} gives different results from eager{which}{where}"
    return Statement(Cause.ACCURACY, text, place_of(accuracy.first, report.roots), name)


def _about(calls: int) -> str:
    """Two digits: the times have no more."""
    if calls < 100:  # noqa: PLR2004 - two digits
        return str(calls)
    return f"about {round(calls, 2 - len(str(calls))):,}"
