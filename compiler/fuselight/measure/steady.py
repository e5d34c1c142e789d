"""When a time is steady, and what it is then: medians, quartiles, rounds. Standard library only.

Invariant: nothing is thrown away: a round that something disturbed widens the spread, which is told.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from fuselight.report import Clock, Timing

WINDOW = 5
"""Calls that are compared with those before them."""
NEAR = 0.03
"""How near two windows' medians are when the time is taken for steady."""
UNSTEADY = 0.05
"""A spread beyond which a result says that it is too wide."""
_COMPILES = 20
"""Calls of a warm-up that may compile again: more than Dynamo's limit for one frame."""
_CALLS = 1000
"""Calls of one round at the most."""


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile; of a single value, that value three times."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def warm_up(
    call: Callable[[], float], *, seconds: float, least: int = 3, compiled: Callable[[], int] = lambda: 0
) -> list[float]:
    """Call until the time is steady or `seconds` are over; returns the time of each call, microseconds.

    `call` returns what it took. Steady: the median of the last WINDOW calls is near that of the WINDOW before them.
    A call in which `compiled()` went up is none of these, unless there are _COMPILES such: then that is how it runs.
    """
    taken: list[float] = []
    compiles = 0
    while True:
        before = compiled()
        us = call()
        if compiled() > before and compiles < _COMPILES:
            compiles += 1
            continue
        taken.append(us)
        if len(taken) >= 2 * WINDOW:
            earlier = statistics.median(taken[-2 * WINDOW : -WINDOW])
            if abs(statistics.median(taken[-WINDOW:]) - earlier) <= NEAR * earlier:
                return taken
        if sum(taken) / 1e6 >= seconds and len(taken) >= least:
            return taken


def calls_of_round(us: float, *, seconds: float, rounds: int) -> int:
    """How many calls of `us` microseconds one round has, so that all rounds together take about `seconds`."""
    return max(1, min(_CALLS, int(seconds * 1e6 / max(rounds, 1) / max(us, 0.1))))


def rounds_of(us: float, *, seconds: float, rounds: int, least: int = 3) -> int:
    """How many rounds there are for a call that takes `us` microseconds: fewer for a long one, never under `least`."""
    return max(min(rounds, least), min(rounds, int(seconds * 1e6 / max(us, 0.1))))


def timing(clock: Clock, rounds: Sequence[Sequence[float]], calls: int) -> Timing | None:
    """What the times of all rounds came to, of `calls` calls together; None where there is none."""
    medians = [statistics.median(one) for one in rounds if one]
    if not medians:
        return None
    low, median, high = quartiles(medians)
    made = Timing(clock, median, low, high, calls, tuple(medians))
    return Timing(clock, median, low, high, calls, tuple(medians), unsteady=made.spread > UNSTEADY)


def turns(names: Sequence[str], rounds: dict[str, int]) -> Iterator[str]:
    """Whose turn it is, round by round: every configuration that still has rounds once in each, in changing order.

    The order turns by one each time, so that none always comes behind the same other one.
    """
    for number in range(max(rounds.values(), default=0)):
        shift = number % len(names) if names else 0
        for name in (*names[shift:], *names[:shift]):
            if rounds.get(name, 0) > number:
                yield name
