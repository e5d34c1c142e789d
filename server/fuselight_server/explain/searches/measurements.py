"""Times and gains of a search's candidates.

Invariant: a gain is that of rounds in which both were timed, one after the other; only without such rounds is it the
quotient of the medians.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from fuselight.shared.configurations import EAGER, MODES
from fuselight.shared.report import Measured, Timing, TuneCandidate, Tuned, TunedResult, TuneOutcome
from fuselight_server.explain.benchmarks.timing_stats import clock_of, timing_of

DEFAULT, *_OTHER_MODES = MODES
_LEAST_ROUNDS = 3
"""Rounds of a stage by which eager is compared."""
_MARGIN = 1.02
"""The least gain of what is clearly faster: the noise that a search assumes at least, on a CPU."""


def as_measured(tuned: Tuned) -> Measured:
    """The candidates as configurations of a benchmark."""
    rows = tuple(candidate.configuration for candidate in tuned.candidates)
    return Measured(tuned.work, tuned.machine, rows, finished=tuned.finished, started=tuned.started)


def candidate_of(tuned: Tuned, name: str) -> TuneCandidate | None:
    """The candidate of a configuration; None if the search has none of this name."""
    return next((candidate for candidate in tuned.candidates if candidate.configuration.name == name), None)


def has_decision(tuned: Tuned) -> bool:
    """Whether the search has shown which configuration is the fastest."""
    return tuned.result is not None


def is_confirmed(tuned: Tuned) -> bool:
    """Whether the result needs no confirming race, or has won one: that of a search that was ended early has not."""
    result = tuned.result
    return result is not None and (result.configuration == DEFAULT or tuned.confirmation is not None)


def is_tentative(tuned: Tuned) -> bool:
    """Whether a search ended before it could decide: nothing was confirmed, or nothing but `default` was measured."""
    if tuned.result is None or tuned.result.configuration != DEFAULT:
        return not is_confirmed(tuned)
    others = (
        candidate.configuration
        for candidate in tuned.candidates
        if candidate.outcome is not TuneOutcome.BASELINE
    )
    return not any(
        configuration.wall is not None or configuration.device is not None for configuration in others
    )


def gain(tuned: Tuned, name: str, base: str = DEFAULT) -> float | None:
    """The time of `base` divided by that of a candidate, median over the rounds that have both; None if unknown.

    Eager is timed at the start, and again where the search has decided: only the last of these rounds count. Those with
    torch's modes are later, and do not.
    """
    if name == base:
        return None
    each = _gains(tuned, name, base)
    if EAGER in {name, base}:
        modes = {sample.stage for sample in tuned.race if sample.name in _OTHER_MODES}
        last = [stage for stage, gains in each.items() if len(gains) >= _LEAST_ROUNDS and stage not in modes]
        each = {stage: each[stage] for stage in last[-1:]} or each
    ratios = [gain for gains in each.values() for gain in gains]
    if ratios:
        return statistics.median(ratios)
    mine, other = _timing(tuned, name), _timing(tuned, base)
    if mine is None or other is None or mine.median_us <= 0:
        return None
    return other.median_us / mine.median_us


def is_clearly_faster(tuned: Tuned, name: str, base: str) -> bool:
    """Whether a candidate was faster by a margin, in three quarters of the rounds that have both.

    Without such rounds: whether the quartiles of their times do not overlap.
    """
    ratio = gain(tuned, name, base)
    if ratio is None or ratio <= _MARGIN:
        return False
    each = [value for gain in _gains(tuned, name, base).values() for value in gain]
    if len(each) > 1:
        return statistics.quantiles(each, n=4, method="inclusive")[0] > _MARGIN
    mine, other = _timing(tuned, name), _timing(tuned, base)
    return mine is not None and other is not None and mine.high_us < other.low_us


def _gains(tuned: Tuned, name: str, base: str) -> dict[int, list[float]]:
    """The gain in each round that both have, by stage: a round is the nth of a stage."""
    gains: dict[int, list[float]] = {}
    for stage in dict.fromkeys(sample.stage for sample in tuned.race):
        mine, others = (
            [sample.us for sample in tuned.race if sample.stage == stage and sample.name == each]
            for each in (name, base)
        )
        each = [other / us for us, other in zip(mine, others) if us > 0]  # noqa: B905 - rounds that both have
        if each:
            gains[stage] = each
    return gains


def _timing(tuned: Tuned, name: str) -> Timing | None:
    """The times of all rounds of a candidate."""
    known = candidate_of(tuned, name)
    return timing_of(known.configuration, clock_of(as_measured(tuned))) if known is not None else None


def decided_gain(tuned: Tuned, name: str) -> float | None:
    """The gain over `default`; of the winner, the one of the decision. None if unknown."""
    result = tuned.result
    if name == DEFAULT:
        return 1.0
    return result.gain if result is not None and name == result.configuration else gain(tuned, name)


def over_eager(tuned: Tuned, name: str) -> float | None:
    """Eager's time divided by that of a candidate, by the gains of both over `default`; None if unknown.

    With an unsteady `default`, those may say otherwise than their own times which of the two is faster: it is unknown.
    """
    mine, eager = decided_gain(tuned, name), decided_gain(tuned, EAGER)
    if not mine or not eager:
        return gain(tuned, name, EAGER)
    ratio, ours, eagers = mine / eager, _timing(tuned, name), _timing(tuned, EAGER)
    if ours is None or eagers is None:
        return ratio
    is_faster, is_slower = ours.high_us < eagers.low_us, ours.low_us > eagers.high_us
    return None if (is_faster and ratio < 1) or (is_slower and ratio > 1) else ratio


@dataclass(frozen=True)
class ComparedTime:
    """A time that can be compared with those of the decision."""

    us: float
    """Microseconds of one call."""
    estimated: bool = False
    """Whether it comes from a gain: the configuration was not in the race that decided."""


def compared_time(tuned: Tuned, name: str) -> ComparedTime | None:
    """The time of a configuration next to those of the decision; None if it was not timed.

    A machine may be half as fast in one race as in another, so a median over all rounds cannot be compared with the
    times of the decision. What was not in the race that decided has its gain over the winner in the rounds of both, as
    torch's modes have, else its gain over `default`. Without a decision it is the median.
    """
    timing, result = _timing(tuned, name), tuned.result
    if timing is None:
        return None
    if result is None:
        return ComparedTime(timing.median_us)
    if name == DEFAULT:
        return ComparedTime(result.default_us)
    if name == result.configuration:
        return ComparedTime(result.us, estimated=tuned.confirmation is None)
    slower = over_eager(tuned, result.configuration) if name == EAGER else _over(tuned, name, result)
    return ComparedTime(result.us * slower, estimated=True) if slower else None


def _over(tuned: Tuned, name: str, winner: TunedResult) -> float | None:
    """The time of a configuration divided by that of the winner; None if unknown."""
    if _gains(tuned, winner.configuration, name):
        return gain(tuned, winner.configuration, name)
    mine = gain(tuned, name)
    return winner.gain / mine if mine else None
