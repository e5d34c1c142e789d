"""What operators allocate and free inside on a GPU, from the shapes and strides of their arguments."""

from __future__ import annotations

import pytest
import torch

from fuselight.adapters.torch_api.operator_workspaces import inside_operator
from fuselight.shared.devices import find
from fuselight.shared.report import Device

pytestmark = pytest.mark.torch
ATEN = torch.ops.aten
MIB = 1 << 20


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("shape", "dimensions", "dtype", "size"),
    [  # the first two as an H200's allocator had them
        ((65536, 1024), [0], torch.bfloat16, 132 * MIB),
        ((4096, 512), [0], torch.float32, 16 * MIB),
        ((8, 8192, 1024), [0, 1], torch.bfloat16, 132 * MIB),
        ((64, 1024), [0], torch.bfloat16, 0),
        ((4096, 512), [1], torch.float32, 0),
        ((0, 512), [0], torch.float32, 0),
    ],
)
def test_a_sum_over_many_rows_has_partial_results(
    shape: tuple[int, ...], dimensions: list[int], dtype: torch.dtype, size: int
) -> None:
    arguments = empty(*shape, dtype=dtype), dimensions
    assert inside_operator(find("h200"), ATEN.sum.dim_IntList, arguments, None) == size


def test_partial_results_are_of_the_multiprocessors_of_the_device() -> None:
    def of(device: Device) -> int:
        return inside_operator(device, ATEN.sum.dim_IntList, (empty(65536, 1024), [0]), None)

    assert 0 < of(find("t4")) < of(find("h200"))
    assert of(find("cpu")) == 0


def test_a_sum_of_all_has_a_number_for_each_block() -> None:
    assert 0 < inside_operator(find("h200"), ATEN.sum.default, (empty(1 << 26),), None) < MIB


def test_a_softmax_copies_what_is_not_in_one_piece() -> None:
    x, h200 = empty(256, 512), find("h200")
    copied = x.numel() * 2
    assert inside_operator(h200, ATEN._softmax.default, (x, -1, False), None) == 0
    assert inside_operator(h200, ATEN._log_softmax.default, (x.t(), -1, False), None) == copied
    backward = ATEN._softmax_backward_data.default
    assert inside_operator(h200, backward, (x, x, -1, x.dtype), None) == copied
    assert inside_operator(h200, backward, (x.t(), x.t(), -1, x.dtype), None) == 3 * copied
    backward = ATEN._log_softmax_backward_data.default
    assert inside_operator(h200, backward, (x, x.t(), -1, x.dtype), None) == copied
