"""What convolutions copy inside: libraries read and write layouts of their own, which no dispatch mode sees.

Invariant: the copies are those that were measured, of oneDNN on an x86 processor with AVX-512 (torch 2.13) and of
cuDNN 9 on an NVIDIA H200 (torch 2.11). A library chooses when it runs, and may need more or less.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

_BLOCK = 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8
"""Channels of a block of oneDNN: a vector of float32."""
_UNBLOCKED = 4
"""An input with so few channels, as an image, is read as it is."""
_HALF_CHANNELS = 8
"""Channels of which cuDNN makes a multiple for 16 bits."""
_SPATIAL = 2
"""Dimensions without those of an image."""


class _Convolution(NamedTuple):
    """A convolution, or the backward of one."""

    x: torch.Tensor
    weight: torch.Tensor
    groups: int

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.x.size(1)

    @property
    def is_pointwise(self) -> bool:
        return all(size == 1 for size in self.weight.shape[_SPATIAL:])


def inside_of_cpu(arguments: tuple[Any, ...], result: Any) -> int:
    """Bytes of a forward that oneDNN allocates and frees: blocks of input, weight and result, and then the result."""
    x, weight, bias, transposed = arguments[0], arguments[1], arguments[2], arguments[6]
    size, own = _bytes(weight), _bytes(result)
    if _is_channels_last(x):
        return size
    blocked = _padded(result, _BLOCK)
    most = max(_blocked_input(x) + size + blocked, blocked + own)
    return most - own + (own if transposed and bias is not None else 0)


def inside_of_cpu_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """The same of a backward: first the gradient of the input, then that of the weight, which has partial results."""
    gradient, x, weight = arguments[:3]
    size = _bytes(weight)
    if _is_channels_last(x):
        return 2 * size + (0 if _is_channels_last(gradient) else _bytes(gradient))
    needs_input, needs_weight = arguments[10][:2]
    own, blocked = _bytes(x) if needs_input else 0, _padded(gradient, _BLOCK)
    of_input = max(blocked + size + _padded(x, _BLOCK), _padded(x, _BLOCK) + own) if needs_input else 0
    of_weight = own + blocked + _blocked_input(x) + 2 * size if needs_weight else 0
    return max(0, max(of_input, of_weight) - sum(_bytes(part) for part in result if part is not None))


def inside_of_gpu(arguments: tuple[Any, ...], result: Any) -> int:
    """Bytes of a forward that cuDNN allocates and frees: channels last of what has channels first."""
    convolution = _Convolution(arguments[0], arguments[1], arguments[8])
    x = convolution.x
    if _is_channels_last(x) or convolution.is_depthwise or convolution.is_pointwise:
        return 0
    is_plain = x.element_size() == torch.float32.itemsize and x.dim() == _SPATIAL + 2 and not arguments[6]
    copied = _padded(x, _HALF_CHANNELS) if x.element_size() < torch.float32.itemsize else _bytes(x)
    return copied + (0 if is_plain and x.size(1) > _UNBLOCKED else _bytes(result))


def inside_of_gpu_backward(arguments: tuple[Any, ...]) -> int:
    """The same of a backward."""
    gradient, x = arguments[:2]
    convolution = _Convolution(x, arguments[2], arguments[9])
    if _is_channels_last(x):
        return 0 if _is_channels_last(gradient) else _bytes(gradient)
    if convolution.is_depthwise or convolution.is_pointwise:
        return 0
    is_half = x.element_size() < torch.float32.itemsize
    return (_padded(x, _HALF_CHANNELS) if is_half else _bytes(x)) + _bytes(gradient)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    known = formats.get(tensor.dim())
    return known is not None and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=known)


def _blocked_input(x: torch.Tensor) -> int:
    return 0 if x.size(1) <= _UNBLOCKED else _padded(x, _BLOCK)


def _padded(tensor: torch.Tensor, channels: int) -> int:
    """Bytes with a multiple of `channels`."""
    return _bytes(tensor) // max(tensor.size(1), 1) * (math.ceil(tensor.size(1) / channels) * channels)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
