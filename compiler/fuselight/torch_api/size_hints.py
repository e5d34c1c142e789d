"""Values of the sizes of a graph's tensors."""

from __future__ import annotations

from typing import Any

import torch


def size_hint(size: Any) -> int | None:
    """The value of a size for the current inputs, without a guard; None if it depends on data."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    node = size.node
    return int(node.hint) if node.has_hint() else None
