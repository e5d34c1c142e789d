"""What operators allocate and free inside on a GPU, from the shapes and strides of their arguments."""

from __future__ import annotations

import functools

import pytest
import torch

from fuselight.adapters.torch_api.cpu_workspaces import inside_operator_of_cpu
from fuselight.adapters.torch_api.operator_workspaces import inside_operator
from fuselight.shared.devices import find
from fuselight.shared.report import Device

pytestmark = pytest.mark.torch
ATEN = torch.ops.aten
MIB = 1 << 20


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


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


FLOAT = torch.float32


@pytest.mark.parametrize(
    ("operator", "arguments", "result", "size"),
    [  # as an H200's allocator had them, torch 2.11
        (ATEN.mse_loss.default, (empty(4096, 1024), empty(4096, 1024)), empty(), 8_391_168),
        (ATEN.huber_loss.default, (empty(4096, 1024, dtype=FLOAT),) * 2, empty(), 16_779_776),
        (ATEN.binary_cross_entropy_with_logits.default, (empty(4096, 1024),) * 2, empty(), 16_779_776),
        (
            ATEN.embedding_dense_backward.default,
            (empty(64, 512, 512), empty(64, 512, dtype=torch.int64), 30000, -1, False),
            None,
            69_683_200,
        ),
        (ATEN.var.correction, (empty(65536, 256), [0]), None, 536_871_424),
        (
            ATEN.native_layer_norm.default,
            (empty(64, 64, 1024, dtype=FLOAT).transpose(0, 1), [1024]),
            None,
            16_777_216,
        ),
        (
            ATEN._scaled_dot_product_efficient_attention_backward.default,
            (empty(4, 16, 1024, 64, dtype=FLOAT),) * 5,
            None,
            34_078_720,
        ),
    ],
)
def test_what_operators_have_inside_on_an_h200(
    operator: object, arguments: tuple[object, ...], result: object, size: int
) -> None:
    known = inside_operator(find("h200"), operator, arguments, result)
    assert known == pytest.approx(size, rel=0.01)


def test_a_loss_of_each_element_and_few_indices_have_nothing_inside() -> None:
    h200, x = find("h200"), empty(4096, 1024)
    assert inside_operator(h200, ATEN.mse_loss.default, (x, x, 0), x) == 0
    few = empty(64, dtype=torch.int64)
    arguments = empty(64, 512), few, 30000, -1, False
    assert inside_operator(h200, ATEN.embedding_dense_backward.default, arguments, None) == 0


def convolved(
    x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, groups: int = 1
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """The arguments of a convolution and of its backward."""
    common = [1, 1], [1, 1], [1, 1], False, [0, 0], groups
    return (x, weight, None, *common), (y, x, weight, [1], *common, [True, True, True])


@pytest.mark.parametrize(
    ("shapes", "groups", "forward", "backward"),
    [  # the same
        (((16, 64, 64, 64), (128, 64, 3, 3), (16, 128, 64, 64)), 1, 25_313_792, 29_147_648),
        (((16, 64, 64, 64), (128, 64, 3, 3), (16, 128, 32, 32)), 1, 12_730_880, 13_516_800),
        (((16, 3, 128, 128), (64, 3, 7, 7), (16, 64, 64, 64)), 1, 12_633_600, 18_654_208),
        (((16, 64, 64, 64), (128, 64, 1, 1), (16, 128, 64, 64)), 1, 0, 523_776),
        (((16, 64, 64, 64), (64, 1, 3, 3), (16, 64, 64, 64)), 64, 0, 0),
    ],
    ids=["3x3", "stride", "image", "1x1", "depthwise"],
)
def test_cudnn_copies_what_has_channels_first(
    shapes: tuple[tuple[int, ...], ...], groups: int, forward: int, backward: int
) -> None:
    """`shapes`: of the input, the weight and the result."""
    x, weight, y = shapes
    arguments, gradients = convolved(empty(*x), empty(*weight), empty(*y), groups)
    h200 = find("h200")
    assert inside_operator(h200, ATEN.convolution.default, arguments, empty(*y)) == pytest.approx(
        forward, rel=0.15
    )
    known = inside_operator(h200, ATEN.convolution_backward.default, gradients, None)
    assert known == pytest.approx(backward, rel=0.35, abs=1 << 20)
    last = empty(*x).to(memory_format=torch.channels_last)
    arguments, _ = convolved(last, empty(*weight), empty(*y), groups)
    assert inside_operator(h200, ATEN.convolution.default, arguments, empty(*y)) == 0
