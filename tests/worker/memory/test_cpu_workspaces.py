"""What operators allocate and free inside on a CPU: the table has what the allocator did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.adapters.torch_api.allocator_history import recorded_history
from fuselight.adapters.torch_api.cpu_workspaces import inside_operator_of_cpu

pytestmark = pytest.mark.torch
CLOSE = 4096
"""Bytes of numbers for channels and threads."""


class Inside(TorchDispatchMode):
    """By name, what the allocator has given an operator beside its results, and what the table has for it."""

    def __init__(self, *names: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = names
        self.seen: dict[str, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name not in self.names:
            return func(*args, **(kwargs or {}))
        with recorded_history(torch.device("cpu")) as history:
            result = func(*args, **(kwargs or {}))
        now = most = 0
        for event in history.events:
            now += event.bytes
            most = max(most, now)
        self.seen[name] = most - now, inside_operator_of_cpu(func, args, result)
        return result


def check(seen: dict[str, tuple[int, int]], *names: str, part: float = 0.0) -> None:
    assert set(seen) == set(names)
    for name, (measured, known) in seen.items():
        assert known > CLOSE, name
        assert abs(known - measured) <= CLOSE + part * measured, (name, measured, known)


def gradients_of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    (function(*inputs) * 2).sum().backward()  # type: ignore[no-untyped-call]


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("length", [100, 256, 800])
def test_attention_has_scores_of_each_thread_and_a_copy_of_the_gradient(length: int) -> None:
    name = "_scaled_dot_product_flash_attention_for_cpu"
    with Inside(name, f"{name}_backward") as inside:
        x = [numbers(2, 4, length, 16) for _ in range(3)]
        gradients_of(functional.scaled_dot_product_attention, *x)
    check(inside.seen, name, f"{name}_backward")


@pytest.mark.parametrize("length", [32, 100, 700])
def test_attention_of_bfloat16_has_keys_and_values_once_more_where_they_are_packed(length: int) -> None:
    name, x = (
        "_scaled_dot_product_flash_attention_for_cpu",
        torch.randn(2, 4, length, 32, dtype=torch.bfloat16),
    )
    with Inside(name) as inside:
        functional.scaled_dot_product_attention(x, x, x)
    check(inside.seen, name)


def test_the_backward_of_a_batch_norm_has_its_gradient_twice_only_if_all_is_in_one_piece() -> None:
    name, x = "native_batch_norm_backward", numbers(4, 8, 32, 32)
    with Inside(name) as inside:
        gradients_of(nn.BatchNorm2d(8), x)
    check(inside.seen, name)
    with Inside(name) as inside:
        nn.BatchNorm2d(8)(x).sum().backward()  # an expanded gradient
    assert inside.seen[name][1] == 0
    assert inside.seen[name][0] < CLOSE


def test_a_layer_norm_copies_what_is_not_in_one_piece() -> None:
    names = "native_layer_norm", "native_layer_norm_backward"
    with Inside(*names) as inside:
        gradients_of(lambda x: nn.LayerNorm(64)(x.transpose(0, 1)), numbers(32, 16, 64))
    check(inside.seen, *names)


def test_a_loss_has_what_is_reduced() -> None:
    with Inside("mse_loss", "smooth_l1_loss") as inside:
        x, y = numbers(64, 100), torch.zeros(64, 100)
        functional.mse_loss(x, y)
        functional.smooth_l1_loss(x, y)
    assert {known for _, known in inside.seen.values()} == {64 * 100 * 4}


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(16, 32, 3, padding=1),
        nn.Conv2d(16, 32, 1),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.Conv2d(20, 40, 3, padding=1),
    ],
    ids=["3x3", "1x1", "depthwise", "padded"],
)
def test_a_convolution_has_blocks_of_channels(layer: nn.Conv2d) -> None:
    with Inside("convolution", "convolution_backward") as inside:
        gradients_of(layer, numbers(2, layer.in_channels, 32, 32))
    check(inside.seen, "convolution", "convolution_backward", part=0.1)


@pytest.mark.parametrize("shape", [(5, 3, 20, 24), (12, 2, 32, 8), (3, 4, 8, 64)])
def test_an_lstm_keeps_gates_and_states(shape: tuple[int, int, int, int]) -> None:
    """Steps, batch, size of the input and of the state: what is kept is that of oneDNN to the byte."""
    from fuselight.adapters.torch_api.cpu_workspaces import lstm_kept  # noqa: PLC0415 - only here

    steps, batch, size, hidden = shape
    kept: list[tuple[int, int]] = []

    class Kept(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func._schema.name == "aten::mkldnn_rnn_layer":
                kept.append((result[-1].untyped_storage().nbytes(), lstm_kept(args)))
            return result

    layer = nn.LSTM(size, hidden, num_layers=2, bidirectional=True)
    with Kept():  # type: ignore[no-untyped-call]
        layer(torch.randn(steps, batch, size))
    assert len(kept) == 4
    for measured, known in kept:
        assert measured == known


def test_other_operators_have_nothing_inside() -> None:
    x = torch.randn(64, 64)
    for operator in (torch.ops.aten.add.Tensor, torch.ops.aten.mm.default):
        assert inside_operator_of_cpu(operator, (x, x), x) == 0
