"""Which of ATen's CUDA kernels attention gets: the rule of sdp_utils.cpp, for a device that need not be there.

Invariant: the conditions are those of ATen while it traces (device, dtype, shapes, strides, mask, the switches of
`torch.backends.cuda`), in its order. The build of torch counts as one with the cuDNN that its CUDA wheels bring.
"""

from __future__ import annotations

from typing import Any

import torch

from fuselight.report import Device

_HALF = frozenset({torch.float16, torch.bfloat16})
_FLASH_HEAD = 256
_CUDNN_HEAD, _CUDNN_HEAD_HOPPER = 128, 256
_HEADS_OF_CUDNN = (192, 128)
"""Sizes of query and value that cuDNN takes on Blackwell besides."""
_NO_TRAINING = (192, 224)
"""Heads for which flash has no backward on devices with little shared memory; above them, none with dropout."""


def choose(  # noqa: PLR0917 - in the order of the operator's own arguments
    device: Device,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    *,
    is_causal: bool,
    enable_gqa: bool,
    training: bool,
) -> str:
    """`cudnn`, `flash`, `efficient` or `math`: ATen's first that takes the inputs. RuntimeError where none does."""
    capability = device.capability
    fits = _fits(query, key, value)
    equal_heads = query.dim() == 4 and query.size(1) == key.size(1) == value.size(1)  # noqa: PLR2004
    grouped = equal_heads or (enable_gqa and _groups(query, key, value))
    cuda: Any = torch.backends.cuda
    major, minor = capability
    preferred = device.backend == "cuda" and major in {9, 10} and minor in {0, 3}  # AMD's build has no cuDNN
    if (
        preferred
        and cuda.cudnn_sdp_enabled()
        and fits
        and grouped
        and _dense(query, key, value, mask, singleton=True)
        and _cudnn(capability, query, key, value, dropout)
    ):
        return "cudnn"
    if (
        cuda.flash_sdp_enabled()
        and fits
        and grouped
        and mask is None
        and _dense(query, key, value, mask, singleton=True)
        and _flash(capability, query, key, value, dropout, is_causal=is_causal, training=training)
    ):
        return "flash"
    if (
        cuda.mem_efficient_sdp_enabled()
        and fits
        and equal_heads
        and _dense(query, key, value, mask, singleton=False)
        and _efficient(capability, query, value)
    ):
        return "efficient"
    if cuda.math_sdp_enabled():
        return "math"
    raise RuntimeError("No available kernel. Aborting execution.")  # ATen's words


def _fits(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """What each kernel but math asks of shapes: batch, heads, length, size; one batch; nothing empty."""
    tensors = (query, key, value)
    if any(tensor.dim() != 4 for tensor in tensors) or len({tensor.dtype for tensor in tensors}) > 1:  # noqa: PLR2004
        return False
    if not query.size(0) == key.size(0) == value.size(0):
        return False
    return query.size(2) != 0 and key.size(2) != 0 and query.size(3) == key.size(3)


def _groups(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    return key.size(1) == value.size(1) and query.size(1) % key.size(1) == 0


def _dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, singleton: bool
) -> bool:
    """Whether rows lie in one piece; where `singleton`, a row of one element does in any case."""
    if mask is not None and mask.stride(-1) != 1:
        return False
    return all(
        tensor.stride(-1) == 1 or (singleton and tensor.size(-1) == 1) for tensor in (query, key, value)
    )


def _cudnn(
    capability: tuple[int, int], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float
) -> bool:
    size, value_size = query.size(3), value.size(3)
    most = _CUDNN_HEAD_HOPPER if capability == (9, 0) else _CUDNN_HEAD
    if capability[0] == 10 and (size, value_size) == _HEADS_OF_CUDNN:  # noqa: PLR2004
        most = size
    return (
        query.dtype in _HALF
        and (
            not torch.are_deterministic_algorithms_enabled()
            or torch.is_deterministic_algorithms_warn_only_enabled()
        )
        and size <= most
        and value_size <= most
        and size % 8 == 0
        and value_size % 8 == 0
        and key.size(2) != 1
        and not (query.size(2) == 1 and dropout != 0.0)
    )


def _flash(
    capability: tuple[int, int],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    *,
    is_causal: bool,
    training: bool,
) -> bool:
    size = query.size(3)
    if capability < (8, 0) or query.dtype not in _HALF or size != value.size(3) or size > _FLASH_HEAD:
        return False
    if is_causal and query.size(2) != key.size(2):
        return False
    little = (8, 6) <= capability <= (8, 9) or capability in {(12, 0), (12, 1)}
    low, high = _NO_TRAINING
    return not (training and little and (low < size <= high or (size > high and dropout > 0.0)))


def _efficient(capability: tuple[int, int], query: torch.Tensor, value: torch.Tensor) -> bool:
    half = query.dtype in _HALF
    dtypes = {torch.float16, torch.float32} | ({torch.bfloat16} if capability >= (8, 0) else set())
    step = 4 if capability >= (8, 0) else 1
    if capability >= (8, 0) or (capability >= (7, 0) and half):  # tensor cores read 16 bytes
        step = max(step, 8 if half else 4)
    return query.dtype in dtypes and query.size(3) % step == 0 and value.size(3) % step == 0
