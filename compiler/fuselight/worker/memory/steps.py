"""One call for inference, or one training step, in its parts.

Invariant: a tensor is held no longer than in a program that is written so: the loss ends with the backward, and the
gradients are freed after the optimizer's step.
"""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.capture.calls.calls import Prepared, module_of
from fuselight.capture.calls.tensors import tensors_in
from fuselight.shared.report import StepPhase

OPTIMIZERS: Mapping[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    # As on a GPU, where torch chooses the implementation over lists: its temporaries have the size of all parameters.
    "adam": lambda parameters: torch.optim.Adam(parameters, foreach=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, foreach=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, foreach=True),
}
"""By name, with torch's own defaults; SGD with momentum."""


class StepObserver:
    """Hears of the parts of a step; this one does nothing then."""

    def began(self, phase: StepPhase) -> None:
        """A part begins."""

    def forward_ended(self, outputs: list[torch.Tensor]) -> None:
        """The forward has returned, and the backward has not begun."""

    def backward_ended(self) -> None:
        """Every gradient is there."""


@dataclass
class Step:
    """A call of the target, and with `training` its backward and a step of the optimizer."""

    prepared: Prepared
    training: bool
    optimizer: torch.optim.Optimizer | None = None

    @classmethod
    def of(cls, prepared: Prepared, optimizer: str, *, training: bool) -> Step:
        """`optimizer`: a name of OPTIMIZERS; a function and a module without parameters have none."""
        parameters = [parameter for parameter in parameters_of(prepared) if parameter.requires_grad]
        make = OPTIMIZERS.get(optimizer)
        return cls(prepared, training, make(parameters) if training and parameters and make else None)

    def make(self, function: Callable[..., Any], observer: StepObserver) -> None:
        """Make the step with `function`, a form of the prepared one. Raises what the user's code raises."""
        observer.began(StepPhase.FORWARD)
        outputs = function(*self.prepared.args, **self.prepared.kwargs)
        losses = [_loss(tensor) for tensor in tensors_in(outputs) if tensor.requires_grad]
        observer.forward_ended([*tensors_in(outputs), *losses])
        del outputs
        if not self.training:
            return
        observer.began(StepPhase.BACKWARD)
        if losses:
            loss = losses.pop() if len(losses) == 1 else torch.stack(losses).sum()
            losses.clear()
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
        observer.backward_ended()
        if self.optimizer is not None:
            observer.began(StepPhase.OPTIMIZER)
            self.optimizer.step()
        for tensor in self._leaves():
            tensor.grad = None

    def state_tensors(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The tensors of the optimizer's state, each with its parameter."""
        states = self.optimizer.state.items() if self.optimizer is not None else ()
        return [
            (value, parameter)
            for parameter, state in states
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]

    def gradients(self) -> list[torch.Tensor]:
        """The gradients of parameters and of inputs."""
        return [tensor.grad for tensor in self._leaves() if tensor.grad is not None]

    def _leaves(self) -> list[torch.Tensor]:
        given = tensors_in([self.prepared.args, self.prepared.kwargs])
        return [tensor for tensor in (*parameters_of(self.prepared), *given) if tensor.is_leaf]


def parameters_of(prepared: Prepared) -> list[torch.nn.Parameter]:
    """The parameters of the modules that the call runs, each once."""
    modules = modules_of(prepared.function)
    return list(dict.fromkeys(parameter for module in modules for parameter in module.parameters()))


def buffers_of(prepared: Prepared) -> list[torch.Tensor]:
    """The buffers of the modules that the call runs, each once."""
    return list(
        dict.fromkeys(buffer for module in modules_of(prepared.function) for buffer in module.buffers())
    )


def modules_of(function: Any) -> list[torch.nn.Module]:
    """The module that a call runs; of a function those that its code names, and the functions that it calls."""
    module = module_of(function)
    reached: dict[int, Any] = {}
    _follow(function if module is None else module, reached)
    return [value for value in reached.values() if isinstance(value, torch.nn.Module)]


def _follow(value: Any, reached: dict[int, Any]) -> None:
    is_function = isinstance(value, (types.FunctionType, types.MethodType))
    if id(value) in reached or not (is_function or isinstance(value, torch.nn.Module)):
        return
    reached[id(value)] = value
    if is_function and not str(value.__module__).startswith("torch."):
        with contextlib.suppress(ValueError):  # a variable without a value
            names = inspect.getclosurevars(inspect.unwrap(value))
            owned = vars(getattr(value, "__self__", types.SimpleNamespace()))
            for each in (*names.globals.values(), *names.nonlocals.values(), *list(owned.values())):
                _follow(each, reached)


def _loss(output: torch.Tensor) -> torch.Tensor:
    value = output.abs() if output.is_complex() else output
    return value if value.dim() == 0 else value.sum()
