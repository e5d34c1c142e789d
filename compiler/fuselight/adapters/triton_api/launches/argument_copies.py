"""Copies of a launch's arguments, for a count after the run.

Invariant: no tensor of the GPU is kept. Tensors of integers, which may be indices or lengths, are copied; of all
others, what is kept is where their elements are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.adapters.torch_api.triton_kernels import without_modes

MAX_COPIED = 1 << 24
"""Bytes of a storage that is copied."""
_PAGE = 4096


@dataclass(frozen=True)
class TensorCopy:
    """A tensor, without its memory, or with a copy of it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    size: int
    """Bytes of the storage."""
    content: torch.Tensor | None

    def tensor(self, numpy: Any) -> torch.Tensor:
        """The same on the CPU; zeros that nothing has touched take no memory."""
        memory = self.content
        if memory is None:
            pages = numpy.zeros(self.size + _PAGE, numpy.uint8)
            start = -pages.ctypes.data % _PAGE  # a GPU aligns memory, too
            memory = torch.from_numpy(pages[start : start + self.size])
        item = self.dtype.itemsize
        whole = memory[: self.size // item * item].view(self.dtype)
        return whole.as_strided(self.shape, self.stride, self.offset)


def copied_arguments(bound: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a launch for a later count; None where one of them is a tensor of another kind."""
    arguments = {}
    with without_modes(), torch.no_grad():
        for name, value in bound.items():
            if isinstance(value, torch.Tensor):
                arguments[name] = _copied(value)
            elif isinstance(value, tuple) or hasattr(value, "base"):
                return None
            else:
                arguments[name] = value
    return arguments


def _copied(tensor: torch.Tensor) -> TensorCopy:
    storage = tensor.untyped_storage()
    size = int(storage.nbytes())
    may_index = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    content = None
    if may_index and size <= MAX_COPIED and not _is_recorded(tensor):
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (size,), (1,))
        content = whole.to("cpu", copy=True)
    shape, stride = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return TensorCopy(tensor.dtype, shape, stride, int(tensor.storage_offset()), size, content)


def _is_recorded(tensor: torch.Tensor) -> bool:
    """Whether a CUDA graph is being recorded, in which nothing may be copied to the CPU."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
