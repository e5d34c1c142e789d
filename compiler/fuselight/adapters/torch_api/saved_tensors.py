"""What autograd's graphs keep for a backward.

Invariant: no hook of a saved tensor is called: that of a checkpoint would compute its region again.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import torch

_MAX_NODES = 50_000


class KeptTensors(NamedTuple):
    """What a node, or a graph, keeps."""

    tensors: list[torch.Tensor]
    is_complete: bool
    """Whether that is all: a hook may keep other things, and torch 2.12 and earlier does not show saved tensors."""


def saved_by(node: Any) -> KeptTensors:
    """What one node of a graph keeps."""
    tensors: list[torch.Tensor] = []
    is_complete = True
    for item in _saved_items(node):
        data = getattr(item, "data", None)
        if isinstance(data, torch.Tensor):
            tensors.append(data)
        else:  # None once it was released, or for what was not saved
            is_complete &= data is None and hasattr(item, "data")
    # Of a function that is written in Python: what it puts on its context by itself.
    tensors += _tensors_within(getattr(node, "__dict__", None) or {})
    return KeptTensors(tensors, is_complete)


def saved_by_graph(outputs: Iterable[torch.Tensor]) -> KeptTensors:
    """What the graph of the outputs keeps."""
    waiting = [output.grad_fn for output in outputs if output.requires_grad]
    seen: set[Any] = set()
    tensors: list[torch.Tensor] = []
    is_complete = True
    while waiting and len(seen) < _MAX_NODES:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [function for function, _ in node.next_functions]
        saved = saved_by(node)
        tensors += saved.tensors
        is_complete &= saved.is_complete
    return KeptTensors(tensors, is_complete and not waiting)


def _saved_items(node: Any) -> Iterator[Any]:
    for name in _names(cast("Hashable", type(node))):
        try:
            saved = getattr(node, name, None)
        except RuntimeError:  # released: a backward has run
            continue
        for item in saved if isinstance(saved, (list, tuple)) else (saved,):
            if item is not None:
                yield item


@functools.lru_cache(maxsize=4096)
def _names(kind: Hashable) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def _tensors_within(values: Any) -> list[torch.Tensor]:
    """The tensors in a container, two levels deep."""
    items = [values] if not isinstance(values, dict) else list(values.values())
    inner = [part for item in items if isinstance(item, (list, tuple)) for part in item]
    return [item for item in (*items, *inner) if isinstance(item, torch.Tensor)]
