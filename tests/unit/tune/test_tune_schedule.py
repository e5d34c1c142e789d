"""What a search tries next, and whether there is time for it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.tune.knobs import BY_NAME, KNOBS, are_exclusive
from fuselight.tune.schedule import Budget, CompileTime, Knobs, Planner, compiles_side_by_side, named_knobs

GRAPHS, FREEZING, GEMM = "cuda_graphs", "freezing", "gemm_autotune"
NOISE = 0.02


def planner(*names: str) -> Planner:
    return Planner([BY_NAME[name] for name in names], NOISE)


def knobs(*names: str) -> Knobs:
    return Knobs(names)


@pytest.mark.parametrize(
    ("cores", "gib", "most"),
    [(2, 16, 2), (2, 4, 1), (16, 100, 8), (64, 400, 8), (16, 10, 3), (1, None, 2), (4, 1, 1)],
)
def test_compiles_need_cores_and_memory(cores: float, gib: int | None, most: int) -> None:
    assert compiles_side_by_side(cores, None if gib is None else gib << 30) == most


def test_a_compile_is_predicted_from_that_of_default() -> None:
    time = CompileTime(start=4.0, compile=10.0)
    assert time.of([]) == 14.0
    slow = BY_NAME[GEMM]
    assert time.of([slow]) == pytest.approx(4 + 10 * slow.compile_factor)


def test_a_budget_counts_from_its_beginning() -> None:
    now = [100.0]
    budget = Budget(lambda: now[0], 100.0, 30.0)
    now[0] = 110.0
    assert budget.elapsed == 10.0
    assert budget.left() == 20.0
    assert budget.left(reserve=25.0) == -5.0


def test_knobs_are_added_to_the_best_set_one_by_one() -> None:
    new_planner = planner(GRAPHS, FREEZING, GEMM)
    assert new_planner.next(knobs(), {}, ()) == knobs(GRAPHS)
    assert new_planner.next(knobs(), {}, {knobs(GRAPHS)}) == knobs(FREEZING)
    assert new_planner.next(knobs(GRAPHS), {knobs(GRAPHS): 1.5}, ()) == knobs(GRAPHS, FREEZING)


def test_a_knob_that_helped_elsewhere_is_combined_with_the_best_set() -> None:
    new_planner = planner(GRAPHS, FREEZING, GEMM)
    known = {knobs(GRAPHS): 1.5, knobs(FREEZING): 1.2, knobs(GEMM): 1.0}
    assert new_planner.next(knobs(GRAPHS), known, ()) == knobs(GRAPHS, FREEZING)
    known[knobs(FREEZING)] = 1 + NOISE / 2
    assert new_planner.next(knobs(GRAPHS), known, ()) is None


def test_a_knob_is_not_blamed_for_another_one_that_failed() -> None:
    new_planner = planner(GRAPHS, GEMM)
    known = {knobs(GRAPHS): 0.0, knobs(GRAPHS, GEMM): 0.0}
    assert new_planner.next(knobs(), known, ()) == knobs(GEMM)
    known = {knobs(GRAPHS): 1.2, knobs(GRAPHS, GEMM): 0.0}
    assert new_planner.next(knobs(GRAPHS), known, ()) is None


def test_a_set_is_tried_without_a_knob_that_was_slower_by_itself() -> None:
    new_planner = planner(GRAPHS, FREEZING)
    known = {knobs(GRAPHS): 0.9, knobs(GRAPHS, FREEZING): 1.2}
    assert new_planner.next(knobs(GRAPHS, FREEZING), known, ()) == knobs(FREEZING)


def test_a_set_is_not_tried_without_what_one_of_its_knobs_requires() -> None:
    best = knobs("cpp_gemm", FREEZING)
    tried = {knobs(FREEZING): 0.9, best: 1.2}
    assert planner("cpp_gemm", FREEZING).next(best, tried, ()) is None


def test_a_knob_comes_with_what_it_requires_and_replaces_its_group() -> None:
    new_planner = planner("attention_flash", "attention_cudnn", "cpp_gemm", FREEZING)
    assert new_planner.next(knobs("attention_flash"), {knobs("attention_flash"): 1.2}, ()) == knobs(
        "attention_cudnn"
    )
    tried = {knobs("attention_flash"): 1.2, knobs("attention_cudnn"): 1.0}
    assert new_planner.next(knobs("attention_flash"), tried, ()) == knobs(
        "attention_flash", "cpp_gemm", FREEZING
    )


@pytest.mark.parametrize(
    ("configuration", "names"),
    [
        ("default+freezing=True+triton.cudagraphs=True", (GRAPHS, FREEZING)),
        ("default+channels_last", ("channels_last",)),
        (
            "default+max_autotune_gemm=True+longest=32+triton.enable_persistent_tma_matmul=True",
            ("gemm_autotune_tma",),
        ),
        ("default+triton.cudagraphs=True+max_fusion_size=7", ()),
        ("max-autotune+freezing=True", ()),
        ("default", ()),
    ],
)
def test_a_configuration_is_made_of_knobs(configuration: str, names: tuple[str, ...]) -> None:
    assert named_knobs(configuration) == knobs(*names)


@given(
    names=st.lists(st.sampled_from([knob.name for knob in KNOBS]), min_size=1, max_size=6, unique=True),
    gains=st.lists(st.floats(0.0, 3.0), min_size=60, max_size=60),
)
def test_no_set_is_proposed_twice_and_the_proposals_end(names: list[str], gains: list[float]) -> None:
    new_planner = planner(*names)
    known: dict[Knobs, float] = {}
    for gain in gains:
        best = max(known, key=lambda texts: known[texts], default=knobs())
        if known.get(best, 0.0) <= 1:
            best = knobs()
        proposed = new_planner.next(best, known, ())
        if proposed is None:
            return
        assert proposed not in known
        assert not any(are_exclusive(BY_NAME[text], BY_NAME[two]) for text, two in combinations(proposed, 2))
        assert all(proposed.issuperset(BY_NAME[name].requires) for name in proposed)
        known[proposed] = gain
    raise AssertionError(f"still proposing after {len(gains)} sets of {len(names)} knobs")


@pytest.mark.parametrize(
    "settings", [("blocks",), (GRAPHS, FREEZING, "blocks")], ids=["of the best alone", "all"]
)
def test_a_knob_is_not_added_to_one_that_it_cannot_be_combined_with(settings: tuple[str, ...]) -> None:
    """Also where that is no setting any more: CUDA graphs leave nothing for knobs of their kind to gain."""
    planner = Planner([BY_NAME[name] for name in settings], noise=0.0)
    best = knobs(GRAPHS, FREEZING)
    tried = {knobs(GRAPHS): 1.5, knobs(FREEZING): 1.05, best: 1.6}
    assert planner.next(best, tried, ()) is None
    assert planner.next(knobs(FREEZING), {knobs(FREEZING): 1.05, knobs(GRAPHS): 0.9}, ()) == knobs(
        FREEZING, "blocks"
    )


def test_a_knob_replaces_a_rival_that_gained_less() -> None:
    planner = Planner([BY_NAME[name] for name in (GRAPHS, "blocks", FREEZING)], noise=0.0)
    tried = {knobs("blocks"): 1.1, knobs(GRAPHS): 1.05, knobs("blocks", FREEZING): 1.2, knobs(FREEZING): 1.0}
    assert planner.next(knobs("blocks", FREEZING), tried, ()) is None
    better = {**tried, knobs(GRAPHS): 1.25}
    assert planner.next(knobs("blocks", FREEZING), better, ()) == knobs(GRAPHS, FREEZING)


def test_a_knob_replaces_one_of_its_group_that_is_no_setting_any_more() -> None:
    new_planner = planner("attention_cudnn")
    best = knobs(GRAPHS, "attention_flash")
    assert new_planner.next(best, {best: 1.5}, ()) == knobs(GRAPHS, "attention_cudnn")


def test_a_knob_does_not_take_the_place_of_a_better_one_of_its_group() -> None:
    flash, cudnn = "attention_flash", "attention_cudnn"
    planner = Planner([BY_NAME[name] for name in (GRAPHS, flash, cudnn, "combo_kernels")], noise=0.0)
    best = knobs(GRAPHS, cudnn, "combo_kernels")
    tried = {
        knobs(GRAPHS): 1.5, knobs(GRAPHS, flash): 1.7, knobs(GRAPHS, cudnn): 1.8, best: 1.9,
    }  # fmt: skip
    assert planner.next(best, tried, ()) is None
    better = {**tried, knobs(GRAPHS, flash): 1.85}
    assert planner.next(best, better, ()) == knobs(GRAPHS, flash, "combo_kernels")
