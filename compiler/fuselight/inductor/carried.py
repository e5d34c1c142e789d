"""Tensors that go from one graph of a target into a later one, which keeps them for backward.

To the later graph they are inputs, to autograd they are kept like any other. Invariant: a storage is counted once over
all graphs; real tensors are held weakly, so that the program's memory stays as it would be.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fuselight.torch_api import generation


class Carried:
    """What the graphs of a target have made so far."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[torch.Tensor]] = []
        self._counted: list[weakref.ref[torch.Tensor]] = []

    def inputs(self, real: Sequence[Any]) -> dict[int, int]:
        """Bytes of the inputs of a graph that the target made itself, by position; 0 where they are counted."""
        made, counted = _storages(self._made), _storages(self._counted)
        found = {}
        for position, tensor in enumerate(real):
            if isinstance(tensor, torch.Tensor):
                identity, size = generation.storage_of(tensor)
                if identity in made or generation.made_by_autograd(tensor):
                    found[position] = 0 if identity in counted else size or 0
        return found

    def count(self, tensor: torch.Tensor) -> None:
        """A tensor is kept, and its bytes are told."""
        self._counted = [*_alive(self._counted), weakref.ref(tensor)]

    def noting(self, forward: Callable[..., Any], kept: frozenset[int], outputs: int) -> Callable[..., Any]:
        """`forward`, and what it gives is remembered; `kept` are the positions of what its graph keeps anyway."""

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
    return {generation.storage_of(tensor)[0] for one in held if (tensor := one()) is not None}
