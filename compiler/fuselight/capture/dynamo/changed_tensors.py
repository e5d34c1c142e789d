"""Tensors like those of a recorded call, with one property changed.

Invariant: a tensor made here has no values until they are asked for (`filled`), keeps the marks of mark_dynamic, and is
dense in the order of dimensions of the one that it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

CHANNELS_LAST = "channels_last"
TRANSPOSED = "transposed"


def like(
    tensor: torch.Tensor,
    *,
    sizes: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
    requires_grad: bool | None = None,
) -> torch.Tensor:
    """Return an uninitialized tensor like another one; `order` lists its dimensions, the fastest one first."""
    sizes = list(tensor.shape) if sizes is None else sizes
    strides = list(tensor.stride())
    if order is not None:
        step = 1
        for number in order:
            strides[number] = step
            step *= max(sizes[number], 1)
    blank = torch.empty_strided(sizes, strides, dtype=dtype or tensor.dtype, device=tensor.device)
    blank.requires_grad_(tensor.requires_grad if requires_grad is None else requires_grad)
    blank.__dict__.update(tensor.__dict__)  # the marks of mark_dynamic
    return blank


def resized(tensor: torch.Tensor, dimension: int, size: int) -> torch.Tensor:
    """A tensor with another size in one dimension."""
    sizes = [size if number == dimension else int(old) for number, old in enumerate(tensor.shape)]
    order = sorted(range(tensor.dim()), key=lambda number: (tensor.stride(number), -number))
    return like(tensor, sizes=sizes, order=order)


def relaid(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor in another memory layout: CHANNELS_LAST, for four dimensions, or TRANSPOSED."""
    order = (1, 3, 2, 0) if layout == CHANNELS_LAST else tuple(range(tensor.dim()))
    return like(tensor, order=order)


def filled(blank: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Fill `blank` with the values of `tensor`: the first ones where it is smaller, repeated where it is larger."""
    values = tensor.detach()
    for dimension, size in enumerate(blank.shape):
        if size != values.size(dimension):
            at = torch.arange(size, device=values.device) % max(values.size(dimension), 1)
            values = values.index_select(dimension, at)
    with torch.no_grad():
        blank.copy_(values)
    return blank
