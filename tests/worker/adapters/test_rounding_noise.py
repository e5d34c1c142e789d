"""Eager mode with other rounding moves what rounding decides, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.rounding_noise import RoundingNoise, WrittenMemory, as_tf32

pytestmark = pytest.mark.torch


def test_each_operator_moves_by_a_rounding_step_and_a_copy_by_none() -> None:
    x = torch.linspace(1, 2, 1000)
    with RoundingNoise(1):
        product, copy = x * 3, x.clone()
    steps = (product - x * 3).abs() / (x * 3)
    assert 0 < steps.max() <= 2.01 * torch.finfo(torch.float32).eps
    assert torch.equal(copy, x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_step_is_that_of_the_dtype(dtype: torch.dtype) -> None:
    x = torch.linspace(1, 1.5, 64, dtype=torch.float64).to(dtype)
    with RoundingNoise(2):
        moved = x.sqrt()
    assert moved.dtype is dtype
    assert ((moved - x.sqrt()).abs() <= 2.01 * torch.finfo(dtype).eps).all()
    assert not torch.equal(moved, x.sqrt())


def test_what_changes_in_place_stays_the_same_object() -> None:
    x = torch.linspace(1, 2, 100)
    before, view = x.clone(), x[10:]
    with RoundingNoise(1):
        result = x.mul_(3)
    assert result is x
    assert view.data_ptr() == x[10:].data_ptr()
    assert not torch.equal(x, before * 3)
    torch.testing.assert_close(x, before * 3)


@pytest.mark.parametrize("function", [torch.argmax, torch.argmin])
def test_a_tie_goes_to_the_other_place_and_a_clear_answer_stays(function: object) -> None:
    assert callable(function)
    with RoundingNoise(1):
        assert function(torch.tensor([[2.0, 2.0, 2.0]]), 1).item() == 2
        assert function(torch.tensor([[1.0, 7.0, 3.0], [4.0, 0.0, 2.0]]), 1).tolist() == (
            [1, 0] if function is torch.argmax else [0, 1]
        )


def test_the_largest_number_that_replaces_an_infinity_stays() -> None:
    x = torch.tensor([6e4] * 64, dtype=torch.float16)
    with RoundingNoise(1):
        bounded = torch.nan_to_num(x * 2)
        of_bounded, infinite = bounded * 1, x * 2
    assert bounded.isfinite().all()
    assert of_bounded.isfinite().all(), "a step up from the largest number is no infinity"
    assert infinite.isinf().all()


def test_a_nan_has_the_other_sign_and_an_integer_stays() -> None:
    x = torch.tensor([-1.0, 4.0])
    with RoundingNoise(1):
        root, number = torch.sqrt(x), torch.tensor([3]) * 5
    assert torch.signbit(root)[0] != torch.signbit(torch.sqrt(x))[0]
    assert number.item() == 15


def test_memory_that_nobody_wrote_is_seen() -> None:
    with WrittenMemory():
        empty, zeros = torch.empty(3) * 1, torch.zeros(3) * 1
    assert torch.equal(empty, torch.full((3,), 97.0))
    assert torch.equal(zeros, torch.zeros(3))


def test_tf32_has_ten_bits_of_a_fraction() -> None:
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, -(1 + 2**-12)])
    assert as_tf32(x).tolist() == [1.0, 1 + 2**-10, 1.0, -1.0]


def test_an_operator_that_returns_its_argument_still_does() -> None:
    """A copy would not show what the program then changes in the argument."""
    library: Any = torch.library.Library("fuselight_noise", "DEF")  # type: ignore[no-untyped-call]
    library.define("first_half(Tensor x) -> Tensor")
    library.impl("first_half", lambda x: x[: x.shape[0] // 2], "CPU")
    values = torch.ones(4)
    with RoundingNoise(1):
        torch.ops.fuselight_noise.first_half(values).zero_()
    assert values.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(2, 3, 17, 24)[..., :17],
        lambda: torch.randn(1, 1, 17, 24)[..., :17].expand(2, 3, 17, 17),
        lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.randn(40, 3)[:, 1],
        lambda: torch.randn(4, 5).t(),
    ],
    ids=["padded", "expanded", "channels_last", "column", "transposed"],
)
def test_a_factor_keeps_its_strides(make: Callable[[], torch.Tensor]) -> None:
    """An attention on a GPU refuses a mask whose rows are not aligned: the call raised, and its noise was lost."""
    given = make()
    seen: list[torch.Tensor] = []
    library: Any = torch.library.Library("fuselight_noise", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("mm(Tensor x) -> Tensor")

    def note(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x.sum()

    library.impl("mm", note, "CPU")
    with RoundingNoise(1):
        torch.ops.fuselight_noise.mm(given)
    assert seen[0].stride() == given.stride()
    assert not torch.equal(seen[0], given)
    torch.testing.assert_close(seen[0], given)


def test_inference_mode_rounds_the_factors_of_a_convolution() -> None:
    x, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    moved = []
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), RoundingNoise(1):
            moved.append(torch.nn.functional.conv2d(x, weight))
    assert torch.equal(*moved)
