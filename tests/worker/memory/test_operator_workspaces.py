"""What operators allocate and free inside on a GPU, from the shapes and strides of their arguments."""

from __future__ import annotations

import functools

import pytest
import torch

from fuselight.adapters.torch_api.operator_workspaces import inside_operator, inside_operator_of_cpu
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


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_a_product_copies_matrices_that_its_library_cannot_read(name: str) -> None:
    inside = inside_operator_of_cpu if name == "cpu" else functools.partial(inside_operator, find(name))
    x, scalar = empty(256, 512), empty(1, 1)
    copied = x.numel() * 2
    assert inside(ATEN.mm.default, (x, x.t()), None) == 0
    assert inside(ATEN.mm.default, (scalar.expand(256, 512), x.t()), None) == copied, "the gradient of a sum"
    assert inside(ATEN.mm.default, (x[:, ::2], scalar.expand(256, 64)), None) == copied // 2 + 256 * 64 * 2
    assert inside(ATEN.addmm.default, (empty(512), x, scalar.expand(512, 512)), None) == 512 * 512 * 2
    assert inside(ATEN.addmm.default, (scalar.expand(256, 256), x, x.t()), None) == 0, (
        "what is added is no factor"
    )


def test_batches_may_repeat_a_matrix() -> None:
    x, y, h200 = empty(1, 256, 512), empty(8, 512, 64), find("h200")
    assert inside_operator(h200, ATEN.bmm.default, (x.expand(8, -1, -1), y), None) == 0
    sums = empty(1, 1, 1).expand(8, 256, 512)
    assert inside_operator(h200, ATEN.bmm.default, (sums, y), None) == 8 * 256 * 512 * 2
    assert (
        inside_operator(h200, ATEN.baddbmm.default, (empty(8, 256, 64), sums, y), None) == 8 * 256 * 512 * 2
    )
