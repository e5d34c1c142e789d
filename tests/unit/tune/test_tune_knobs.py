"""The catalog of knobs: every entry is notation that can be read, and says where it applies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.configurations import MODES, parse_configuration
from fuselight.shared.report import Work
from fuselight.shared.report.tuned import Numerics, Preparation, Skip
from fuselight.tune.knobs import (
    BY_NAME,
    KNOBS,
    Trait,
    Unsuitable,
    are_exclusive,
    are_rivals,
    configuration_of,
    unsuitable,
)

EVERYTHING = frozenset(Trait)
NAMES = [knob.name for knob in KNOBS]


def _options() -> dict[str, Any]:
    """Inductor's options of the catalog, with values that no knob has."""
    return {name: None for knob in KNOBS for name in parse_configuration(configuration_of([knob])).options}


def _unsuitable(name: str, **changed: Any) -> Unsuitable | None:
    facts = {
        "work": Work.INFERENCE, "device": "cuda", "numerics": Numerics.REDUCED, "fixed_modules": True,
        "options": _options(),
    }  # fmt: skip
    return unsuitable(BY_NAME[name], **{**facts, "has": EVERYTHING, **changed})


def test_names_and_orders_are_unique_and_structure_comes_first() -> None:
    assert len(BY_NAME) == len(KNOBS)
    orders = [knob.order for knob in KNOBS]
    assert orders == sorted(set(orders))
    assert all(knob.structural == (knob.order < 100) for knob in KNOBS)


@pytest.mark.parametrize("name", NAMES)
def test_each_knob_changes_the_configuration(name: str) -> None:
    knob = BY_NAME[name]
    configuration = parse_configuration(configuration_of([knob]))
    plain = parse_configuration("default")
    assert (
        configuration.options or configuration.preparation != Preparation() or configuration.dynamic is not None
        or configuration.blocks or configuration.optimizer or configuration.fixes or configuration.fixed_modules
        or configuration.longest
    )  # fmt: skip
    assert configuration.mode == plain.mode
    assert 0 <= knob.share < 1
    assert knob.compile_factor > 0
    assert set(knob.requires) <= set(NAMES)
    assert knob.about.endswith(".")


@pytest.mark.parametrize("mode", MODES)
def test_no_knob_is_the_default_mode_or_another_mode_by_itself(mode: str) -> None:
    assert configuration_of([], mode) == mode


@given(
    st.lists(st.sampled_from(KNOBS), unique_by=lambda knob: knob.group or knob.name, max_size=6), st.randoms()
)
def test_the_notation_does_not_depend_on_the_order(knobs: list[Any], random: Any) -> None:
    text = configuration_of(knobs)
    random.shuffle(knobs)
    assert configuration_of(knobs) == text
    assert configuration_of(knobs, text) == text, "what is there is not repeated"


def test_knobs_combine_in_one_notation() -> None:
    chosen = [BY_NAME["cpp_gemm"], BY_NAME["cuda_graphs"], BY_NAME["gemm_autotune"]]
    assert configuration_of(chosen) == (
        "default+triton.cudagraphs=True+max_autotune_gemm=True+longest=32"
        '+max_autotune_gemm_backends="CPP,ATEN"'
    ), "what both need is there once"


def test_knobs_of_one_group_exclude_each_other_and_so_do_rivals() -> None:
    assert are_exclusive(BY_NAME["tf32"], BY_NAME["bf16"])
    assert not are_rivals(BY_NAME["tf32"], BY_NAME["bf16"]), "one replaces the other"
    assert not are_exclusive(BY_NAME["tf32"], BY_NAME["cuda_graphs"])
    for pair in ("blocks", "cuda_graphs"), ("cuda_graphs", "blocks"):
        assert are_exclusive(*(BY_NAME[name] for name in pair))
        assert are_rivals(*(BY_NAME[name] for name in pair))


def test_what_the_numerics_do_not_allow_is_not_tried() -> None:
    assert _skip("tf32", numerics=Numerics.EXACT) is Skip.NUMERICS
    assert _skip("tf32", numerics=Numerics.TF32) is None
    assert _skip("bf16", numerics=Numerics.TF32) is Skip.NUMERICS
    exact = [knob.name for knob in KNOBS if _skip(knob.name, numerics=Numerics.EXACT) is Skip.NUMERICS]
    assert exact == ["tf32", "bf16"], "everything else is what torch.compile itself may do"


def test_what_assumes_unchanging_modules_must_be_allowed() -> None:
    assert [name for name in NAMES if _skip(name, fixed_modules=False) is Skip.ASSUMPTION] == [
        "fixed_modules"
    ]
    assert _skip("fixed_modules") is None
    assert _skip("fixed_modules", work=Work.FORWARD_BACKWARD) is Skip.WORK


def test_work_and_device_count() -> None:
    assert _skip("freezing", work=Work.FORWARD_BACKWARD) is Skip.WORK
    assert _skip("optimizer") is Skip.WORK
    assert _skip("optimizer", work=Work.TRAINING_STEP) is None
    assert _skip("cuda_graphs", device="cpu") is Skip.DEVICE
    assert _skip("one_thread") is Skip.DEVICE
    assert _skip("one_thread", device="cpu") is None


def test_an_option_that_this_torch_lacks_is_named() -> None:
    options = _options()
    del options["triton.mix_order_reduction"]
    unsuitable_reason = _unsuitable("mixed_reductions", options=options, work=Work.TRAINING_STEP)
    assert unsuitable_reason == Unsuitable(
        Skip.ABSENT, "this torch has no option `triton.mix_order_reduction`"
    )


def test_what_default_does_already_is_not_tried() -> None:
    assert _skip("loop_order", options={"loop_ordering_after_fusion": True}) is Skip.ABSENT
    assert _skip("loop_order", options={"loop_ordering_after_fusion": False}) is None


def test_a_knob_needs_what_it_changes() -> None:
    for trait, name in (
        (Trait.FIXES, "fixes"),
        (Trait.BLOCKS, "blocks"),
        (Trait.FLOAT32, "tf32"),
        (Trait.CONVOLUTIONS, "channels_last"),
        (Trait.ATTENTION, "attention_flash"),
    ):
        assert _skip(name, has=EVERYTHING - {trait}) is Skip.ABSENT
        assert _skip(name, has=EVERYTHING) is None


@pytest.mark.parametrize(("work", "device"), list(itertools.product(Work, ("cuda", "cpu"))))
def test_every_work_and_device_has_knobs(work: Work, device: str) -> None:
    names = [knob.name for knob in KNOBS if _skip(knob.name, work=work, device=device) is None]
    assert len(names) > 5


def _skip(name: str, **changed: Any) -> Skip | None:
    unsuitable_reason = _unsuitable(name, **changed)
    return unsuitable_reason.skip if unsuitable_reason is not None else None


@pytest.mark.parametrize("name", NAMES)
def test_the_page_about_searches_names_the_knob_or_its_notation(name: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert name in page or all(part in page for part in BY_NAME[name].parts)
