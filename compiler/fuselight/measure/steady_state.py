"""Detection of a steady time, and its statistics: medians, quartiles, rounds. Standard library only.

Invariant: no round is discarded: a disturbed round widens the spread, which is reported.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from fuselight.shared.report import Clock, Profile, Timing

WINDOW = 5
"""Number of calls compared with the same number before them."""
NEAR = 0.03
"""Maximum relative difference of two windows' medians for a steady time."""
UNSTEADY = 0.05
"""Spread beyond which a result is marked as too wide."""
HOST_BOUND = 0.5
"""Fraction of a call in which kernels run, below which the host limits the call."""
_COMPILES = 20
"""Warm-up calls that may compile again: more than Dynamo's limit for one frame."""
_CALLS = 1000
"""Maximum calls of one round."""


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile; a single value gives that value three times."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def warm_up(
    call: Callable[[], float], *, seconds: float, least: int = 3, compiled: Callable[[], int] = lambda: 0
) -> list[float]:
    """Call until the time is steady or `seconds` are over; returns the time of each call in microseconds.

    `call` returns its time. Steady: the median of the last WINDOW calls is near that of the WINDOW calls before them. A
    call during which `compiled()` increased is excluded, unless there are _COMPILES such calls: then that is how the
    target runs.
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
    """Calls of `us` microseconds per round so that all rounds together take about `seconds`."""
    return max(1, min(_CALLS, int(seconds * 1e6 / max(rounds, 1) / max(us, 0.1))))


def rounds_of(us: float, *, seconds: float, rounds: int, least: int = 3) -> int:
    """Number of rounds for a call of `us` microseconds: fewer for a long call, never fewer than `least`."""
    return max(min(rounds, least), min(rounds, int(seconds * 1e6 / max(us, 0.1))))


def timing(clock: Clock, rounds: Sequence[Sequence[float]], calls: int) -> Timing | None:
    """Summarize the times of all rounds, `calls` calls together; None without any times."""
    medians = [statistics.median(numbers) for numbers in rounds if numbers]
    if not medians:
        return None
    low, median, high = quartiles(medians)
    timing = Timing(clock, median, low, high, calls, tuple(medians))
    return Timing(clock, median, low, high, calls, tuple(medians), unsteady=timing.spread > UNSTEADY)


def host_bound_note(profile: Profile, us: float) -> str | None:
    """Say that the host limits a call of `us` microseconds on a GPU; None where the kernels do."""
    busy = profile.kernel_us / max(us, 1.0)
    if busy >= HOST_BOUND:
        return None
    return (
        f"limited by the host: kernels run for {busy:.0%} of a call, and its time varies with the host's load, "
        "also from process to process"
    )


def turns(names: Sequence[str], rounds: dict[str, int]) -> Iterator[str]:
    """Yield configurations round by round: each one with rounds left runs once per round, in changing order.

    The order rotates by one each round, so that no configuration always follows the same other one.
    """
    for number in range(max(rounds.values(), default=0)):
        shift = number % len(names) if names else 0
        for name in (*names[shift:], *names[:shift]):
            if rounds.get(name, 0) > number:
                yield name
