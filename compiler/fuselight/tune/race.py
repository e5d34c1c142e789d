"""The race of configurations: interleaved rounds, successive halving, and the race against `default` that decides.

Invariant: configurations are compared by rounds that they ran in turn, because a machine may be slower at one moment
than at another. What disturbs a round only makes it longer, so a race compares the lower quartiles of the rounds that
two configurations share; the confirming race compares pairs of rounds, and so includes the disturbances of a program.
Nothing here starts a process or reads a clock of its own, so that recorded timings can be replayed. Standard library
only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fuselight.shared.report.tuned import Confirmation

LEAST_ROUNDS = 3
"""Rounds of the confirming race that are run whatever the deadline."""
_CONFIDENCE = 0.95
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Two-sided 95% quantiles of Student's t by degrees of freedom, for too few rounds for order statistics."""
_LEAST_FOR_ORDER = 6
"""Rounds below which the least and the largest ratio are no 95% interval: 2 / 2^5 is more than 5%."""
_HOPELESS = 0.25
"""A configuration that is slower by this much after its first rounds is not timed further."""
_HOPELESS_ROUNDS = 3


class Entrant(Protocol):
    """One compiled and warmed-up configuration."""

    @property
    def name(self) -> str:
        """Its notation."""
        ...

    @property
    def us(self) -> float:
        """Microseconds of one steady call, from its warm-up: only for the number of calls in a round."""
        ...

    def round(self, calls: int, /) -> float | None:
        """Time some calls; the median in microseconds. None if it has failed: it is not asked again."""
        ...


Sample = Callable[[int, str, float], None]
"""Receives each round: the stage from 1, the name, the microseconds."""


@dataclass(frozen=True)
class RoundPlan:
    """How rounds are timed."""

    calls: Callable[[float], int]
    """The calls of a round, from the microseconds of one call."""
    clock: Callable[[], float]
    """Seconds."""
    deadline: float = math.inf
    """No round starts after it, except the first ones."""
    least: int = 1
    """Rounds of a race that are run whatever the deadline."""
    sample: Sample = lambda *_: None

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self.deadline

    def time(self, entrant: Entrant, stage: int) -> float | None:
        """Time one round of an entrant; None if it has failed."""
        us = entrant.round(self.calls(entrant.us))
        if us is not None:
            self.sample(stage, entrant.name, us)
        return us


@dataclass(frozen=True)
class RaceResult:
    """One configuration after a race."""

    entrant: Entrant
    us: float
    """Median over its rounds, microseconds."""
    ratio: float
    """Its time divided by the leader's: lower quartiles of the rounds that both have."""
    stage: int
    """The last stage that it took part in, from 1."""
    eliminated: bool = False
    """Whether it left the race before the end because it was too slow."""
    failed: bool = False


@dataclass(frozen=True)
class Race:
    """The outcome of a race."""

    standings: tuple[RaceResult, ...]
    """The best first. Survivors of the last stage, then those eliminated, then those that failed."""
    rounds: int = 0
    """Number of rounds."""
    finished: bool = True
    """False if the deadline ended it early."""


def halve(
    entrants: Sequence[Entrant],
    plan: RoundPlan,
    *,
    noise: float,
    rounds_per_stage: Sequence[int] = (4, 5, 8),
    keep: float = 0.5,
) -> Race:
    """Race configurations in stages, each of which keeps the faster part.

    `entrants` come in the order of preference: the simplest first, which wins a tie. A configuration leaves after a
    stage if it is not among the best `ceil(keep * n)` and is slower than the leader by more than `noise`, and within a
    stage if it is hopeless. A single entrant is timed for one stage.
    """
    lanes = [_Lane(entrant, place) for place, entrant in enumerate(entrants)]
    finished, number = True, 0
    for stage, rounds in enumerate(rounds_per_stage, start=1):
        if stage > 1 and (not finished or len(_racing(lanes)) <= 1):
            break
        for _ in range(rounds):
            finished = number < plan.least or not plan.is_over
            if not finished:
                break
            _round(lanes, plan, stage, number)
            number += 1
            _leave_hopeless(_racing(lanes))
        _leave_slow(_racing(lanes), keep, noise)
    return Race(_standings(lanes, noise), number, finished)


def confirm(
    winner: Entrant, default: Entrant, plan: RoundPlan, *, rounds: int, stage: int
) -> Confirmation | None:
    """Race two configurations with fresh rounds, in alternating order; None if one of them failed.

    The first LEAST_ROUNDS rounds are run whatever the deadline is. `stage` is for the samples.
    """
    times: list[tuple[float, float]] = []
    for number in range(rounds):
        if number >= LEAST_ROUNDS and plan.is_over:
            break
        taken: dict[str, float] = {}
        for who in ("default", "winner") if number % 2 else ("winner", "default"):
            us = plan.time(winner if who == "winner" else default, stage)
            if us is None:
                return None
            taken[who] = us
        times.append((taken["winner"], taken["default"]))
    return confirmation(times)


def confirmation(times: Sequence[tuple[float, float]]) -> Confirmation | None:
    """The outcome of paired rounds, each as (winner, default) in microseconds; None for fewer than two rounds."""
    gains = [default / winner for winner, default in times if winner > 0 and default > 0]
    if len(gains) <= 1:
        return None
    low, high = interval(gains)
    return Confirmation(
        us=statistics.median(winner for winner, _ in times),
        default_us=statistics.median(default for _, default in times),
        gain=statistics.median(gains),
        low=low,
        high=high,
        rounds=len(times),
    )


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """A 95% interval of the median of positive ratios: order statistics, which assume nothing of their distribution.

    For less than 6 ratios there is none: the interval is Student's, of their logarithms. Needs two ratios at least.
    """
    ordered = sorted(ratios)
    count = len(ordered)
    if count < _LEAST_FOR_ORDER:
        logarithms = [math.log(ratio) for ratio in ordered]
        middle = statistics.mean(logarithms)
        margin = _STUDENT[count - 1] * statistics.stdev(logarithms) / math.sqrt(count)
        return math.exp(middle - margin), math.exp(middle + margin)
    below, outside = 0, 1 / 2**count  # the probability that so many or fewer ratios are below the median
    while outside + math.comb(count, below + 1) / 2**count <= (1 - _CONFIDENCE) / 2:
        below += 1
        outside += math.comb(count, below) / 2**count
    return ordered[below], ordered[count - 1 - below]


def is_faster(decided: Confirmation | None, noise: float) -> bool:
    """Whether the race shows the winner to be faster than `default`: by more than the spread, and with 95%."""
    return decided is not None and decided.low > 1 and decided.gain > 1 + noise


@dataclass(eq=False)
class _Lane:
    """One configuration in a race."""

    entrant: Entrant
    place: int
    """Position in the order of preference."""
    times: dict[int, float] = field(default_factory=dict)
    """Microseconds of each round, by the number of the round."""
    stage: int = 0
    eliminated: bool = False
    failed: bool = False

    def ratio_to(self, other: _Lane) -> float:
        """Its time divided by that of another lane; infinite without a common round."""
        common = self.times.keys() & other.times.keys()
        if not common:
            return math.inf
        return _lower_quartile(self.times[number] for number in common) / _lower_quartile(
            other.times[number] for number in common
        )


def _lower_quartile(values: Iterable[float]) -> float:
    """The value that a quarter of the values is below, the least of up to four."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


def _racing(lanes: Sequence[_Lane]) -> list[_Lane]:
    return [lane for lane in lanes if not lane.eliminated and not lane.failed]


def _round(lanes: Sequence[_Lane], plan: RoundPlan, stage: int, number: int) -> None:
    """Time each racing lane once, in an order that rotates from round to round.

    If the last racing lane fails, those that lost against it are back.
    """
    racing = _racing(lanes)
    shift = number % len(racing) if racing else 0
    for lane in (*racing[shift:], *racing[:shift]):
        lane.stage = stage
        us = plan.time(lane.entrant, stage)
        if us is None:
            lane.failed = True
        else:
            lane.times[number] = us
    if not _racing(lanes):
        for lane in lanes:
            lane.eliminated = False


def _leader(lanes: Sequence[_Lane]) -> _Lane | None:
    """The fastest lane: the one with the least ratio to the first lane."""
    timed = [lane for lane in lanes if lane.times]
    return min(timed, key=lambda lane: (lane.ratio_to(timed[0]), lane.place), default=None)


def _leave_hopeless(racing: Sequence[_Lane]) -> None:
    leader = _leader(racing)
    if leader is None:
        return
    for lane in racing:
        if len(lane.times) >= _HOPELESS_ROUNDS and lane.ratio_to(leader) > 1 + _HOPELESS:
            lane.eliminated = True


def _leave_slow(racing: Sequence[_Lane], keep: float, noise: float) -> None:
    leader = _leader(racing)
    if leader is None:
        return
    ordered = sorted(racing, key=lambda lane: (lane.ratio_to(leader), lane.place))
    for lane in ordered[math.ceil(keep * len(ordered)) :]:
        if lane.ratio_to(leader) > 1 + noise:
            lane.eliminated = True


def _standings(lanes: Sequence[_Lane], noise: float) -> tuple[RaceResult, ...]:
    """Everyone, the best first; of those that tie with the fastest, the simplest is the best."""
    racing = _racing(lanes)
    leader = _leader(racing) or _leader(lanes)

    def order(lane: _Lane) -> tuple[bool, bool, bool, float, int]:
        if leader is None or not lane.times:
            return lane.failed, lane.eliminated, True, math.inf, lane.place
        ties = lane in racing and lane.ratio_to(leader) <= 1 + noise
        return (
            lane.failed,
            lane.eliminated,
            not ties,
            lane.place if ties else lane.ratio_to(leader),
            lane.place,
        )

    return tuple(
        RaceResult(
            lane.entrant,
            us=statistics.median(lane.times.values()) if lane.times else math.inf,
            ratio=lane.ratio_to(leader) if leader is not None and lane.times else math.inf,
            stage=lane.stage,
            eliminated=lane.eliminated,
            failed=lane.failed,
        )
        for lane in sorted(lanes, key=order)
    )
