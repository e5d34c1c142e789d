"""Memory that operators and libraries allocate themselves, which no dispatch mode sees.

Invariant: each entry was measured; a device that was not measured has none, so that the estimate is too low there and
says so, instead of being invented. Measured with torch 2.11 on an NVIDIA H200, and with torch 2.13 on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch

from fuselight.shared.report import Device

_MIB = 1 << 20
_LIBRARY = {"9.0": (33 * _MIB, 65 * _MIB)}
"""By compute capability, cuBLAS's workspace after an inference and after a training step: 32 MiB for each thread that
multiplies (the program's and autograd's), and 1 MiB."""
_MULTIPLICATIONS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::linear"})
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::convolution_backward"})
_RECURRENT = frozenset({"aten::mkldnn_rnn_layer", "aten::_cudnn_rnn"})
ROUNDING = 512
"""Bytes to which the allocator of CUDA rounds up."""


def inside_operator_of_cpu(operator: Any, arguments: tuple[Any, ...], _result: Any) -> int:
    """The same on a CPU: a product copies a matrix that its library cannot read, as the gradient of a sum."""
    if _name(operator) not in {"aten::mm", "aten::addmm"}:
        return 0
    return sum(
        matrix.numel() * matrix.element_size()
        for matrix in arguments[-2:]
        if isinstance(matrix, torch.Tensor) and not _is_read_as_it_is(matrix)
    )


def _is_read_as_it_is(matrix: torch.Tensor) -> bool:
    """Whether rows or columns are contiguous, and do not overlap."""
    (rows, columns), (down, across) = matrix.shape, matrix.stride()
    return (across == 1 and down >= max(1, columns)) or (down == 1 and across >= max(1, rows))


def inside_operator(operator: Any, arguments: tuple[Any, ...], _result: Any) -> int:
    """Bytes that an operator allocates on a GPU and frees before it returns."""
    if _name(operator) == "aten::_softmax_backward_data" and isinstance(arguments[0], torch.Tensor):
        return arguments[0].numel() * arguments[0].element_size()  # the gradient times the output
    return 0


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
    """Whether a library chooses what recurrent layers keep for the backward."""
    return bool(operators & _RECURRENT)


def _name(operator: Any) -> str:
    return str(getattr(getattr(operator, "_schema", None), "name", operator))
