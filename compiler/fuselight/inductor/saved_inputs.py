"""Tensors that pass from one graph of a target to a later one, which keeps them for backward.

The later graph takes them as inputs; autograd keeps them like any other saved tensor. Invariant: a storage is counted
once over all graphs. Real tensors are held by weak reference, so the program uses no more memory than without us.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fuselight.virtual_gpu import partitioner


class Carried:
    """The tensors that the graphs of a target have returned up to now."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[torch.Tensor]] = []
        self._counted: list[weakref.ref[torch.Tensor]] = []

    def inputs(self, real: Sequence[Any]) -> dict[int, int]:
        """Bytes of the inputs of a graph that the target made itself, by position; 0 where they are counted."""
        made, counted = _storages(self._made), _storages(self._counted)
        found = {}
        for position, tensor in enumerate(real):
            if isinstance(tensor, torch.Tensor):
                identity, size = partitioner.storage_of(tensor)
                if identity in made or partitioner.made_by_autograd(tensor):
                    found[position] = 0 if identity in counted else size or 0
        return found

    def count(self, tensor: torch.Tensor) -> None:
        """Mark a kept tensor as counted."""
        self._counted = [*_alive(self._counted), weakref.ref(tensor)]

    def noting(self, forward: Callable[..., Any], kept: frozenset[int], outputs: int) -> Callable[..., Any]:
        """`forward`, wrapped to remember its results; `kept` are the positions that its graph saves in any case."""

        def run(*args: Any) -> Any:
            made = forward(*args)
            if isinstance(made, (tuple, list)):
                tensors = [(index, one) for index, one in enumerate(made) if isinstance(one, torch.Tensor)]
                self._made = [*_alive(self._made), *(weakref.ref(one) for _, one in tensors)]
                if len(made) == outputs:  # else AOTAutograd has others, in an order of its own
                    for index, one in tensors:
                        if index in kept:
                            self.count(one)
            return made

        return run


def _alive(held: list[weakref.ref[torch.Tensor]]) -> list[weakref.ref[torch.Tensor]]:
    return [one for one in held if one() is not None]


def _storages(held: list[weakref.ref[torch.Tensor]]) -> set[int]:
    return {partitioner.storage_of(tensor)[0] for one in held if (tensor := one()) is not None}
