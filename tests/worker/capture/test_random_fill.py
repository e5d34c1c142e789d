"""Large random tensors of a build are filled from a block: same distribution, same in each run, no other tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fuselight.capture.calls.random_fill import LARGE, Filled, quick_random

pytestmark = pytest.mark.torch
ROWS, COLUMNS = 2500, 2048
"""More values than the block has, in rows whose length is a power of two."""


def filled(make: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, Filled]:
    torch.manual_seed(0)
    with quick_random() as done:
        return make(), done


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_normal_fill_has_the_mean_and_the_deviation_asked_for(dtype: torch.dtype) -> None:
    tensor, done = filled(lambda: torch.empty(ROWS, COLUMNS, dtype=dtype).normal_(3.0, 0.5))
    assert done.values == ROWS * COLUMNS
    assert abs(tensor.double().mean().item() - 3.0) < 0.01
    assert abs(tensor.double().std().item() - 0.5) < 0.01


def test_a_uniform_fill_stays_in_its_bounds_and_reaches_into_all_of_them() -> None:
    tensor, done = filled(lambda: torch.nn.init.uniform_(torch.empty(ROWS, COLUMNS), -2.0, 6.0))
    assert done.values == ROWS * COLUMNS
    assert tensor.min() >= -2.0
    assert tensor.max() <= 6.0
    assert torch.histc(tensor, bins=8, min=-2, max=6).div(tensor.numel()).sub(1 / 8).abs().max() < 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 1.0), (-0.02, 0.02), (3.0, 3.0)])
def test_the_upper_bound_of_a_uniform_fill_is_left_out(
    dtype: torch.dtype, bounds: tuple[float, float]
) -> None:
    tensor, done = filled(lambda: torch.empty(ROWS, COLUMNS, dtype=dtype).uniform_(*bounds))
    assert done.values == ROWS * COLUMNS
    high = torch.tensor(bounds[1], dtype=dtype)
    assert bool(tensor.max() < high) == (bounds[0] < bounds[1])


def test_bounds_given_by_name_are_kept() -> None:
    tensor, _ = filled(lambda: torch.empty(LARGE).uniform_(**{"from": 0.0, "to": 0.0}))  # type: ignore[arg-type]
    assert tensor.max() == 0


@pytest.mark.parametrize("draw", ["normal_", "uniform_"])
def test_another_default_device_changes_nothing(draw: str) -> None:
    def make() -> torch.Tensor:
        with torch.device("meta"):
            new_tensor: torch.Tensor = getattr(torch.empty(LARGE, device="cpu"), draw)()
            return new_tensor

    tensor, done = filled(make)
    assert done.values == LARGE
    assert tensor.std() > 0.1


def test_no_two_rows_of_a_matrix_are_equal() -> None:
    tensor, _ = filled(lambda: torch.empty(ROWS, COLUMNS).normal_())
    assert len(torch.unique(tensor, dim=0)) == ROWS


def test_two_runs_give_the_same_and_two_tensors_of_one_run_do_not() -> None:
    def two() -> torch.Tensor:
        return torch.stack([torch.empty(LARGE).normal_(), torch.empty(LARGE).normal_()])

    first, second = filled(two)[0], filled(two)[0]
    assert torch.equal(first, second)
    assert not torch.equal(first[0], first[1])


def small() -> torch.Tensor:
    return torch.empty(LARGE - 1).normal_()


def own_generator() -> torch.Tensor:
    return torch.empty(LARGE).normal_(generator=torch.Generator().manual_seed(1))


def strided() -> torch.Tensor:
    return torch.empty(1024, 2048).t().normal_()


@pytest.mark.parametrize("make", [small, own_generator, strided])
def test_other_values_are_drawn_as_in_torch(make: Callable[[], torch.Tensor]) -> None:
    tensor, done = filled(make)
    assert done.values == 0
    torch.manual_seed(0)
    assert torch.equal(tensor, make())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: torch.empty(LARGE).normal_(0.0, -1.0),
        lambda: torch.empty(LARGE).uniform_(1.0, 0.0),
        lambda: torch.empty(LARGE).uniform_(-math.inf, math.inf),
        lambda: torch.empty(LARGE, dtype=torch.float16).uniform_(0.0, 1e6),
        lambda: torch.empty(LARGE, requires_grad=True).normal_(),
        lambda: torch.empty(LARGE, dtype=torch.float8_e4m3fn).normal_(),
        lambda: torch.empty(LARGE).uniform_(junk=None),  # type: ignore[call-arg]
    ],
)
def test_invalid_fills_are_rejected_as_in_torch(wrong: Callable[[], torch.Tensor]) -> None:
    with pytest.raises((RuntimeError, TypeError)), quick_random():
        wrong()


def test_torch_is_restored_afterwards() -> None:
    before = dict(vars(torch.Tensor))
    with pytest.raises(ZeroDivisionError), quick_random():
        math.fmod(1 / 0, 1)
    assert dict(vars(torch.Tensor)) == before
