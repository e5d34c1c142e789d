"""The course of a search, on processes and a clock of the tests."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.measure.accuracy import RANDOM
from fuselight.shared.configurations import MODES
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import (
    Skip,
    TuneOutcome,
    Work,
)
from fuselight.tune.schedule import Budget
from fuselight.tune.timed_rounds import TimedRounds
from fuselight.tune.trial import Trial
from tests.support import fake_search
from tests.support.fake_search import (
    COMBO,
    FROZEN,
    GEMM,
    GRAPHS,
    NAMES,
    TUNED,
    FakeMachine,
    FakeSearchProcess,
    FakeTarget,
    failed,
    rows,
    times,
)

pytestmark = pytest.mark.torch

pytestmark = pytest.mark.torch


def test_the_fastest_combination_wins_and_is_confirmed() -> None:
    machine = FakeMachine(FakeTarget(us={"eager": 1500, "default": 1000, GRAPHS: 500, GEMM: 400}))
    tuned = machine.search()
    assert tuned.winner == GEMM
    assert tuned.finished
    assert tuned.confirmation is not None
    assert tuned.confirmation.gain == pytest.approx(2.5)
    assert rows(tuned)[GEMM].outcome is TuneOutcome.WINNER
    assert rows(tuned)[GEMM].knobs == ("cuda_graphs", "gemm_autotune")
    assert rows(tuned)["default"].outcome is TuneOutcome.BASELINE
    result = tuned.result
    assert result is not None
    assert (result.configuration, result.accuracy, result.capability) == (
        GEMM,
        "passed against float64",
        "9.0",
    )
    assert result.default_us == pytest.approx(1000)
    assert {sample.stage for sample in tuned.race} == set(
        range(1, max(sample.stage for sample in tuned.race) + 1)
    )


def test_eager_is_timed_again_after_the_decision() -> None:
    targets = (FakeTarget(us={"eager": 1500, GRAPHS: 500}), FakeTarget(us={"eager": 1500}))
    for target in targets:
        tuned = FakeMachine(target).search()
        stages = sorted({sample.stage for sample in tuned.race if sample.name == "eager"})
        assert (stages[0], stages[-1]) == (1, max(sample.stage for sample in tuned.race))
        last = [sample.name for sample in tuned.race if sample.stage == stages[-1]]
        assert sorted(last) == ["default"] * 5 + ["eager"] * 5
        assert tuned.result is not None
        assert tuned.result.eager_us == pytest.approx(1500)


def test_nothing_faster_leaves_default() -> None:
    tuned = FakeMachine(FakeTarget()).search()
    assert tuned.winner == "default"
    assert tuned.result is not None
    assert tuned.result.gain == 1.0
    outcomes = {row.outcome for name, row in rows(tuned).items() if name not in {"eager", "default"}}
    assert outcomes <= {TuneOutcome.SLOWER, TuneOutcome.ELIMINATED, TuneOutcome.UNCONFIRMED}


def test_a_knob_that_cannot_gain_more_than_the_noise_is_not_tried() -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500}, idle=0.0, compile_s={GRAPHS: 60.0}))
    tuned = machine.search()
    assert {knob.name: knob.skipped for knob in tuned.knobs}["cuda_graphs"] in {Skip.NOISE, Skip.ABSENT}
    assert rows(tuned)[GRAPHS].outcome is TuneOutcome.SKIPPED
    assert rows(tuned)[GRAPHS].skipped is not None
    assert tuned.seconds < 60


@pytest.mark.parametrize("kind", ["exception", "signal", "memory"])
def test_a_candidate_that_fails_is_a_row(kind: str) -> None:
    tuned = FakeMachine(FakeTarget(us={GRAPHS: 500, FROZEN: 400}, fails={FROZEN: failed(kind)})).search()
    assert tuned.winner == GRAPHS
    assert rows(tuned)[FROZEN].outcome is TuneOutcome.FAILED
    assert times(tuned, FROZEN).failure == failed(kind)


def test_an_inaccurate_candidate_never_wins() -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500, FROZEN: 300}, wrong=frozenset({FROZEN})))
    tuned = machine.search()
    assert tuned.winner == GRAPHS
    assert rows(tuned)[FROZEN].outcome is TuneOutcome.INACCURATE


def test_candidates_build_on_the_structure_that_is_expected_to_win() -> None:
    slow = {"default": 5.0, GRAPHS: 8.0, GEMM: 60.0, FROZEN: 60.0, TUNED: 60.0}
    machine = FakeMachine(FakeTarget(us={GRAPHS: 150}, compile_s=slow, idle=0.9, jitter=0.05))
    tuned = machine.search(jobs=5)
    assert tuned.winner.startswith(GRAPHS)
    added = [name for name in machine.names()[3:] if name != "max-autotune"]
    assert all("triton.cudagraphs=True" in name for name in added), added
    assert {knob.name: knob.skipped for knob in tuned.knobs}["combo_kernels"] is None


def test_a_repeated_block_is_not_combined_with_the_cuda_graphs_that_won() -> None:
    tuned = FakeMachine(FakeTarget(us={GRAPHS: 500}, idle=0.5)).search()
    assert tuned.winner.startswith(GRAPHS)
    assert not [name for name in rows(tuned) if "blocks" in name]
    assert {knob.name: knob.skipped for knob in tuned.knobs}["blocks"] is Skip.EXCLUDED


def test_a_repeated_block_is_tried_where_cuda_graphs_gain_nothing() -> None:
    tuned = FakeMachine(FakeTarget(us={"default+blocks": 800}, idle=0.0)).search()
    assert tuned.winner == "default+blocks"
    assert {knob.name: knob.skipped for knob in tuned.knobs}["blocks"] is None


def test_a_default_that_fails_ends_the_search() -> None:
    machine = FakeMachine(FakeTarget(fails={"default": failed()}))
    tuned = machine.search()
    assert tuned.result is None
    assert times(tuned, "default").failure == failed()
    assert tuned.notes == (), "the failure says it"
    assert tuned.seconds < tuned.budget_seconds / 2
    assert all(process.is_ended for process in machine.processes)


def test_a_default_without_memory_is_measured_again_by_itself() -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500}, fails={"default": failed("memory")}))
    machine.search()
    assert machine.names().count("default") == 2


def test_named_candidates_are_tried_whatever_their_ceiling() -> None:
    named = "default+combo_kernels=True"
    machine = FakeMachine(FakeTarget(us={named: 800}, idle=0.0))
    tuned = machine.search(candidates=(named,), only=True)
    assert tuned.winner == named
    assert set(rows(tuned)) == {"eager", "default", named}


@dataclass
class DisturbedPool:
    """A pool whose rounds take as long as a test says, on a clock that stands still."""

    us: dict[str, float]
    budget: Budget = field(default_factory=lambda: Budget(lambda: 0.0, 0.0, 100.0))

    def order(self, trial: Trial, _what: str, **_details: object) -> dict[str, float]:
        return {"us": self.us[trial.name]}


def test_a_race_that_is_cut_off_does_not_outweigh_an_earlier_one() -> None:
    pool: Any = DisturbedPool(
        {"default": 1400.0, "default+freezing=True": 1000.0, "default+combo_kernels=True": 0.0}
    )
    default, earlier, new = (
        Trial(name, FakeSearchProcess(FakeMachine(FakeTarget()), name), lambda: 0.0, 0.0, 0.0)
        for name in pool.us
    )
    pool.default = default
    rounds = TimedRounds(TunePlan(), pool, 0.02)
    rounds.race([default, earlier], 100.0)
    assert earlier.gain == pytest.approx(1.4)
    pool.us = {"default": 2100.0, "default+freezing=True": 2900.0, "default+combo_kernels=True": 1050.0}
    rounds.race([default, earlier, new], 0.0)
    assert earlier.gain == pytest.approx(1.4)
    assert not earlier.is_eliminated
    assert new.gain == pytest.approx(2.0)
    rounds.race([default, earlier, new], 100.0)
    assert earlier.gain == pytest.approx(2100 / 2900)


@pytest.mark.parametrize(
    ("name", "speed_up"), [(f"{GRAPHS}+max_fusion_size=7", 2.1), ("default+max_fusion_size=7", 2.8)]
)
def test_a_named_candidate_with_cuda_graphs_is_compared_over_several_races(
    name: str, speed_up: float
) -> None:
    """The host limits `default`: its time differs from race to race, and that of CUDA graphs does not."""
    pool: Any = DisturbedPool({"default": 1400.0, name: 1000.0})
    default, named = (
        Trial(value, FakeSearchProcess(FakeMachine(FakeTarget()), value), lambda: 0.0, 0.0, 0.0)
        for value in pool.us
    )
    pool.default = default
    rounds = TimedRounds(TunePlan(), pool, 0.02)
    rounds.race([default, named], 100.0)
    pool.us = {"default": 2800.0, name: 1000.0}
    rounds.race([default, named], 100.0)
    assert named.gain == pytest.approx(2.8)
    assert rounds.speed_up(named) == pytest.approx(speed_up)


@pytest.mark.parametrize("since", [math.inf, 12.0, 16.0, 20.0, 24.0])
def test_what_gained_is_combined_whatever_default_takes_in_the_meantime(since: float) -> None:
    """The host limits `default`: its time differs from race to race, and the times of CUDA graphs do not."""
    speeds = {
        "triton.cudagraphs": 0.5, "combo_kernels": 0.97, "freezing": 0.95, "max_autotune_gemm": 0.93,
        "coordinate_descent_tuning": 0.9,
    }  # fmt: skip
    target = FakeTarget(
        factors=speeds, compile_s={f"{FROZEN}+coordinate_descent_tuning=True": 20.0, TUNED: 20.0},
        slower_after={"default": (since, 0.7)},
    )  # fmt: skip
    tuned = FakeMachine(target).search(budget_seconds=120.0, jobs=5)
    assert {f"{name}=True" for name in speeds} <= set(tuned.winner.split("+"))


DRIFTING = FakeTarget(
    us={"default": 1000, GRAPHS: 500, COMBO: 550},
    compile_s={COMBO: 9.0, **dict.fromkeys((TUNED, GEMM), math.inf)},
    slower_after={"default": (8.0, 2.0)},
)


@pytest.mark.parametrize("budget_seconds", [90.0, 24.0, 20.0])
@pytest.mark.parametrize("compare_s", [6.0, 12.0, 20.0])
def test_candidates_that_missed_each_others_races_race_before_the_decision(
    budget_seconds: float, compare_s: float
) -> None:
    machine = FakeMachine(replace(DRIFTING, compare_s={GRAPHS: compare_s}))  # in which it cannot race
    tuned = machine.search(budget_seconds=budget_seconds, seconds=0.2, work=Work.FORWARD_BACKWARD)
    races = [{sample.name for sample in tuned.race if sample.stage == stage} for stage in range(1, 20)]
    assert {"default", COMBO} in races
    if compare_s < budget_seconds - 8:
        assert any(race >= {"default", COMBO, GRAPHS} for race in races)
        assert tuned.winner == GRAPHS
        assert tuned.seconds <= budget_seconds
    else:
        assert tuned.winner in {GRAPHS, COMBO}


@pytest.mark.parametrize("tenths", range(170, 185))
def test_a_race_that_is_cut_off_is_repeated_before_the_decision(tenths: int) -> None:
    machine = FakeMachine(DRIFTING)
    tuned = machine.search(budget_seconds=tenths / 10, seconds=1.0, work=Work.FORWARD_BACKWARD)
    assert tuned.winner == GRAPHS


def test_few_candidates_stay_alive_while_results_are_compared() -> None:
    names = [f"default+triton.cudagraphs=True+max_fusion_size={size}" for size in range(10, 22)]
    us = {"default": 1000.0, GRAPHS: 500.0, **{name: 480.0 - place for place, name in enumerate(names)}}
    machine = FakeMachine(FakeTarget(us=us, compare_s=dict.fromkeys(us, 40.0)))
    machine.search(budget_seconds=100.0, candidates=tuple(names))
    assert machine.most_raced == 3


def test_verified_fixes_are_compiled_first() -> None:
    machine = FakeMachine(FakeTarget(us={}))
    machine.search(fixed={"model.py": "a fixed text"})
    started = [name for name in machine.names() if name not in {"float64", "eager", "default"}]
    assert started[0] == f"default+fixes+{GRAPHS.removeprefix('default+')}"


def test_torchs_modes_are_measured_after_the_search() -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500, "max-autotune": 450}))
    tuned = machine.search(modes=MODES)
    assert tuned.winner == GRAPHS
    assert tuned.modes_seconds > 0
    assert rows(tuned)["max-autotune"].outcome is TuneOutcome.BASELINE
    assert times(tuned, "max-autotune").device is not None
    accuracy = times(tuned, "max-autotune").accuracy
    assert accuracy is not None


def test_saving_artifacts_is_not_part_of_the_search() -> None:
    target = FakeTarget(us={GRAPHS: 500}, compile_s={GRAPHS: 30.0})
    without, machine = FakeMachine(target).search(), FakeMachine(target)
    tuned = machine.search(artifacts="folder")
    assert tuned.seconds == pytest.approx(without.seconds)
    assert machine.now > tuned.seconds + 29
    assert tuned.result is not None
    assert without.result is not None
    assert tuned.result.graphs == without.result.graphs


@pytest.mark.parametrize("is_wrong", [False, True])
def test_random_results_are_compared_at_the_end(is_wrong: bool) -> None:  # noqa: FBT001 - both cases
    wrong = frozenset({GRAPHS} if is_wrong else ())
    tuned = FakeMachine(FakeTarget(us={GRAPHS: 500}, varies=RANDOM, wrong=wrong)).search()
    assert tuned.winner == ("default" if is_wrong else GRAPHS)
    assert rows(tuned)[GRAPHS].outcome is (TuneOutcome.INACCURATE if is_wrong else TuneOutcome.WINNER)
    assert tuned.result is not None
    assert tuned.result.configuration == tuned.winner
    if not is_wrong:
        assert tuned.result.accuracy == "passed against float64"


OPTIONS = tuple(f"{name}=True" for name in fake_search.OPTIONS)


@st.composite
def targets(draw: st.DrawFn) -> FakeTarget:
    """Targets on which each option makes a call faster or slower, on quiet and on busy machines."""
    speeds = draw(st.lists(st.floats(0.4, 2.5), min_size=len(OPTIONS), max_size=len(OPTIONS)))
    compiles = draw(st.lists(st.floats(1.0, 40.0), min_size=len(NAMES), max_size=len(NAMES)))
    broken = draw(st.lists(st.sampled_from(NAMES), max_size=2))
    return FakeTarget(
        factors=dict(zip(OPTIONS, speeds, strict=True)),
        compile_s=dict(zip(NAMES, compiles, strict=True)),
        fails=dict.fromkeys(broken, failed()),
        wrong=frozenset(draw(st.lists(st.sampled_from(NAMES), max_size=2))),
        jitter=draw(st.sampled_from([0.0, 0.005, 0.03])),
        drift=draw(st.sampled_from([0.0, 0.8])),
        seed=draw(st.integers(0, 9)),
    )


@settings(max_examples=40, deadline=None)
@given(target=targets(), budget=st.floats(20.0, 150.0))
def test_the_winner_is_right_never_slower_than_default_and_found_in_time(
    target: FakeTarget, budget: float
) -> None:
    machine = FakeMachine(target)
    tuned = machine.search(budget_seconds=budget)
    won = target.us_of(tuned.winner)
    assert won <= 1000.0
    assert tuned.winner not in {*target.fails, *target.wrong}
    assert tuned.seconds <= budget
    assert all(process.is_ended for process in machine.processes)
    raced = [
        target.us_of(candidate.configuration.name)
        for candidate in tuned.candidates
        if candidate.stage > 1 and candidate.outcome is not TuneOutcome.INACCURATE
    ]
    assert won <= min(raced, default=1000.0) * (1.02 + 6 * target.jitter)


def test_calls_that_compile_are_made_before_anything_is_timed() -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 700}))
    machine.search()
    timed = [process.orders for process in machine.processes if "warm" in process.orders]
    assert timed
    assert all(orders.index("settle") < orders.index("warm") for orders in timed)
