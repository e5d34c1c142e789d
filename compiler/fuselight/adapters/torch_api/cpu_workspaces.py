"""Memory that operators allocate inside themselves on a CPU, which no dispatch mode sees.

Invariant: each entry was measured, with torch 2.13 on an x86 processor with AVX-512, and is what the kernel's source
allocates: buffers of threads, copies in another layout, and what oneDNN's LSTM keeps for the backward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuselight.adapters.torch_api import convolution_buffers
from fuselight.adapters.torch_api.operator_workspaces import (
    copied_matrices,
    copied_rows,
    operator_name,
    reduced_loss,
)

_CACHE_LINE = 64
_PAGE = 4096
_GATES = 4
_SCORES = 512
"""Keys of one block of attention."""
_HAS_TILES: bool = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
_PACKED_LENGTH, _PACKED_TIMES = 64, 4
"""Queries and keys from which on attention of bfloat16 is packed, and how often each key is then read by a thread."""
_QUERIES = ((768, 256), (192, 64), (0, 32))
"""From so many queries on, queries of one block."""


def inside_operator_of_cpu(operator: Any, arguments: tuple[Any, ...], result: Any) -> int:
    """Bytes that an operator allocates on a CPU and frees before it returns."""
    inside = _INSIDE.get(operator_name(operator))
    return inside(arguments, result) if inside is not None else 0


def _attention_block(query: torch.Tensor, keys: int) -> tuple[int, int]:
    """Queries and keys of a block."""
    length = query.size(2)
    queries = next(size for least, size in _QUERIES if length >= least)
    return min(queries, length), min(_SCORES, keys)


def _attention(arguments: tuple[Any, ...], _result: Any) -> int:
    """Each thread's scores, their maxima and sums, and its part of the result, in float32; and scores of 16 bits."""
    query: torch.Tensor = arguments[0]
    key: torch.Tensor = arguments[1]
    queries, keys = _attention_block(query, key.size(2))
    numbers = queries * (keys + 2 + query.size(3)) * torch.float32.itemsize
    threads = torch.get_num_threads()
    packed = _packed(query, key, queries, keys) if query.dtype is torch.bfloat16 and _HAS_TILES else 0
    return packed + threads * (numbers + _reduced(query) * queries * keys)


def _packed(query: torch.Tensor, key: torch.Tensor, queries: int, keys: int) -> int:
    """Keys and values in the order of the processor's tiles, and each thread's block of keys, where it pays off."""
    batch, heads, length, size = query.shape
    blocks = -(-length // queries) * queries
    is_long = min(length, key.size(2)) >= _PACKED_LENGTH
    if not is_long or -(-batch * heads * blocks // torch.get_num_threads()) < _PACKED_TIMES * batch * heads:
        return 0
    wide = (size + size % 2) * query.element_size()
    rows = key.size(2) // keys * (keys + keys % 2) + key.size(2) % keys + key.size(2) % keys % 2
    return 2 * batch * heads * rows * wide + torch.get_num_threads() * keys * wide


def _attention_backward(arguments: tuple[Any, ...], _result: Any) -> int:
    """Each thread's scores and their gradients, and a copy of a gradient that is not in one piece by position."""
    gradient, query, key = arguments[:3]
    queries, keys = _attention_block(query, key.size(2))
    size = torch.float32.itemsize + _reduced(query)
    copied = 0 if gradient.transpose(1, 2).is_contiguous() else _bytes(gradient)
    return copied + torch.get_num_threads() * 2 * queries * keys * size + queries * torch.float32.itemsize


def _reduced(query: torch.Tensor) -> int:
    """Bytes of a number of 16 bits, of which there are copies."""
    return query.element_size() if query.element_size() < torch.float32.itemsize else 0


def _batch_norm_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """A copy of the input's gradient, where all is in one piece."""
    in_one_piece = arguments[0].is_contiguous() and arguments[1].is_contiguous()
    return _bytes(result[0]) if in_one_piece and isinstance(result[0], torch.Tensor) else 0


def _layer_norm_backward(arguments: tuple[Any, ...], _result: Any) -> int:
    """Copies of what is not in one piece, and each thread's gradients of weight and bias."""
    width = arguments[5] if len(arguments) > 5 else None  # noqa: PLR2004 - the weight
    threads = 2 * torch.get_num_threads() * _bytes(width) if isinstance(width, torch.Tensor) else 0
    return copied_rows(arguments[:2]) + threads


def lstm_kept(arguments: tuple[Any, ...]) -> int:
    """Bytes that one layer of oneDNN's LSTM keeps for the backward: gates and states of each step, and their gradients.

    As `set_workspace_sizes` in oneDNN's rnn_utils.cpp has them for float32: rows are padded, and parts begin on pages.
    """
    x, hidden = arguments[0], arguments[5]
    steps, batch, size = x.size(0), x.size(1), hidden.size(-1)
    row = batch * x.element_size()
    wide = _row_length(max(x.size(-1), size), x.element_size())
    gates = steps * row * _row_length(_GATES * size, x.element_size())
    outputs = steps * row * _row_length(size, x.element_size())
    states = 2 * (steps + 1) * row
    return sum(map(_pages, (gates, outputs, *[states * wide] * 3, *[states * size] * 2)))


def _lstm(arguments: tuple[Any, ...], _result: Any) -> int:
    """Packed weights, and the gates."""
    x: torch.Tensor = arguments[0]
    weights: tuple[torch.Tensor, ...] = arguments[1:3]
    hidden: torch.Tensor = arguments[5]
    gates = _row_length(_GATES * hidden.size(-1), x.element_size()) * x.element_size()
    return gates * (x.size(0) * x.size(1) + sum(weight.size(-1) for weight in weights))


def _lstm_backward(arguments: tuple[Any, ...], result: Any) -> int:
    """The same, with the gradients of what was not used: the result and the states."""
    output, states = arguments[7], arguments[8:10]
    unused = sum(_bytes(state) for state in states if isinstance(state, torch.Tensor))
    return (
        _lstm((arguments[0], arguments[1], arguments[2], None, None, arguments[5]), result)
        + _bytes(output)
        + unused
    )


def _row_length(numbers: int, item: int) -> int:
    """Numbers of a row of oneDNN: of whole cache lines, and no multiple of 256, whose rows share lines of a cache."""
    line = _CACHE_LINE // item
    length = -(-numbers // line) * line
    return length + line if length % 256 == 0 else length


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


_INSIDE: dict[str, Callable[[tuple[Any, ...], Any], int]] = {
    **dict.fromkeys(("aten::mm", "aten::addmm"), lambda arguments, _: copied_matrices(arguments)),
    **dict.fromkeys(("aten::_softmax", "aten::_log_softmax"), lambda arguments, _: copied_rows(arguments)),
    **dict.fromkeys(("aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss"), reduced_loss),
    "aten::native_layer_norm": lambda arguments, _: copied_rows(arguments[:1]),
    "aten::native_layer_norm_backward": _layer_norm_backward,
    "aten::native_batch_norm_backward": _batch_norm_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::convolution": convolution_buffers.inside_of_cpu,
    "aten::convolution_backward": convolution_buffers.inside_of_cpu_backward,
    "aten::mkldnn_rnn_layer": _lstm,
    "aten::mkldnn_rnn_layer_backward": _lstm_backward,
}
