"""What a sum or a mean allocates on a GPU for the partial results of its blocks, which no dispatch mode sees.

A kernel of few outputs and many inputs divides the inputs of an output among blocks, each of which writes to global
memory. Invariant: the numbers are those of `setReduceConfig` in aten/src/ATen/native/cuda/Reduce.cuh.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from fuselight.shared.report import Device

_MAX_THREADS = 512
_VECTOR = 4
"""Inputs that a thread reads at once, and outputs that it writes."""
_MIN_VALUES, _MAX_VALUES = 16, 256
"""Values of a thread: with fewer, inputs are not divided further; with more, they are divided in any case."""
_VECTORIZED_FROM = 128
_MAX_BYTES = (1 << 31) - 1
"""A larger tensor is reduced in halves, for indices of 32 bits."""


def reduction_buffer(
    device: Device, tensor: torch.Tensor, dimensions: Sequence[int] | None, size: int | None = None
) -> int:
    """Bytes that a sum of `tensor` over `dimensions` (None or none: all) allocates and frees on `device`.

    `size`: of a number of a block, for other reductions.
    """
    if not tensor.numel() or not device.multiprocessors:
        return 0
    every = range(tensor.dim())
    reduced = {dimension % tensor.dim() for dimension in dimensions or every} if tensor.dim() else set()
    sizes = [(at, (tensor.stride(at), tensor.size(at))) for at in every if tensor.size(at) > 1]
    inner = _coalesced(part for at, part in sizes if at in reduced)
    kept = _coalesced(part for at, part in sizes if at not in reduced)
    if not inner:
        return 0
    inputs, outputs = (math.prod(size for _, size in part) for part in (inner, kept))
    while inputs > 1 and inputs * outputs * tensor.element_size() > _MAX_BYTES:
        inputs = -(-inputs // 2)
    return _buffer(device, _Reduction(inputs, outputs, inner, kept, size or _sum_size(tensor.dtype)))


def _sum_size(dtype: torch.dtype) -> int:
    """Bytes of a number in which values of a dtype are added."""
    if dtype.is_floating_point and dtype.itemsize <= torch.float32.itemsize:
        return torch.float32.itemsize
    return max(dtype.itemsize, torch.int64.itemsize)


@dataclass(frozen=True)
class _Reduction:
    """`inner` and `kept`: stride and size of each dimension, those with the smallest stride first."""

    inputs: int
    """Of one output."""
    outputs: int
    inner: Sequence[tuple[int, int]]
    kept: Sequence[tuple[int, int]]
    sum_size: int


def _coalesced(dimensions: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Dimensions as `TensorIterator` has them: sorted, and one where they lie in one piece."""
    joined: list[tuple[int, int]] = []
    for stride, size in sorted(dimensions):
        if joined and joined[-1][0] * joined[-1][1] == stride:
            joined[-1] = joined[-1][0], joined[-1][1] * size
        else:
            joined.append((stride, size))
    return joined


def _buffer(device: Device, reduction: _Reduction) -> int:
    inputs, outputs, vector = reduction.inputs, reduction.outputs, 1
    first = reduction.inner[0][0]
    in_row = not reduction.kept or first < reduction.kept[0][0]
    """Whether the threads of a warp share an output."""
    across, down = (inputs, outputs) if in_row else (outputs, inputs)
    if not in_row and reduction.kept[0][0] == 1:
        vector = _output_vector(reduction)
        across //= vector
    elif (
        in_row
        and first == 1
        and across > _VECTORIZED_FROM
        and len(reduction.inner) == 1
        and not reduction.kept
    ):
        across //= _VECTOR
    threads = _MAX_THREADS // vector
    wide, high = min(_power(across), threads), min(_power(down), threads)
    width = min(wide, device.warp)
    height = min(high, threads // width)
    width = min(wide, threads // height)
    values = -(-inputs // width) if in_row else inputs
    lanes = 1 if in_row else width
    divided = values >= min(height * 16, _MAX_VALUES)
    if divided:
        values = -(-values // height)
    else:
        lanes *= height
    grid = -(-(outputs // vector) // lanes)
    target = device.multiprocessors * (device.threads // (width * height))
    if not divided or values < _MAX_VALUES or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-values // _MIN_VALUES)), -(-values // _MAX_VALUES))
    if blocks <= 1:
        return 0
    return reduction.sum_size * outputs * blocks * (1 if in_row else width * vector)


def _output_vector(reduction: _Reduction) -> int:
    """Outputs that a thread writes at once."""
    vector = _VECTOR
    for number in (reduction.kept[0][1], *(stride for stride, _ in (*reduction.inner, *reduction.kept[1:]))):
        while number % vector:
            vector //= 2
    return vector


def _power(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(number, 1).bit_length() - 1)
