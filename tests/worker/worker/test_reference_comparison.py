"""Results of a target compared with a reference: rounding is no difference, everything else is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.worker.child.reference_comparison import NoReferenceError, compare_with_reference

pytestmark = pytest.mark.torch


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def failing(x: torch.Tensor) -> torch.Tensor:
    raise ValueError(x.shape)


NAMES: dict[str, Any] = {
    "plain": plain,
    "failing": failing,
    "pair": lambda x: (x, x),
    "rows": lambda x: x[0],
    "number": 3,
}


def prepared(dtype: torch.dtype) -> Prepared:
    torch.manual_seed(3)
    return Prepared(plain, (torch.randn(7, 90).to(dtype),), {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_rounding_is_no_difference(dtype: torch.dtype) -> None:
    call = prepared(dtype)
    (x,) = call.args
    other = (x.double().exp() / x.double().exp().sum(-1, keepdim=True)).to(dtype)
    assert compare_with_reference(call, other, "plain", NAMES) is None
    assert compare_with_reference(call, plain(x), "plain", NAMES) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_wrong_element_is_named(dtype: torch.dtype) -> None:
    call = prepared(dtype)
    wrong = plain(call.args[0])
    wrong[3, 4] += 0.5
    wrong[5, 6] = float("nan")
    difference = compare_with_reference(call, wrong, "plain", NAMES)
    assert difference is not None
    assert (difference.index, difference.count, difference.elements) == ((3, 4), 2, 630)
    assert difference.largest == float("inf")
    assert difference.value - difference.expected == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "the file has no function `missing`"),
        ("number", "the file has no function `number`"),
        ("failing", "the reference raised ValueError"),
        ("pair", "`pair` returns 2 tensors, and the target 1"),
        ("rows", r"tensor 0 of `rows` has the shape \(90,\), that of the target \(7, 90\)"),
    ],
)
def test_a_reference_that_cannot_be_used_says_why(name: str, reason: str) -> None:
    call = prepared(torch.float32)
    with pytest.raises(NoReferenceError, match=reason):
        compare_with_reference(call, plain(*call.args), name, NAMES)


def test_empty_results_and_inputs_that_are_kept() -> None:
    empty = Prepared(plain, (torch.zeros(0, 4),), {})
    assert compare_with_reference(empty, torch.zeros(0, 4), "plain", NAMES) is None
    call = Prepared(lambda x: x, (torch.ones(3),), {})
    assert compare_with_reference(call, torch.full((3,), 2.0), "add", {"add": lambda x: x.add_(1)}) is None
    assert call.args[0].eq(1).all()
