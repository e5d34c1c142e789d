"""What a search starts, and when: the clock and the cores of the tests decide."""

from __future__ import annotations

import math

import pytest

from fuselight.shared.report import (
    Skip,
    TuneOutcome,
    Work,
)
from fuselight.tune.candidates import _finds_timings
from fuselight.tune.schedule import Knobs
from tests.support import fake_search
from tests.support.fake_search import (
    COMBO,
    FROZEN,
    GEMM,
    GRAPHS,
    NAMES,
    TUNED,
    FakeMachine,
    FakeTarget,
    rows,
    times,
)

pytestmark = pytest.mark.torch

FROZEN_GEMM = f"{FROZEN}+max_autotune_gemm=True+longest=32"


def test_eager_is_not_timed_again_without_time() -> None:
    slow = FakeTarget(us={"eager": 8e6, "default": 1000, GRAPHS: 500})
    tuned = FakeMachine(slow).search(budget_seconds=100.0)
    assert {sample.stage for sample in tuned.race if sample.name == "eager"} == {1}


def test_processes_that_compile_are_paused_while_others_are_timed() -> None:
    slow = dict.fromkeys(NAMES, 7.0)
    machine = FakeMachine(FakeTarget(us={GRAPHS: 700}, compile_s={**slow, GRAPHS: 3.0}))
    assert machine.search(jobs=2).winner == GRAPHS  # the fake processes check it
    assert machine.most_compiles == 2


def test_other_compiles_wait_for_a_late_default() -> None:
    slow = {"default": 40.0, GRAPHS: 41.0, COMBO: 42.0, FROZEN: 43.0}
    machine = FakeMachine(FakeTarget(us={GRAPHS: 700, FROZEN: 600}, compile_s=slow))
    tuned = machine.search(jobs=5)
    paused = {process.name: process.paused_s for process in machine.processes}
    assert paused[COMBO] > paused[GRAPHS] + 15
    assert paused[FROZEN] > paused[GRAPHS] + 15
    assert rows(tuned)[FROZEN].outcome is TuneOutcome.WINNER, "it goes on afterwards"
    assert tuned.seconds <= tuned.budget_seconds


def test_other_compiles_do_not_wait_where_all_have_cores() -> None:
    slow = {"default": 40.0, GRAPHS: 41.0, COMBO: 42.0, FROZEN: 43.0}
    target = FakeTarget(us={GRAPHS: 700, FROZEN: 600}, compile_s=slow)
    waited = {}
    for cores in (4.0, 16.0):
        machine = FakeMachine(target)
        machine.search(jobs=5, cores=cores, budget_seconds=60.0)
        waited[cores] = {process.name: process.paused_s for process in machine.processes}[COMBO]
    assert waited[4.0] > 15
    assert waited[16.0] < 5, "it is paused only while others are timed"


def test_a_candidate_that_hangs_ends_with_its_limit_or_the_budget() -> None:
    target = FakeTarget(us={GRAPHS: 500, GEMM: 100}, compile_s={GEMM: math.inf, FROZEN: math.inf})
    tuned = FakeMachine(target).search(limit_seconds=30.0)
    assert tuned.winner == GRAPHS
    assert rows(tuned)[FROZEN].outcome is TuneOutcome.FAILED
    assert tuned.seconds <= 100.0
    tuned = FakeMachine(target).search(budget_seconds=20.0)
    assert tuned.winner == GRAPHS
    assert rows(tuned)[FROZEN].outcome is TuneOutcome.UNFINISHED


def test_a_budget_too_short_for_one_compile_measures_default() -> None:
    tuned = FakeMachine(FakeTarget(us={GRAPHS: 500}, compile_s=dict.fromkeys(NAMES, 9.0))).search(
        budget_seconds=4.0
    )
    assert tuned.winner == "default"
    assert times(tuned, "default").device is not None
    assert any("budget" in note for note in tuned.notes)


def test_compiles_for_which_there_is_no_time_are_not_started() -> None:
    target = FakeTarget(us={GRAPHS: 500}, compile_s={"default": 20.0, GRAPHS: 20.0, GEMM: math.inf})
    machine = FakeMachine(target)
    tuned = machine.search(budget_seconds=30.0)
    assert tuned.winner == GRAPHS
    assert tuned.seconds <= 30.0
    skipped = {name for name, row in rows(tuned).items() if row.skipped is Skip.BUDGET}
    assert skipped
    assert not skipped & set(machine.names())
    assert any("not compiled: the budget of 30 s" in note for note in tuned.notes)
    why = {knob.name: knob.skipped for knob in tuned.knobs}
    assert why["gemm_autotune"] is why["coordinate_descent"] is Skip.BUDGET


@pytest.mark.parametrize(("budget", "started"), [(60.0, 0), (120.0, 1)])
@pytest.mark.parametrize(
    ("work", "name"), [(Work.INFERENCE, FROZEN_GEMM), (Work.FORWARD_BACKWARD, GEMM)], ids=["frozen", "not"]
)
def test_a_compile_that_times_kernels_starts_early_only_with_a_long_budget(
    work: Work, name: str, budget: float, started: int
) -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500}, compile_s={"default": 20.0, name: 90.0}))
    machine.search(budget_seconds=budget, jobs=8, work=work)
    assert machine.names()[:9].count(name) == started
    assert len([name for name in machine.names()[:9] if "max_autotune_gemm" in name]) == started, (
        "one at a time"
    )


def test_a_compile_that_times_kernels_makes_way_for_others_if_it_cannot_end_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fake_search.OPTIONS, "max_autotune_pointwise", 0)
    slow = {"default": 50.0, FROZEN_GEMM: 200.0}
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500}, compile_s=slow))
    tuned = machine.search(budget_seconds=105.0, jobs=8)
    candidate = rows(tuned)[FROZEN_GEMM]
    assert (candidate.outcome, candidate.skipped) == (TuneOutcome.SKIPPED, Skip.BUDGET)
    assert {knob.name: knob.skipped for knob in tuned.knobs}["gemm_autotune"] is Skip.BUDGET
    assert [name for name in rows(tuned) if "max_autotune_pointwise" in name]
    longer = FakeMachine(FakeTarget(us={GRAPHS: 500}, compile_s=slow)).search(budget_seconds=300.0, jobs=8)
    assert rows(longer)[FROZEN_GEMM].outcome is not TuneOutcome.SKIPPED


def test_a_compile_that_times_kernels_starts_if_all_of_its_time_is_left() -> None:
    target = FakeTarget(
        compile_s={"default": 5.0}, factors={"triton.cudagraphs": 0.5, "max_autotune_gemm": 0.6}
    )
    assert "max_autotune_gemm" in FakeMachine(target).search(budget_seconds=70.0, jobs=8).winner
    short = FakeMachine(target)
    tuned = short.search(budget_seconds=20.0, jobs=8)  # a compile of 12 s is predicted, and less is left
    assert tuned.winner == GRAPHS
    assert not [name for name in short.names() if "max_autotune_gemm" in name]
    assert {knob.name: knob.skipped for knob in tuned.knobs}["gemm_autotune"] is Skip.BUDGET


@pytest.mark.parametrize(
    ("added", "is_short"), [("combo_kernels=True", True), ("max_autotune_pointwise=True", False)]
)
def test_a_candidate_on_top_of_timed_multiplications_needs_no_time_for_them(
    added: str,
    is_short: bool,  # noqa: FBT001 - both cases
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fake_search.OPTIONS, "max_autotune_pointwise", 0)
    factors = {"triton.cudagraphs": 0.5, "max_autotune_gemm": 0.6, "combo_kernels": 0.9}
    machine = FakeMachine(FakeTarget(compile_s={"default": 10.0, GEMM: 24.0}, factors=factors))
    machine.search(budget_seconds=50.0, jobs=8, candidates=(GEMM,), work=Work.FORWARD_BACKWARD)
    wanted = {*GEMM.split("+"), added}
    assert any(set(name.split("+")) == wanted for name in machine.names()) == is_short


@pytest.mark.parametrize(
    ("name", "added", "flag"),
    [
        ("gemm_autotune", "combo_kernels", True),
        ("gemm_autotune", "channels_last", False),
        ("coordinate_descent", "gemm_autotune", True),
        ("coordinate_descent", "attention_flash", True),
        ("coordinate_descent", "dependent_launch", False),
        ("coordinate_descent", "cpp_wrapper", False),
        ("pointwise_autotune", "gemm_autotune_tma", True),
        ("pointwise_autotune", "conv_as_matmul", False),
        ("combo_kernels", "attention_flash", False),
    ],
)
def test_which_knobs_find_what_an_earlier_candidate_has_timed(
    name: str,
    added: str,
    flag: bool,  # noqa: FBT001 - both cases
) -> None:
    assert _finds_timings(name, Knobs({added})) == flag


def test_of_three_named_candidates_two_time_kernels_at_the_same_time() -> None:
    gemm = f"{GRAPHS}+max_autotune_gemm=True"
    descent = f"{TUNED}+epilogue_fusion=False"  # no set of knobs
    named = (GEMM, descent, f"{gemm}+shape_padding=False", COMBO)
    machine = FakeMachine(FakeTarget(compile_s={"default": 5.0, GEMM: 10.0, descent: 12.0}))
    candidates = rows(machine.search(candidates=named, only=True, jobs=8))
    first, second, third, other = (candidates[name] for name in named)
    assert first.started_s == second.started_s == other.started_s == 0.0
    assert first.ready_s is not None
    assert (third.started_s or 0.0) >= first.ready_s


def test_a_short_compile_goes_before_a_long_one_that_may_gain_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fake_search.OPTIONS, "loop_ordering_after_fusion", 0)
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500}))
    machine.search(budget_seconds=90.0, jobs=1)
    first = [
        next(place for place, name in enumerate(machine.names()) if name == f"{GRAPHS}+{option}")
        for option in ("loop_ordering_after_fusion=True", "coordinate_descent_tuning=True")
    ]
    assert first == sorted(first), machine.names()


@pytest.mark.parametrize(("slower", "most"), [(50.0, 30.0), (200.0, 32.0)])
def test_calls_that_become_slow_on_an_overloaded_machine_do_not_use_up_the_budget(
    slower: float, most: float
) -> None:
    after_the_first_calls = dict.fromkeys(("eager", "default", GRAPHS), (1.2, slower))
    target = FakeTarget(us={"eager": 1500, GRAPHS: 500}, slower_after=after_the_first_calls)
    tuned = FakeMachine(target).search(budget_seconds=30.0, rounds=10, seconds=1.0)
    assert tuned.seconds < most


@pytest.mark.parametrize("each", [2, 3, 4])
def test_one_fast_round_on_an_overloaded_machine_does_not_make_the_next_one_long(each: int) -> None:
    """As with threads that wait for each other on a busy processor: most calls take 40 ms, and some 0.2."""
    target = FakeTarget(us={"default": 40_000, GRAPHS: 100}, faster_rounds={"default": (each, 180.0)})
    tuned = FakeMachine(target).search(budget_seconds=30.0, rounds=20, seconds=1.0)
    assert tuned.seconds < 31
    assert tuned.winner == GRAPHS
    assert tuned.confirmation is not None
    assert tuned.confirmation.rounds > 5


def test_a_search_that_is_ended_early_keeps_the_best_so_far() -> None:
    machine = FakeMachine(FakeTarget(us={GRAPHS: 500}, compile_s={**dict.fromkeys(NAMES, 40.0), GRAPHS: 5.0}))
    machine.search()
    early = [
        search
        for search in machine.kept
        if not search.finished and search.winner == GRAPHS and search.confirmation is None
    ]
    assert early
    assert early[0].result is not None
    assert early[0].result.configuration == GRAPHS
    assert early[0].result.gain_low == 1, "no race has confirmed it"
    assert early[0].result.us * early[0].result.gain == pytest.approx(early[0].result.default_us)


@pytest.mark.parametrize(
    ("name", "is_compiled"),
    [(f"{GRAPHS}+max_autotune_gemm=True", False), (f"{GRAPHS}+max_autotune_gemm=True+longest=4", True)],
)
def test_a_named_candidate_that_times_more_than_a_knob_does_takes_longer(
    name: str,
    is_compiled: bool,  # noqa: FBT001 - both cases
) -> None:
    """Nothing is made of it by knobs, so that it is the options that say how long its compile takes."""
    machine = FakeMachine(FakeTarget(compile_s={"default": 10.0}, us={GRAPHS: 500}))
    tuned = machine.search(candidates=(name,), budget_seconds=60.0, jobs=1)
    assert (rows(tuned)[name].skipped is None) == is_compiled


BUSY = 20.0


@pytest.mark.parametrize("compile_s", [10.0, 45.0, math.inf])
@pytest.mark.parametrize("order_s", [0.05, BUSY])
def test_the_budget_holds_on_a_busy_machine(compile_s: float, order_s: float) -> None:
    """Whatever is slow: the compile of `default`, each order, or the comparison of results."""
    names = dict.fromkeys([*NAMES, "default", GRAPHS], compile_s)
    target = FakeTarget(
        us={GRAPHS: 500},
        compile_s=names,
        order_s=order_s,
        reference_s=90.0,
        compare_s=dict.fromkeys(names, 50.0),
    )
    machine = FakeMachine(target)
    tuned = machine.search(budget_seconds=40.0)
    assert tuned.seconds <= 40.0 + 10.0 + 8 * 5.0, (
        "the budget, the time to finish, and a limit for each last order"
    )
    assert order_s == BUSY or tuned.seconds <= 40.0 + 10.0 + 5.0
    assert all(process.is_ended for process in machine.processes)
    row = times(tuned, "default")
    if compile_s == math.inf:
        assert row.failure is not None
        assert row.failure.message == "`default` was not compiled within the budget of 40 s"
        assert "`fuselight.tune.budget`" in row.failure.next_step
    elif order_s != BUSY:
        assert row.device is not None


def test_what_began_before_the_search_is_part_of_its_budget() -> None:
    machine = FakeMachine(FakeTarget())
    machine.now = 30.0
    tuned = machine.search(budget_seconds=40.0, began=0.0)
    assert 30.0 < tuned.seconds <= 40.0


MODE = "max-autotune"


@pytest.mark.parametrize(
    ("device", "budget", "default_s", "is_tried"),
    [
        ("cuda", 100.0, 8.0, True),
        ("cuda", 100.0, 25.0, False),  # 25 s, and 4 times as long for the timings
        ("cuda", 30.0, 8.0, False),
        ("cpu", 100.0, 8.0, False),
    ],
)
def test_torchs_slowest_mode_is_tried_where_it_ends_in_time(
    device: str,
    budget: float,
    default_s: float,
    is_tried: bool,  # noqa: FBT001 - both cases
) -> None:
    """No set of knobs times as many kernels, so that the mode may be faster than all of them."""
    target = FakeTarget(
        us={GRAPHS: 700, MODE: 650}, compile_s={"default": default_s, MODE: 4 * default_s}, idle=0.2
    )
    machine = FakeMachine(target)
    tuned = machine.search(device, budget_seconds=budget)
    assert (MODE in machine.names()) is is_tried
    assert (tuned.winner == MODE) is is_tried
    assert tuned.seconds <= budget


def test_the_mode_is_not_tried_where_no_kernel_could_gain() -> None:
    machine = FakeMachine(FakeTarget(compile_s={"default": 5.0}, idle=1.0))
    machine.search()
    assert MODE not in machine.names()


def test_the_mode_is_measured_once() -> None:
    machine = FakeMachine(FakeTarget(us={MODE: 600}, compile_s={"default": 5.0}))
    tuned = machine.search(modes=(MODE,))
    assert machine.names().count(MODE) == 1
    assert rows(tuned)[MODE].outcome is TuneOutcome.BASELINE
