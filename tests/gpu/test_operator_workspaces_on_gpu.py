"""What operators allocate and free inside, by the allocator, is what the estimate has for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.adapters.torch_api.operator_workspaces import inside_operator
from fuselight.capture.calls.present_device import present_device

pytestmark = pytest.mark.torch
CLOSE = 4 << 20
"""Bytes by which the allocator rounds blocks up, and semaphores."""


class Inside(TorchDispatchMode):
    """The most that an operator has allocated beside its results, and the estimate of it, by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        result = func(*args, **(kwargs or {}))
        torch.cuda.synchronize()
        device = present_device()
        assert device is not None
        inside = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
        self.seen[func._schema.name] = inside, inside_operator(device, func, args, result)
        return result


def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def backward_of(make: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    result = make(*(x.detach().requires_grad_() for x in inputs))
    result.backward(torch.randn_like(result))  # type: ignore[no-untyped-call]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        result: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return result


def encoder(*, norm_first: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        512,
        8,
        2048,
        0.1,
        "gelu",
        batch_first=True,
        norm_first=norm_first,
        device="cuda",
        dtype=torch.bfloat16,
    ).eval()
    with torch.no_grad():
        layer(tensor(32, 256, 512))


SUM, MEAN = "aten::sum", "aten::mean"
CASES: dict[str, tuple[str, Callable[[], object]]] = {
    "bias of 65,536 rows": (SUM, lambda: tensor(65536, 1024).sum(0)),
    "bias in float32": (SUM, lambda: tensor(4096, 512, dtype=torch.float32).sum(0)),
    "bias of few rows": (SUM, lambda: tensor(64, 4096).sum(0)),
    "wide bias": (SUM, lambda: tensor(16384, 8192).sum((0,), keepdim=True)),
    "bias of sequences": (SUM, lambda: tensor(8, 2048, 2048).sum((0, 1))),
    "odd width": (SUM, lambda: tensor(32768, 1001).sum(0)),
    "rows": (SUM, lambda: tensor(4096, 8192).sum(1)),
    "a few long rows": (SUM, lambda: tensor(3, 1 << 24).sum(1)),
    "channels": (SUM, lambda: tensor(64, 128, 56, 56).sum((0, 2, 3))),
    "everything": (SUM, lambda: tensor(1 << 26).sum()),
    "mean of sequences": (MEAN, lambda: tensor(8, 4096, 1024).mean(1)),
    "mean of all": (MEAN, lambda: tensor(8192, 4096).mean()),
    "product with a gradient of a sum": (
        "aten::mm",
        lambda: tensor(1, 1).expand(8192, 2048).t() @ tensor(8192, 1024),
    ),
    "product of every second column": ("aten::mm", lambda: tensor(4096, 4096)[:, ::2] @ tensor(2048, 512)),
    "linear layer of every second column": (
        "aten::addmm",
        lambda: torch.addmm(tensor(512), tensor(4096, 4096)[:, ::2], tensor(2048, 512)),
    ),
    "products of a repeated matrix": (
        "aten::bmm",
        lambda: torch.bmm(tensor(1, 1024, 1024).expand(16, -1, -1), tensor(16, 1024, 256)),
    ),
    "products of gradients of sums": (
        "aten::bmm",
        lambda: torch.bmm(tensor(1, 1, 1).expand(16, 1024, 1024), tensor(16, 1024, 256)),
    ),
    "softmax of a transposed tensor": ("aten::_softmax", lambda: tensor(4096, 4096).t().softmax(-1)),
    "log_softmax of a transposed tensor": (
        "aten::_log_softmax",
        lambda: tensor(4096, 4096).t().log_softmax(-1),
    ),
    "softmax's backward": (
        "aten::_softmax_backward_data",
        lambda: backward_of(lambda x: x.softmax(-1), tensor(4096, 4096)),
    ),
    "log_softmax's backward": (
        "aten::_log_softmax_backward_data",
        lambda: backward_of(lambda x: x.log_softmax(-1), tensor(4096, 4096)),
    ),
    "cuDNN's attention": (
        "aten::_scaled_dot_product_cudnn_attention_backward",
        lambda: backward_of(attention, *(tensor(8, 16, 2048, 64) for _ in range(3))),
    ),
    "torch's encoder, norm first": ("aten::_transformer_encoder_layer_fwd", lambda: encoder(norm_first=True)),
    "torch's encoder": ("aten::_transformer_encoder_layer_fwd", lambda: encoder(norm_first=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_estimate_has_what_the_operator_allocates(name: str) -> None:
    operator, make = CASES[name]
    make()  # libraries allocate their workspaces
    with Inside() as mode:
        make()
    measured, estimated = mode.seen[operator]
    assert estimated == pytest.approx(measured, abs=CLOSE)
