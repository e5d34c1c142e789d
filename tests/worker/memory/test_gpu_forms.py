"""Dropout and norms of fake tensors keep for the backward what they keep on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.gpu_forms import gpu_forms

pytestmark = pytest.mark.torch


def saved(make: object) -> list[tuple[torch.dtype, int]]:
    """dtype and elements of each tensor that a call saves, besides its input."""
    kept: list[tuple[torch.dtype, int]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append((tensor.dtype, tensor.numel()))
        return tensor

    with settings.fake_tensors():
        x = torch.randn(8, 32, dtype=torch.bfloat16, requires_grad=True)
        weight = torch.ones(32, dtype=torch.bfloat16, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = make(x, weight)  # type: ignore[operator]
        result.sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
    return kept


def test_the_mask_of_dropout_has_a_byte_for_each_element() -> None:
    with gpu_forms():
        assert (torch.bool, 256) in saved(lambda x, _: functional.dropout(x, 0.1))
    assert (torch.bool, 256) not in saved(lambda x, _: functional.dropout(x, 0.1))


def test_a_norm_keeps_its_input_and_a_number_for_each_row() -> None:
    with gpu_forms():
        kept = saved(lambda x, weight: functional.rms_norm(x, [32], weight))
        assert sorted(kept, key=str) == [(torch.bfloat16, 256), (torch.bfloat16, 32), (torch.float32, 8)]
        real = functional.rms_norm(torch.ones(2, 4), [4])
    assert torch.equal(real, functional.rms_norm(torch.ones(2, 4), [4])), (
        "values are computed where there are some"
    )
