"""The gradients, optimizers' state and modules' modes that a call of the program began with, to make it again later.

Invariant: no code of the user's runs. The copies have at most `KEPT_BYTES`: a tensor beyond that is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.capture.calls.reachable_objects import reached_objects
from fuselight.capture.calls.tensors import with_tensors
from fuselight.worker.child.recorded_arguments import KEPT_BYTES

_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Classes of tensors whose attributes run nothing of the user's."""


@dataclass(frozen=True)
class TrainingState:
    """What training steps leave in the objects that one call reaches."""

    gradients: tuple[tuple[torch.Tensor, torch.Tensor | None], ...]
    """Each tensor that gets gradients, with its gradient."""
    optimizers: tuple[tuple[torch.optim.Optimizer, dict[Any, Any]], ...]
    """Each optimizer, with what it keeps for its parameters."""
    modes: tuple[tuple[torch.nn.Module, bool], ...]
    """Each module, with whether it is in training mode."""

    @classmethod
    def of(cls, function: Any, given: Iterable[Any]) -> TrainingState:
        """The present state of what `function` and its arguments reach."""
        owner = getattr(function, "__self__", function)
        plain, kept = getattr(function, "__func__", function), _Copies()
        gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        optimizers: list[tuple[torch.optim.Optimizer, dict[Any, Any]]] = []
        modes: list[tuple[torch.nn.Module, bool]] = []
        for value in reached_objects(plain, (owner, *given)):
            if type(value) in _PLAIN and value.is_leaf and value.requires_grad:
                gradients.append((value, None if value.grad is None else kept.copy(value.grad)))
            elif issubclass(type(value), torch.optim.Optimizer):
                optimizers.append((value, _copied(value.state, kept.copy)))
            elif issubclass(type(value), torch.nn.Module) and "training" in vars(value):
                modes.append((value, vars(value)["training"]))
        return cls(tuple(gradients), tuple(optimizers), tuple(modes))

    def restore(self) -> None:
        """Give the objects copies of what they had."""
        for tensor, gradient in self.gradients:
            tensor.grad = None  # its shape and its dtype may be others
            if gradient is not None:
                tensor.grad = _copy(gradient)
        for optimizer, state in self.optimizers:
            optimizer.state.clear()
            optimizer.state.update(_copied(state, _copy))
        for module, is_training in self.modes:
            vars(module)["training"] = is_training


def _copied(state: Any, copy: Callable[[torch.Tensor], torch.Tensor]) -> dict[Any, Any]:
    return {parameter: with_tensors(values, copy) for parameter, values in state.items()}


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


@dataclass
class _Copies:
    """Copies tensors while there is memory for it."""

    left: int = KEPT_BYTES

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        size = tensor.numel() * tensor.element_size()
        if size > self.left:
            return tensor
        self.left -= size
        return _copy(tensor)
