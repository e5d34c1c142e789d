"""Changes that would need less memory, in words."""

from __future__ import annotations

from fuselight.shared.report import (
    HeldMemory,
    MemoryEstimate,
    MemoryPeak,
    MemorySaving,
    MemoryUse,
    SavingKind,
    StepPhase,
)
from fuselight_server.explain.memory.words import saving_in_words, saving_name, use_in_words, useful_savings

GB = 10**9


def peak(size: float) -> MemoryPeak:
    return MemoryPeak(int(size * GB), 0, StepPhase.BACKWARD, "", None)


def budget(name: str, size: float, us: float = 0.0) -> MemorySaving:
    return MemorySaving(
        SavingKind.BUDGET, name, compiled=int(size * GB), recomputed=47, multiplications=int(us > 0), us=us
    )


def estimate(*savings: MemorySaving) -> MemoryEstimate:
    return MemoryEstimate("Net()", training=True, eager=peak(4), compiled=peak(4.6), savings=savings)


def test_a_budget_is_of_use_only_if_no_higher_one_needs_as_little() -> None:
    points = [budget("1", 4.6), budget("0.6", 3.2), budget("0.3", 3.4, 2600), budget("0", 3.1, 7100)]
    tried = estimate(*points)
    words = [saving_in_words(tried, point) for point in points]
    assert words[1] == "compiled 4.6 GB -> 3.2 GB (-30%); 47 operators again, no multiplication"
    assert words[2].endswith("47 operators again, with 1 multiplication: ~2.6 ms. No use: 0.6 needs no more")
    assert "No use" not in words[3]
    assert saving_name(points[1]) == "activation_memory_budget = 0.6"


def test_modules_that_need_as_much_are_left_out() -> None:
    less = MemorySaving(SavingKind.CHECKPOINT, "Block (blocks.0)", eager=3 * GB)
    more = MemorySaving(SavingKind.CHECKPOINT, "Head (head)", eager=4 * GB, compiled=5 * GB)
    tried = estimate(less, more)
    assert useful_savings(tried) == [less]
    assert saving_in_words(tried, less) == "eager 4 GB -> 3 GB (-25%); 0 operators again"


def test_a_checkpoint_that_keeps_products_says_so() -> None:
    saving = MemorySaving(
        SavingKind.SELECTIVE, "Block (blocks.0)", eager=3 * GB, compiled=4 * GB, recomputed=6, us=2000.0
    )
    tried = estimate(saving, MemorySaving(SavingKind.SELECTIVE, "Head (head)", eager=4 * GB, compiled=5 * GB))
    assert useful_savings(tried) == [saving]
    assert saving_name(saving) == "checkpoint Block (blocks.0), which keeps products"
    assert saving_in_words(tried, saving).endswith("6 operators again, no multiplication, 300 MB less per ms")


def test_a_setting_is_named_with_its_value_if_compiled_code_needs_less() -> None:
    name = "torch._functorch.config.donated_buffer = True"
    saving = MemorySaving(SavingKind.SETTING, name, compiled=3 * GB)
    tried = estimate(
        saving, MemorySaving(SavingKind.SETTING, "torch._inductor.config.a = True", compiled=5 * GB)
    )
    assert useful_savings(tried) == [saving]
    assert (
        f"{saving_name(saving)}: {saving_in_words(tried, saving)}"
        == f"{name}: compiled 4.6 GB -> 3 GB (-35%)"
    )


def test_a_name_holds_tensors_itself_or_by_their_graph() -> None:
    rows = [HeldMemory(MemoryUse.HELD, GB, 1, None, holder) for holder in ("losses", "graph of losses")]
    assert [use_in_words(row) for row in rows] == ["held by `losses`", "held by the graph of `losses`"]
