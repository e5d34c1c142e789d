"""Values of the sizes of a graph's tensors."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch


def size_hint(size: Any) -> int | None:
    """The value of a size for the current inputs, without a guard; None if it depends on data."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    node = size.node
    return int(node.hint) if node.has_hint() else None


def lowered_hint(sizes: Iterable[Any]) -> int:
    """The product of sizes of the graph that Inductor lowers, for the inputs that it is compiled for."""
    virtualized: Any = importlib.import_module("torch._inductor.virtualized")
    sizevars = virtualized.V.graph.sizevars
    ask = getattr(sizevars, "optimization_hint", None) or sizevars.size_hint
    product = 1
    for size in sizes:
        product *= int(ask(size, fallback=1))
    return product
