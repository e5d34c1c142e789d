# ruff: noqa: SLF001, FBT001, FBT002, FBT003, PLR0917 - private names are this package's business; the flags are ATen's
"""Chooses the attention operator that a CUDA device would get, on Dynamo's graph.

`scaled_dot_product_attention` dispatches by device while it is traced, which is on the CPU. The CUDA operators trace on
CPU fakes all the same, with their real backward, so the choice is made before. Invariant: the choice is that of
ATen's sdp_utils.cpp for the inputs that are known while tracing: device, dtype, mask, head size.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from fuselight.report import Device

_FLASH_HEAD = 256
_SDPA = torch._C._nn.scaled_dot_product_attention


def target_attention(gm: torch.fx.GraphModule, device: Device) -> None:
    """Have each attention of a graph of Dynamo's call what `device` would get, in place."""
    major = int(device.arch.partition(".")[0]) if device.backend == "cuda" and device.arch else 9

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        return _attention(
            major,
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )

    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.op == "call_function" and node.target is _SDPA]
        for node in found:
            node.target = attention
        if found:
            module.recompile()


def _attention(
    major: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    *,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    aten: Any = torch.ops.aten
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:  # noqa: PLR2004 - batch, heads, length, head size
        out: torch.Tensor = aten._scaled_dot_product_attention_math.default(
            query, key, value, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
        return out
    if enable_gqa and query.size(1) != key.size(1):
        groups = query.size(1) // key.size(1)
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    half = query.dtype in {torch.float16, torch.bfloat16}
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(query.dtype)
    if mask is None and half and major >= 8 and query.size(-1) <= _FLASH_HEAD:  # noqa: PLR2004 - Ampere
        flash: torch.Tensor = aten._scaled_dot_product_flash_attention.default(
            query, key, value, dropout, is_causal, False, scale=scale
        )[0]
        return flash
    efficient: torch.Tensor = aten._scaled_dot_product_efficient_attention.default(
        query, key, value, mask, grad, dropout, is_causal, scale=scale
    )[0]
    return efficient
