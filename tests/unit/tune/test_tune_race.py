"""Properties of the race on generated timings: the best survives, the deadline holds, the confirming race decides."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.tune import race
from fuselight.tune.race import (
    Race,
    RaceResult,
    RoundPlan,
    confirm,
    confirmation,
    halve,
    interval,
    is_faster,
)

NOISE = 0.02
ROUNDS = 17


def _numbers(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - timings, no secrets


@dataclass
class SimulatedMachine:
    """A clock that advances with the timed calls, and a load that changes all of them from round to round."""

    seconds: float = 0.0
    random: random.Random = field(default_factory=lambda: _numbers(0))
    load: float = 1.0


@dataclass
class SimulatedEntrant:
    """A configuration whose calls take `true_us` on an idle machine."""

    name: str
    true_us: float
    machine: SimulatedMachine
    spread: float = 0.0
    fails_in: int = 10**9
    """The number of the round in which it fails."""
    rounds: int = 0

    @property
    def us(self) -> float:
        return self.true_us

    def round(self, calls: int, /) -> float | None:
        self.rounds += 1
        if self.rounds >= self.fails_in:
            return None
        us = self.true_us * self.machine.load * (1 + self.spread * self.machine.random.uniform(-1, 1))
        self.machine.seconds += us * calls / 1e6
        return us


@dataclass
class RecordedEntrant:
    """A configuration with recorded rounds."""

    name: str
    times: Iterator[float]
    us: float = 100.0

    def round(self, _calls: int, /) -> float | None:
        return next(self.times, None)


def _plan(
    machine: SimulatedMachine, *, deadline: float = math.inf, seen: list[str] | None = None
) -> RoundPlan:
    return RoundPlan(
        calls=lambda us: max(1, int(50_000 / us)),
        clock=lambda: machine.seconds,
        deadline=deadline,
        sample=lambda _stage, name, _us: seen.append(name) if seen is not None else None,
    )


def _race(times: Sequence[float], *, spread: float = 0.0, seed: int = 0) -> Race:
    machine = SimulatedMachine(random=_numbers(seed))
    runners = [SimulatedEntrant(str(place), us, machine, spread) for place, us in enumerate(times)]
    return halve(runners, _plan(machine), noise=NOISE)


def _best(raced: Race) -> RaceResult:
    return raced.standings[0]


def _survivors(raced: Race) -> list[str]:
    """The names of those of the last stage."""
    return [
        standing.entrant.name
        for standing in raced.standings
        if not standing.eliminated and not standing.failed
    ]


TIMES = st.lists(st.floats(10, 10_000), min_size=1, max_size=12)


@given(TIMES)
def test_the_best_wins_or_one_that_ties_with_it_and_everyone_stands_once(times: list[float]) -> None:
    raced = _race(times)
    assert sorted(standing.entrant.name for standing in raced.standings) == sorted(
        map(str, range(len(times)))
    )
    assert times[int(_best(raced).entrant.name)] <= min(times) * (1 + NOISE)
    assert raced.finished


@given(TIMES, st.integers(0, 10_000))
@settings(max_examples=40)
def test_halving_keeps_the_best_beyond_noise(times: list[float], seed: int) -> None:
    """With rounds that scatter by 1%, the winner is never slower than the best by more than the noise."""
    raced = _race(times, spread=0.01, seed=seed)
    assert times[int(_best(raced).entrant.name)] <= min(times) * (1 + NOISE) * 1.01
    assert str(times.index(min(times))) in _survivors(raced)


@given(TIMES, st.lists(st.floats(0.5, 2), min_size=ROUNDS, max_size=ROUNDS))
def test_a_load_that_changes_between_rounds_changes_nothing(times: list[float], loads: list[float]) -> None:
    still = [standing.entrant.name for standing in _race(times).standings]
    shared = [
        RecordedEntrant(str(place), iter([us * load for load in loads])) for place, us in enumerate(times)
    ]
    raced = halve(shared, _plan(SimulatedMachine()), noise=NOISE)
    assert [standing.entrant.name for standing in raced.standings] == still


@given(st.integers(0, 10_000))
def test_rounds_that_something_disturbs_do_not_decide(seed: int) -> None:
    """Every third round takes up to twice as long, as on a machine that others use."""
    random = _numbers(seed)
    disturbed = {
        name: [us * (1 + random.random() * (place % 3 == shift)) for place in range(ROUNDS)]
        for shift, (name, us) in enumerate({"slow": 230.0, "fast": 200.0, "middle": 220.0}.items())
    }
    entrants = [RecordedEntrant(name, iter(times), us=200.0) for name, times in disturbed.items()]
    assert _best(halve(entrants, _plan(SimulatedMachine()), noise=NOISE)).entrant.name == "fast"


@given(TIMES, st.floats(0, 20))
def test_no_round_starts_after_the_deadline(times: list[float], deadline: float) -> None:
    machine = SimulatedMachine()
    seen: list[str] = []
    runners = [SimulatedEntrant(str(place), us, machine) for place, us in enumerate(times)]
    raced = halve(runners, _plan(machine, deadline=deadline, seen=seen), noise=NOISE)
    first = sum(max(us, 50_000) for us in times) / 1e6
    assert machine.seconds <= deadline + 2 * first, "the first round, and the one that had begun"
    assert len(raced.standings) == len(times)
    assert set(seen) == set(map(str, range(len(times)))), "each has one round at least"


@given(TIMES, st.data())
def test_a_configuration_that_fails_never_wins(times: list[float], data: st.DataObject) -> None:
    machine = SimulatedMachine()
    failing = data.draw(st.sets(st.integers(0, len(times) - 1), max_size=len(times) - 1))
    runners = [
        SimulatedEntrant(
            str(place), us, machine, fails_in=data.draw(st.integers(1, 3)) if place in failing else 10**9
        )
        for place, us in enumerate(times)
    ]
    raced = halve(runners, _plan(machine), noise=NOISE)
    assert not _best(raced).failed
    assert _survivors(raced)


def test_those_that_lost_against_a_configuration_that_fails_are_back() -> None:
    machine = SimulatedMachine()
    leader, others = (
        SimulatedEntrant("a", 10, machine, fails_in=3),
        [SimulatedEntrant("b", 100, machine), SimulatedEntrant("c", 90, machine)],
    )
    raced = halve([leader, *others], _plan(machine), noise=NOISE)
    assert [standing.entrant.name for standing in raced.standings] == ["c", "b", "a"]
    assert [standing.failed for standing in raced.standings] == [False, False, True]


def test_all_may_fail() -> None:
    machine = SimulatedMachine()
    raced = halve([SimulatedEntrant("a", 10, machine, fails_in=1)], _plan(machine), noise=NOISE)
    assert not _survivors(raced)
    assert raced.standings[0].failed
    assert halve([], _plan(machine), noise=NOISE).standings == ()


def test_the_simplest_wins_a_tie() -> None:
    """The first entrant is preferred where the rounds do not show that it is slower."""
    rows = {"simple": [101.0, 99, 102, 100, 101, 100] * 3, "complex": [100.0, 100, 101, 100, 101, 99] * 3}
    raced = halve(
        [RecordedEntrant(name, iter(times)) for name, times in rows.items()],
        _plan(SimulatedMachine()),
        noise=NOISE,
    )
    assert _best(raced).entrant.name == "simple"
    slower = {"simple": [103.0] * ROUNDS, "complex": [100.0] * ROUNDS}
    raced = halve(
        [RecordedEntrant(name, iter(times)) for name, times in slower.items()],
        _plan(SimulatedMachine()),
        noise=NOISE,
    )
    assert _best(raced).entrant.name == "complex"


def test_a_hopeless_configuration_is_not_timed_on() -> None:
    machine = SimulatedMachine()
    runners = [SimulatedEntrant("fast", 100, machine), SimulatedEntrant("slow", 1000, machine)]
    raced = halve(runners, _plan(machine), noise=NOISE)
    assert runners[1].rounds == 3
    assert raced.standings[1].eliminated
    assert raced.standings[1].ratio == pytest.approx(10)


def test_each_stage_keeps_half_and_ties() -> None:
    machine = SimulatedMachine()
    runners = [SimulatedEntrant(str(us), us, machine) for us in (100, 101, 104, 108, 110, 112)]
    raced = halve(runners, _plan(machine), noise=NOISE)
    stages = {standing.entrant.name: standing.stage for standing in raced.standings}
    assert stages == {"100": 3, "101": 3, "104": 2, "108": 1, "110": 1, "112": 1}


def test_rounds_rotate() -> None:
    machine = SimulatedMachine()
    seen: list[str] = []
    runners = [SimulatedEntrant(name, 100, machine) for name in "abc"]
    halve(runners, _plan(machine, seen=seen), noise=NOISE, rounds_per_stage=(3,))
    assert "".join(seen) == "abcbcacab"


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)), min_size=2, max_size=30))
def test_an_interval_holds_the_median(times: list[tuple[float, float]]) -> None:
    decided = confirmation(times)
    assert decided is not None
    assert decided.low <= decided.gain * (1 + 1e-9)
    assert decided.rounds == len(times)
    if len(times) >= 6:
        assert decided.gain <= decided.high


@pytest.mark.parametrize("rounds", [2, 3, 5, 6, 10, 20])
def test_the_interval_covers_the_truth(rounds: int) -> None:
    """Of 1,000 races with a true gain of 1, no more than about 5% have an interval without 1."""
    numbers = _numbers(1)
    missed = 0
    for _ in range(1000):
        low, high = interval([math.exp(numbers.gauss(0, 0.05)) for _ in range(rounds)])
        missed += not low <= 1 <= high
    assert missed <= 70


def test_few_rounds_are_no_proof_without_agreement() -> None:
    assert not is_faster(confirmation([(100, 120), (100, 101)]), NOISE)
    assert is_faster(confirmation([(100, 120), (100, 119), (100, 121)]), NOISE)
    assert confirmation([(100, 120)]) is None
    assert not is_faster(None, NOISE)


@given(st.floats(0.5, 3), st.integers(0, 1000))
@settings(max_examples=40)
def test_the_confirming_race_never_takes_a_slower_winner(ratio: float, seed: int) -> None:
    """`ratio` is the true time of the winner, divided by that of `default`; rounds scatter by 1%."""
    machine = SimulatedMachine(random=_numbers(seed))
    winner, default = (
        SimulatedEntrant("winner", 100 * ratio, machine, 0.01),
        SimulatedEntrant("default", 100, machine, 0.01),
    )
    decided = confirm(winner, default, _plan(machine), rounds=10, stage=4)
    assert decided is not None
    assert decided.rounds == 10
    if is_faster(decided, NOISE):
        assert ratio < 1
    if ratio < 1 / (1 + 2 * NOISE):
        assert is_faster(decided, NOISE)


def test_the_confirming_race_ends_at_the_deadline_with_its_least_rounds() -> None:
    machine = SimulatedMachine()
    pair = SimulatedEntrant("winner", 50, machine), SimulatedEntrant("default", 100, machine)
    decided = confirm(*pair, _plan(machine, deadline=0.0), rounds=10, stage=4)
    assert decided is not None
    assert decided.rounds == race.LEAST_ROUNDS


def test_a_failure_in_the_confirming_race_decides_for_default() -> None:
    machine = SimulatedMachine()
    failing = SimulatedEntrant("winner", 50, machine, fails_in=4)
    assert (
        confirm(failing, SimulatedEntrant("default", 100, machine), _plan(machine), rounds=10, stage=4)
        is None
    )
    assert not is_faster(None, NOISE)


def test_the_order_alternates_within_the_confirming_race() -> None:
    machine = SimulatedMachine()
    seen: list[str] = []
    pair = SimulatedEntrant("w", 50, machine), SimulatedEntrant("d", 100, machine)
    decided = confirm(*pair, _plan(machine, seen=seen), rounds=4, stage=4)
    assert "".join(seen) == "wddwwddw"
    assert decided is not None
    assert (decided.us, decided.default_us, decided.gain) == (50, 100, 2)
    assert statistics.fmean([decided.low, decided.high]) == pytest.approx(2)
