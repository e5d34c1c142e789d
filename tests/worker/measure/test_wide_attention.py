# ruff: noqa: FBT003 - the flags are ATen's
"""Fused attention of a GPU is judged by its definition in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fuselight.measure.accuracy.wide_attention import wide_form

pytestmark = pytest.mark.torch
ATEN = torch.ops.aten


def inputs(heads: int = 4) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = (2, 4, 8, 16), (2, heads, 8, 16), (2, heads, 8, 16)
    return tuple(torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes)


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("kind", ["flash", "cudnn"])
def test_results_and_gradients_are_those_of_the_definition(kind: str, heads: int) -> None:
    q, k, v = inputs(heads)
    expected = functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=0.3, enable_gqa=heads != 4
    )
    grad = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view_as(expected)
    gradients = torch.autograd.grad(expected, (q, k, v), grad)
    none = None
    with torch.no_grad():
        if kind == "flash":
            results = wide_form(ATEN._scaled_dot_product_flash_attention.default)(
                q, k, v, 0.0, True, scale=0.3
            )
            back = wide_form(ATEN._scaled_dot_product_flash_attention_backward.default)(
                grad, q, k, v, *(none,) * 6, 0.0, True, none, none, scale=0.3
            )
        else:
            results = wide_form(ATEN._scaled_dot_product_cudnn_attention.default)(
                q, k, v, none, True, 0.0, True, scale=0.3
            )
            back = wide_form(ATEN._scaled_dot_product_cudnn_attention_backward.default)(
                grad, q, k, v, *(none,) * 9, 0.0, True, scale=0.3
            )
    torch.testing.assert_close(results[0], expected)
    assert results[1].shape == ((2, 4, 8) if kind == "flash" else (2, 4, 8, 1))
    for ours, theirs in zip(back, gradients, strict=False):
        torch.testing.assert_close(ours, theirs)


def test_a_bias_has_a_gradient() -> None:
    q, k, v = inputs()
    bias = torch.randn(2, 4, 8, 8, dtype=torch.float64, requires_grad=True)
    expected = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    gradients = torch.autograd.grad(expected, (q, k, v, bias), expected.detach())
    with torch.no_grad():
        results = wide_form(ATEN._scaled_dot_product_efficient_attention.default)(q, k, v, bias, True)
        back = wide_form(ATEN._scaled_dot_product_efficient_attention_backward.default)(
            expected.detach(), q, k, v, bias, *(None,) * 4, 0.0, [True] * 4
        )
    torch.testing.assert_close(results[0], expected)
    for ours, theirs in zip(back, gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_dropout_is_refused_and_other_operators_are_themselves() -> None:
    with pytest.raises(ValueError, match="random"):
        wide_form(ATEN._scaled_dot_product_flash_attention.default)(*inputs(), 0.1)
    assert wide_form(ATEN.mm.default) is ATEN.mm.default
    assert wide_form(len) is len
