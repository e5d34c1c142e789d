"""Times and gains of a search's candidates.

Invariant: a gain is that of rounds in which both were timed, one after the other; only without such rounds is it the
quotient of the medians.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.configurations import EAGER, MODES
from fuselight.report import Measured, TuneOutcome
from fuselight_server.measured.timing_stats import clock_of, timing_of

if TYPE_CHECKING:
    from fuselight.report import RaceSample, TuneCandidate, Tuned

DEFAULT = MODES[0]


def as_measured(tuned: Tuned) -> Measured:
    """The candidates as configurations of a benchmark."""
    rows = tuple(one.configuration for one in tuned.candidates)
    return Measured(tuned.work, tuned.machine, rows, finished=tuned.finished, started=tuned.started)


def candidate_of(tuned: Tuned, name: str) -> TuneCandidate | None:
    """The candidate of a configuration; None if the search has none of this name."""
    return next((one for one in tuned.candidates if one.configuration.name == name), None)


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
    others = (one.configuration for one in tuned.candidates if one.outcome is not TuneOutcome.BASELINE)
    return not any(one.wall is not None or one.device is not None for one in others)


def gain(tuned: Tuned, name: str, base: str = DEFAULT) -> float | None:
    """The time of `base` divided by that of a candidate, median over the rounds that have both; None if unknown."""
    if name == base:
        return None
    ratios = [
        other.us / mine.us
        for mine, other in zip(_rounds(tuned, name, base), _rounds(tuned, base, name), strict=True)
        if mine.us > 0
    ]
    if ratios:
        return statistics.median(ratios)
    clock = clock_of(as_measured(tuned))
    mine, other = (candidate_of(tuned, one) for one in (name, base))
    mine_us, other_us = (
        timing_of(one.configuration, clock) if one is not None else None for one in (mine, other)
    )
    if mine_us is None or other_us is None or mine_us.median_us <= 0:
        return None
    return other_us.median_us / mine_us.median_us


def _rounds(tuned: Tuned, name: str, other: str) -> list[RaceSample]:
    """The samples of `name` whose round, the nth of a stage, `other` has too."""
    found = []
    for stage in dict.fromkeys(one.stage for one in tuned.race):
        mine, theirs = (
            [one for one in tuned.race if one.stage == stage and one.name == each] for each in (name, other)
        )
        found += mine[: len(theirs)]
    return found


def gain_over_eager(tuned: Tuned, name: str) -> float | None:
    """Eager's time divided by that of a candidate, by the gains of both over `default`; None if unknown."""
    mine, eager = (1.0 if one == DEFAULT else gain(tuned, one) for one in (name, EAGER))
    return mine / eager if mine and eager else None


@dataclass(frozen=True)
class ComparedTime:
    """A time that can be compared with those of the decision."""

    us: float
    """Microseconds of one call."""
    estimated: bool = False
    """Whether it is `default`'s time in the confirming race divided by a gain: it was not in that race itself."""


def compared_time(tuned: Tuned, name: str) -> ComparedTime | None:
    """The time of a configuration in the confirming race, or as it would have been there; None if unknown.

    A machine may be half as fast in one race as in another, so a median over all rounds cannot be compared with the
    times of a race. Without a confirming race that was won, it is that median.
    """
    result, race = tuned.result, tuned.confirmation
    if result is None or race is None or result.configuration == DEFAULT:
        known = candidate_of(tuned, name)
        timing = timing_of(known.configuration, clock_of(as_measured(tuned))) if known is not None else None
        return None if timing is None else ComparedTime(timing.median_us)
    if name in {DEFAULT, result.configuration}:
        return ComparedTime(race.default_us if name == DEFAULT else race.us)
    ratio = gain(tuned, name)
    return None if not ratio else ComparedTime(race.default_us / ratio, estimated=True)


def eager_gain(tuned: Tuned) -> float | None:
    """Eager's time divided by the winner's; None if unknown."""
    result, eager = tuned.result, compared_time(tuned, EAGER)
    if result is None or eager is None or result.us <= 0:
        return gain(tuned, tuned.winner, EAGER)
    return eager.us / result.us
