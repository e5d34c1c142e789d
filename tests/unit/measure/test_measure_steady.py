"""How often a call is made before and during timing: warm-up, rounds, rotation, spread."""

from __future__ import annotations

from fuselight.measure import steady_state
from fuselight.shared.report import Clock, Profile


def test_compiles_are_no_part_of_the_warm_up() -> None:
    compiles = iter([0, 1, 1, 2, *[2] * 200])
    times = iter([5e6, 6e6, *[100.0] * 100])
    taken = steady_state.warm_up(lambda: next(times), seconds=1.0, compiled=lambda: next(compiles))
    assert set(taken) == {100.0}


def test_a_target_that_always_compiles_ends_its_warm_up() -> None:
    counts = iter(range(10_000))
    assert len(steady_state.warm_up(lambda: 1e6, seconds=2.0, compiled=lambda: next(counts))) == 3


def test_a_call_of_a_minute_gets_few_rounds_of_one_call() -> None:
    assert steady_state.rounds_of(60e6, seconds=2.0, rounds=10) == 3
    assert steady_state.calls_of_round(60e6, seconds=2.0, rounds=3) == 1
    assert steady_state.rounds_of(1.0, seconds=2.0, rounds=10) == 10
    assert steady_state.calls_of_round(1.0, seconds=2.0, rounds=10) == 1000


def test_rounds_are_interleaved_and_rotate_the_order() -> None:
    order = list(steady_state.turns(["a", "b", "c"], {"a": 3, "b": 3, "c": 1}))
    assert sorted(order) == ["a", "a", "a", "b", "b", "b", "c"]
    assert order == ["a", "b", "c", "b", "a", "a", "b"]
    assert list(steady_state.turns([], {})) == []


def test_warm_up_goes_on_until_the_time_is_steady() -> None:
    times = iter([900.0, 500.0, 300.0, *[100.0] * 50])
    taken = steady_state.warm_up(lambda: next(times), seconds=10.0)
    assert 10 <= len(taken) < 20
    assert steady_state.quartiles(taken[-steady_state.WINDOW :])[1] == 100.0


def test_warm_up_ends_by_time_when_nothing_gets_steady() -> None:
    times = iter(1e6 * number for number in range(1, 100))
    assert len(steady_state.warm_up(lambda: next(times), seconds=3.0)) == 3


def test_a_wide_spread_is_reported() -> None:
    assert not steady_state.timing(Clock.WALL, [[100.0], [101.0], [102.0]], 3).unsteady  # type: ignore[union-attr]
    assert steady_state.timing(Clock.WALL, [[100.0], [150.0], [200.0]], 3).unsteady  # type: ignore[union-attr]
    assert steady_state.timing(Clock.WALL, [], 0) is None


def test_a_call_in_which_kernels_run_for_less_than_half_is_limited_by_the_host() -> None:
    profile = Profile(
        "CUPTI", calls=5, wall_us=6_000.0, kernel_us=1_150.0, device_us=1_150.0, joined_us=1_150.0
    )
    assert steady_state.host_bound_note(profile, 5_000.0) == (
        "limited by the host: kernels run for 23% of a call, and its time varies with the host's load, "
        "also from process to process"
    )
    assert steady_state.host_bound_note(profile, 2_300.0) is None
    assert steady_state.host_bound_note(profile, 0.0) is None
