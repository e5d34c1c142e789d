# ruff: noqa: SLF001, FBT003, PLR0917 - private names are this package's business; the flags are ATen's
"""Chooses the attention operator that a CUDA device would get, on Dynamo's graph.

`scaled_dot_product_attention` dispatches by device while it is traced, which is on the CPU. The CUDA operators trace on
CPU fakes all the same, with their real backward, so the choice is made before. Invariant: the choice is that of
ATen's sdp_utils.cpp for what is known while tracing: device, dtype, shapes, strides, mask.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.fx
from torch.nn.functional import pad

from fuselight.report import Device

_AMPERE, _HOPPER = 8, 9
_FLASH_HEAD = 256
_CUDNN_HEAD = 128
_CUDNN_AWAY = -65536.0
"""What cuDNN's kernel is given where a mask is false."""
_ALIGNED = 16
"""Elements to which the memory-efficient kernel wants its mask's rows aligned."""
SDPA = torch._C._nn.scaled_dot_product_attention


def attention_of(device: Device) -> Any:
    """What `scaled_dot_product_attention` does on `device`."""
    major = int(device.arch.partition(".")[0]) if device.backend == "cuda" and device.arch else _HOPPER

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # noqa: FBT001, FBT002
        scale: float | None = None,
        enable_gqa: bool = False,  # noqa: FBT001, FBT002
    ) -> torch.Tensor:
        aten: Any = torch.ops.aten
        tensors = (query, key, value)
        kernel = _kernel(major, query, key, value, attn_mask, enable_gqa=enable_gqa)
        # A mask is made in full for the kernels; `scalar_tensor` is what ATen makes it of.
        mask = attn_mask
        if mask is not None and mask.dtype == torch.bool:
            make: dict[str, Any] = {"dtype": query.dtype, "device": query.device}
            away = _CUDNN_AWAY if kernel == "cudnn" else -math.inf
            mask = torch.where(mask, torch.scalar_tensor(0.0, **make), torch.scalar_tensor(away, **make))
        keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        found: torch.Tensor
        if kernel == "cudnn":
            return aten._scaled_dot_product_cudnn_attention.default(  # type: ignore[no-any-return]
                *tensors, mask, keep, dropout_p, is_causal, False, scale=scale
            )[0]
        if kernel == "flash":
            size = query.size(-1)
            padded = [tensor if size % 8 == 0 else pad(tensor, (0, 8 - size % 8)) for tensor in tensors]
            scale = 1 / math.sqrt(size) if scale is None else scale
            found = aten._scaled_dot_product_flash_attention.default(
                *padded, dropout_p, is_causal, False, scale=scale
            )[0]
            return found if size % 8 == 0 else found[..., :size]
        if kernel == "efficient":
            bias = None if mask is None else _aligned(mask).expand(*query.shape[:3], key.size(2))
            return aten._scaled_dot_product_efficient_attention.default(  # type: ignore[no-any-return]
                *tensors, bias, keep, dropout_p, is_causal, scale=scale
            )[0]
        return aten._scaled_dot_product_attention_math.default(  # type: ignore[no-any-return]
            *tensors, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]

    return attention


def _kernel(
    major: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    enable_gqa: bool,
) -> str:
    """`cudnn`, `flash`, `efficient` or `math`: the first in ATen's order for the device that takes the inputs."""
    tensors = (query, key, value)
    grouped = enable_gqa and not query.size(1) == key.size(1) == value.size(1)
    masked_well = mask is None or mask.stride(-1) == 1
    if any(tensor.dim() != 4 or tensor.stride(-1) != 1 for tensor in tensors):  # noqa: PLR2004
        return "math"
    half = query.dtype in {torch.float16, torch.bfloat16}
    size, value_size = query.size(-1), value.size(-1)
    cudnn = size % 8 == 0 and value_size % 8 == 0 and size <= _CUDNN_HEAD and value_size <= _CUDNN_HEAD
    if half and major == _HOPPER and cudnn and masked_well:
        return "cudnn"
    if half and major >= _AMPERE and mask is None and size == value_size and size <= _FLASH_HEAD:
        return "flash"
    step = 8 if half else 4
    if not grouped and masked_well and size % step == 0 and value_size % step == 0:
        return "efficient"
    return "math"


def _aligned(mask: torch.Tensor) -> torch.Tensor:
    """A mask whose rows begin where the memory-efficient kernel can read them."""
    if mask.stride(-1) == 1 and all(stride % _ALIGNED == 0 for stride in mask.stride()[:-1]):
        return mask
    size = mask.size(-1)
    return pad(mask, (0, _ALIGNED - size % _ALIGNED))[..., :size]
