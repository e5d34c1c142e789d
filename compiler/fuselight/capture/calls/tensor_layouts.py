"""Tensors of sparse layouts, which hold indices and values in place of one piece of memory.

Invariant: a tensor is put back as the same object, and only if what it holds has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
_PARTS = {torch.sparse_coo: ("_indices", "_values"), **_COMPRESSED}
SPARSE_LAYOUTS = frozenset(_PARTS)


class UnreadableLayoutError(Exception):
    """The elements of a tensor of this layout cannot be read; the message names the layout."""


@dataclass(frozen=True)
class LayoutCopy:
    """A tensor as it was."""

    tensor: torch.Tensor
    """A copy with the same layout."""
    parts: tuple[torch.Tensor, ...]
    """Of the copy: its indices and values."""


def copy_of(tensor: torch.Tensor) -> LayoutCopy:
    """Copy a tensor. Raises UnreadableLayoutError."""
    if tensor.layout not in _PARTS:
        raise UnreadableLayoutError(f"a tensor of layout {tensor.layout}")
    copied = tensor.detach().clone()
    return LayoutCopy(copied, parts_of(copied))


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Indices and values of a tensor, which share its memory."""
    plain = tensor.detach()
    return tuple(getattr(plain, name)() for name in _PARTS[tensor.layout])


def has_changed(tensor: torch.Tensor, kept: LayoutCopy) -> bool:
    """Whether a tensor holds something else than its copy: NaN equals NaN."""
    now = parts_of(tensor)
    return tensor.shape != kept.tensor.shape or not all(map(_is_equal, now, kept.parts))


def put_back(tensor: torch.Tensor, kept: LayoutCopy) -> None:
    """Give a tensor its indices and values back."""
    if not has_changed(tensor, kept):
        return
    if tensor.layout is torch.sparse_coo:
        tensor.data = kept.tensor.clone()
        return
    with torch.no_grad():  # `data` of a compressed one keeps its values
        if [part.shape for part in parts_of(tensor)] != [part.shape for part in kept.parts]:
            tensor.resize_as_sparse_(kept.tensor)
        tensor.copy_(kept.tensor)


def _is_equal(part: torch.Tensor, other: torch.Tensor) -> bool:
    if part.shape != other.shape:
        return False
    return bool(((part == other) | ((part != part) & (other != other))).all())  # noqa: PLR0124 - NaN
