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
    from fuselight.report import RaceSample, TuneCandidate, Tuned, TunedResult

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


def decided_gain(tuned: Tuned, name: str) -> float | None:
    """The gain over `default`; of the winner, the one of the decision. None if unknown."""
    result = tuned.result
    if name == DEFAULT:
        return 1.0
    return result.gain if result is not None and name == result.configuration else gain(tuned, name)


def over_eager(tuned: Tuned, name: str) -> float | None:
    """Eager's time divided by that of a candidate, by the gains of both over `default`; None if unknown."""
    mine, eager = decided_gain(tuned, name), decided_gain(tuned, EAGER)
    return mine / eager if mine and eager else gain(tuned, name, EAGER)


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
    times of the confirming race. What was not in it has its gain over the winner in the rounds of both, as torch's
    modes have, else its gain over `default`. Where nothing beat `default`, it is the median.
    """
    known, result = candidate_of(tuned, name), tuned.result
    timing = timing_of(known.configuration, clock_of(as_measured(tuned))) if known is not None else None
    if timing is None:
        return None
    if result is None or result.configuration == DEFAULT:
        return ComparedTime(timing.median_us)
    if name == DEFAULT:
        return ComparedTime(result.default_us)
    if name == result.configuration:
        return ComparedTime(result.us, estimated=tuned.confirmation is None)
    slower = over_eager(tuned, result.configuration) if name == EAGER else _over(tuned, name, result)
    return ComparedTime(result.us * slower, estimated=True) if slower else None


def _over(tuned: Tuned, name: str, winner: TunedResult) -> float | None:
    """The time of a configuration divided by that of the winner; None if unknown."""
    if _rounds(tuned, name, winner.configuration):
        return gain(tuned, winner.configuration, name)
    mine = gain(tuned, name)
    return winner.gain / mine if mine else None
