"""The harness that judges fixes by the observations of probes tells what a class admits from what breaks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.fix_truth import __main__ as truth
from benchmarks.fix_truth.__main__ import differences
from benchmarks.fix_truth.observation import ROUNDING, difference
from benchmarks.fix_truth.offers import Offer, _change
from benchmarks.fix_truth.verify_changes import CHANGES, Change, is_judged_well, read_changes


def tensor(*values: Any, **changed: Any) -> tuple[str, dict[str, Any]]:
    data = {"type": "Tensor", "dtype": "torch.float32", "shape": [len(values)], "strides": [1]}
    return "tensor", {**data, "requires_grad": False, "values": list(values), **changed}


def offer(fix_class: str, changes: str = "") -> Offer:
    return Offer("where", "Use torch.where", fix_class, changes, "same results", 1)


def seen(result: Any = ("int", 1), **changed: Any) -> dict[str, Any]:
    plain = {"family": "size", "raised": "", "printed": "", "logged": "", "stderr": "", "warned": []}
    return {"result": result, **plain, **changed}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (tensor(1.0), tensor(1.0), ""),
        (tensor(float("nan")), tensor(float("nan")), ""),
        (tensor(1.0), tensor(1.0, requires_grad=True), "requires_grad was False, is True"),
        (tensor(1.0), tensor(1.0, strides=[2]), "strides was [1], is [2]"),
        (tensor(1.0), tensor(1.0, dtype="torch.float64"), "dtype was torch.float32, is torch.float64"),
        (tensor(0.0), tensor(-0.0), "element 0 was 0.0, is -0.0"),
        (("NoneType", None), tensor(0.0), "was NoneType None, is Tensor"),
        (("int", 1), ("bool", True), "was int 1, is bool True"),
        (("list", [("int", 1)]), ("list", [("int", 2)]), "[0] was int 1, is int 2"),
        (("dict", [("'a'", ("int", 1))]), ("dict", [("'b'", ("int", 1))]), "other keys"),
    ],
)
def test_exact_observations_differ_in_a_bit_a_flag_or_a_type(old: Any, new: Any, words: str) -> None:
    text = difference(old, new, rounding=False, strides=True)
    assert words in text
    assert bool(text) == bool(words)


def test_rounding_is_relative_to_the_largest_element() -> None:
    old = tensor(1e-9, 1.0)
    for units, differs in ((ROUNDING / 2, False), (ROUNDING * 2, True)):
        new = tensor(1e-9 + units * 2.0**-23, 1.0)
        assert bool(difference(old, new, rounding=True, strides=False)) == differs
    assert difference(
        tensor(5, dtype="torch.int64"), tensor(6, dtype="torch.int64"), rounding=True, strides=False
    )


@pytest.mark.parametrize(
    ("offer", "new", "compiled", "broken"),
    [
        (offer("exact"), seen(tensor(1.0 + 2**-23)), False, True),
        (offer("exact"), seen(tensor(1.0 + 2**-23)), True, False),
        (offer("equal"), seen(tensor(1.0 + 2**-23)), False, False),
        (offer("equal"), seen(tensor(1.0), printed="1"), False, True),
        (
            offer("changes", "compiled calls do not print, in compiled calls"),
            seen(tensor(1.0), printed="1"),
            True,
            False,
        ),
        (
            offer("changes", "compiled calls do not print, in compiled calls"),
            seen(tensor(1.0), printed="1"),
            False,
            True,
        ),
        (offer("changes", "random numbers"), seen(tensor(7.0)), False, False),
        (offer("changes", "random numbers"), seen(tensor(7.0, shape=[1, 1])), False, True),
        (offer("changes", "raises an exception for an empty list"), seen(raised="ValueError"), False, False),
        (offer("equal"), seen(raised="ValueError"), False, True),
    ],
)
def test_a_class_admits_what_it_says(offer: Offer, new: Any, compiled: bool, broken: bool) -> None:  # noqa: FBT001
    assert bool(differences(seen(tensor(1.0)), new, offer, compiled=compiled)) == broken


@pytest.mark.parametrize(
    ("words", "new", "is_admitted"),
    [
        ("ZeroDivisionError becomes TorchRuntimeError", seen(raised="TorchRuntimeError"), True),
        ("ZeroDivisionError becomes TorchRuntimeError", seen(("str", "'TorchRuntimeError'")), True),
        ("ZeroDivisionError becomes another exception", seen(raised="TorchRuntimeError"), True),
        ("ZeroDivisionError becomes TorchRuntimeError", seen(raised="KeyError"), False),
        ("ZeroDivisionError becomes TorchRuntimeError", seen(tensor(1.0)), False),
        ("ZeroDivisionError is no longer raised", seen(tensor(1.0)), True),
        ("ZeroDivisionError is no longer raised", seen(raised="KeyError"), False),
        ("KeyError becomes TorchRuntimeError", seen(raised="TorchRuntimeError"), False),
        ("KeyError is no longer raised", seen(tensor(1.0)), False),
    ],
)
@pytest.mark.parametrize("is_caught", [True, False])
def test_a_title_admits_what_it_says_of_an_exception(
    words: str,
    new: Any,
    is_admitted: bool,  # noqa: FBT001 - a row
    is_caught: bool,  # noqa: FBT001 - a row
) -> None:
    old = seen(("str", "'ZeroDivisionError'")) if is_caught else seen(raised="ZeroDivisionError")
    named = replace(offer("equal"), raises=(_change(words),))
    assert (differences(old, new, named, compiled=False) == []) is is_admitted
    assert differences(seen(tensor(1.0)), new if new["raised"] else seen(tensor(2.0)), named, compiled=True)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_gradient_that_is_not_printed_is_admitted_where_the_title_names_it(compiled: bool) -> None:  # noqa: FBT001
    old, new = (
        seen(tensor(1.0), printed="tensor(1., grad_fn=<SumBackward0>)"),
        seen(tensor(1.0), printed="tensor(1.)"),
    )
    named = offer("changes", "compiled calls show tensors that require gradients without `grad_fn`")
    assert bool(differences(old, new, named, compiled=compiled)) != compiled
    assert differences(old, new, offer("equal"), compiled=compiled)


@pytest.mark.parametrize("dead", ["old", "new"])
def test_an_offer_whose_probes_died_is_not_kept(dead: str, tmp_path: Path) -> None:
    probes: Any = SimpleNamespace(observe=lambda *_, **__: {} if dead == "new" else {"probe_a": seen()})
    old = dict.fromkeys((False, True), {} if dead == "old" else {"probe_a": seen()})
    broken, admitted = truth._broken(offer("equal"), tmp_path, old, probes, unstable=[])
    assert admitted == []
    assert [text.partition(":")[0] for text in broken] == ["eager", "compiled"]


def test_the_strides_of_results_may_be_what_a_fix_changes() -> None:
    assert truth._is_excepted("strides", offer("changes", "the strides of results"))
    assert not truth._is_excepted("strides", offer("changes", "random numbers"))
    assert not truth._is_excepted("output", offer("changes", "the strides of results"))


def test_another_order_of_additions_is_seen_in_extreme_values() -> None:
    named = offer("changes", "the order of additions: large values round, cancel and overflow differently")
    assert truth._is_excepted("extreme", named)
    assert not truth._is_excepted("output", named)
    assert not truth._is_excepted("extreme", offer("changes", "half-precision sums overflow less often"))


def test_what_a_title_says_of_rows_excepts_the_probes_of_rows() -> None:
    named = replace(
        offer("equal"), words="same results, but one selected row is not broadcast in compiled calls"
    )
    assert truth._is_excepted("row", named)
    assert not truth._is_excepted("number", named)
    assert not truth._is_excepted("row", offer("equal"))


def test_each_change_of_a_program_applies_and_there_are_wrong_and_right_ones() -> None:
    changes = read_changes()
    for change in changes:
        compile(change.new_text, change.program, "exec")
        assert change.new_text != (CHANGES / f"{change.program}.py").read_text(encoding="utf-8")
    assert sum(bool(change.shown_by) for change in changes) >= 40
    assert sum(not change.shown_by for change in changes) >= 40
    assert len({(change.program, change.name) for change in changes}) == len(changes)


@pytest.mark.parametrize(
    ("shown_by", "verdict", "why", "well"),
    [
        ("heads", "differs", "output: was 1, is 2 (eager, dim = 4)", True),
        ("heads", "same", "same results", False),
        ("heads", "same", "same results, but not compared: another `heads`", True),
        ("heads", "same", "same results, except for float16 inputs", False),
        ("heads", "same", "same results, but no ordinary call ran line 4 of the old text", True),
        ("", "same", "same results, except for other values of `heads`", True),
        ("", "differs", "output: was 1, is 2", False),
        ("heads", "unverified", "it cannot be verified", False),
    ],
)
def test_a_wrong_change_is_judged_by_its_caveat(shown_by: str, verdict: str, why: str, *, well: bool) -> None:
    assert is_judged_well(Change("attention", "a change", shown_by, ()), verdict, why) is well
