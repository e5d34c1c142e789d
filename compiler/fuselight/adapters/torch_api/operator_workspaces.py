"""Memory that operators and libraries allocate themselves on a GPU, which no dispatch mode sees.

Invariant: each entry was measured; a device that was not measured has none, so that the estimate is too low there and
says so, instead of being invented. Measured with torch 2.11 on an NVIDIA H200; cpu_workspaces has those of a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuselight.adapters.torch_api import convolution_buffers
from fuselight.adapters.torch_api.reduction_buffers import reduction_buffer
from fuselight.shared.report import Device

_MIB = 1 << 20
_LIBRARY = {"9.0": (33 * _MIB, 65 * _MIB)}
"""By compute capability, cuBLAS's workspace after an inference and after a training step: 32 MiB for each thread that
multiplies (the program's and autograd's), and 1 MiB."""
_MULTIPLICATIONS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::linear"})
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::convolution_backward"})
_RECURRENT = frozenset({"aten::mkldnn_rnn_layer", "aten::_cudnn_rnn"})
_SORTED_INDICES, _INDEX_BYTES = 3072, 79
"""Indices of an embedding from which on its backward sorts them, and the bytes that it then has for each."""
ROUNDING = 512
"""Bytes to which the allocator of CUDA rounds up."""


def copied_matrices(arguments: tuple[Any, ...]) -> int:
    """A product copies matrices that its library cannot read, as the gradient of a sum, whose strides are 0."""
    return sum(_bytes(matrix) for matrix in _tensors(arguments[-2:]) if not _is_read_as_it_is(matrix))


def _is_read_as_it_is(matrix: torch.Tensor) -> bool:
    """Whether rows or columns of each matrix are contiguous, and do not overlap."""
    (rows, columns), (down, across) = matrix.shape[-2:], matrix.stride()[-2:]
    return (across == 1 and down >= max(1, columns)) or (down == 1 and across >= max(1, rows))


def inside_operator(device: Device, operator: Any, arguments: tuple[Any, ...], result: Any) -> int:
    """Bytes that an operator allocates on a GPU and frees before it returns."""
    name = operator_name(operator)
    inside = _INSIDE.get(name)
    if inside is not None:
        return inside(arguments)
    if name in _LOSSES:
        return reduced_loss(arguments, result)
    if name == "aten::convolution":
        return convolution_buffers.inside_of_gpu(arguments, result)
    tensor, dimensions = [*arguments, None, None][:2]
    if name in _REDUCTIONS and isinstance(tensor, torch.Tensor):
        reduced = dimensions if isinstance(dimensions, (list, tuple)) else None
        return reduction_buffer(device, tensor, reduced, _REDUCTIONS[name])
    return 0


def copied_rows(arguments: tuple[Any, ...]) -> int:
    """Copies of inputs whose kernel reads rows in one piece, as that of a softmax."""
    return sum(_bytes(tensor) for tensor in _tensors(arguments) if not tensor.is_contiguous())


def _softmax_backward(arguments: tuple[Any, ...]) -> int:
    """The gradient times the output, and the copies."""
    gradient, output = arguments[:2]
    if not isinstance(gradient, torch.Tensor):
        return 0
    product = _bytes(gradient)
    return product + (0 if output.is_contiguous() else product + _bytes(output))


def _attention_backward(arguments: tuple[Any, ...]) -> int:
    """The gradient of the queries is added up in float32, beside a number for each row."""
    query: torch.Tensor = arguments[1]
    return query.numel() // query.size(-1) * (query.size(-1) + 1) * torch.float32.itemsize


def _encoder_layer(arguments: tuple[Any, ...]) -> int:
    """The fast path of torch's encoder: the hidden layer, its input, and the sum before a norm."""
    x: torch.Tensor = arguments[0]
    hidden: torch.Tensor = arguments[14]
    width, norm_first = int(arguments[1]), bool(arguments[8])
    return (width * (1 + norm_first) + hidden.size(0)) * _bytes(x) // width


def _embedding_backward(arguments: tuple[Any, ...]) -> int:
    """Sorted indices, and sums of equal ones in float32: where there are so many that they are sorted."""
    gradient: torch.Tensor = arguments[0]
    indices: torch.Tensor = arguments[1]
    if indices.numel() <= _SORTED_INDICES:
        return 0
    return indices.numel() * (gradient.size(-1) * torch.float32.itemsize + _INDEX_BYTES)


def _efficient_attention_backward(arguments: tuple[Any, ...]) -> int:
    """The gradients of keys and values, and two numbers for each row, in float32."""
    query: torch.Tensor = arguments[1]
    return 2 * (query.numel() // query.size(-1)) * (query.size(-1) + 1) * torch.float32.itemsize


_INSIDE: dict[str, Callable[[tuple[Any, ...]], int]] = {
    **dict.fromkeys(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"), copied_matrices),
    **dict.fromkeys(
        ("aten::_softmax", "aten::_log_softmax", "aten::_log_softmax_backward_data"), copied_rows
    ),
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::native_layer_norm": lambda arguments: copied_rows(arguments[:1]),
    "aten::native_layer_norm_backward": lambda arguments: copied_rows(arguments[:2]),
    "aten::binary_cross_entropy_with_logits": lambda arguments: 2 * _bytes(arguments[0]),
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_efficient_attention_backward": _efficient_attention_backward,
    "aten::_transformer_encoder_layer_fwd": _encoder_layer,
    "aten::convolution_backward": convolution_buffers.inside_of_gpu_backward,
}
_LOSSES = frozenset({"aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss"})
_REDUCTIONS = {
    **dict.fromkeys(("aten::sum", "aten::mean"), None),
    **dict.fromkeys(("aten::var", "aten::std", "aten::var_mean", "aten::std_mean"), 16),
}
"""Bytes of the number that a block writes for an output; None: of one in which values are added."""


def reduced_loss(arguments: tuple[Any, ...], result: torch.Tensor) -> int:
    """A loss is computed for each element before it is reduced."""
    return 0 if result.dim() else _bytes(arguments[0])


def _tensors(arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    return [argument for argument in arguments if isinstance(argument, torch.Tensor)]


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def library_workspace(device: Device, operators: set[str], *, training: bool) -> int:
    """Bytes that libraries keep once the operators have run; 0 where that was not measured."""
    if device.backend != "cuda" or not multiplies(operators):
        return 0
    return _LIBRARY.get(device.arch, (0, 0))[training]


def multiplies(operators: set[str]) -> bool:
    """Whether matrices are multiplied."""
    return bool(operators & _MULTIPLICATIONS)


def convolves(operators: set[str]) -> bool:
    """Whether a library chooses workspaces when the operators run: cuDNN, or oneDNN on a CPU."""
    return bool(operators & _CONVOLUTIONS)


def recurs(operators: set[str]) -> bool:
    """Whether a library runs recurrent layers."""
    return bool(operators & _RECURRENT)


def operator_name(operator: Any) -> str:
    """As `aten::mm`."""
    return str(getattr(getattr(operator, "_schema", None), "name", operator))
