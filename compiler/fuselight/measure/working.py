"""One call as it is measured: on its device, with the inputs that it needs, forward alone or with what follows it.

Invariant: every configuration does the same work; what is not the target's own (clearing gradients, copies of inputs
that it changes in place) is the same in each, and copies are made outside of what is timed.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.report import Work
from fuselight.target.calls import Prepared, call_mode, call_outputs, module_of
from fuselight.target.tensors import tensors_in, with_tensors

_RATE = 1e-5
"""Of the optimiser: small, so that a thousand steps leave the weights finite."""


def work_of(asked: Work | None, prepared: Prepared) -> Work:
    """What one call does: as asked, else forward and backward where the inputs say `train=True`."""
    return asked or (Work.FORWARD_BACKWARD if prepared.options.train else Work.INFERENCE)


def on_device(prepared: Prepared, names: Mapping[str, Any], device: torch.device) -> Prepared:
    """The call with its module, the file's other modules and its inputs moved to `device`."""
    for module in dict.fromkeys([module_of(prepared.function), *_modules(names)]):
        if module is not None:
            module.to(device)
    args, kwargs = with_tensors((prepared.args, prepared.kwargs), lambda tensor: _moved(tensor, device))
    return replace(prepared, args=args, kwargs=kwargs)


def _modules(names: Mapping[str, Any]) -> list[torch.nn.Module]:
    return [value for value in list(names.values()) if isinstance(value, torch.nn.Module)]


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device == device:
        return tensor
    return tensor.detach().to(device).requires_grad_(tensor.requires_grad)


@dataclass
class Unit:
    """One call of a target, to be made again and again."""

    prepared: Prepared
    function: Callable[..., Any]
    """What is called: the target as the configuration has it."""
    work: Work
    fresh: bool = False
    """Whether each call needs copies of the inputs, since the target changes them in place."""
    notes: dict[str, None] = field(default_factory=dict)
    _optimiser: torch.optim.Optimizer | None = None

    def __post_init__(self) -> None:
        options = replace(self.prepared.options, train=self.work is not Work.INFERENCE)
        self.prepared = replace(self.prepared, options=options)
        parameters = [one for one in self._parameters() if one.requires_grad]
        if self.work is Work.TRAINING_STEP:
            if parameters:
                self._optimiser = torch.optim.SGD(parameters, lr=_RATE)
            else:
                self.notes["it has no parameters: a training step is forward and backward"] = None

    def _parameters(self) -> list[torch.nn.Parameter]:
        module = module_of(self.prepared.function)
        return list(module.parameters()) if module is not None else []

    @contextlib.contextmanager
    def mode(self) -> Iterator[None]:
        """Train or eval mode, and gradients, for all calls inside."""
        with call_mode(self.prepared):
            yield

    def prepare(self) -> Callable[[], Any]:
        """Make what one call needs; returns the call, which returns the target's outputs."""
        if not self.fresh:
            return self._call
        args, kwargs = with_tensors((self.prepared.args, self.prepared.kwargs), _copy)
        prepared = replace(self.prepared, args=args, kwargs=kwargs)
        return lambda: self._made(prepared)

    def _call(self) -> Any:
        return self._made(self.prepared)

    def _made(self, prepared: Prepared) -> Any:
        if self.work is Work.INFERENCE:
            return self.function(*prepared.args, **prepared.kwargs)
        self.forget_gradients(prepared)
        outputs, notes = call_outputs(prepared, self.function)
        for note in notes:
            self.notes[note.text] = None
        if self._optimiser is not None:
            self._optimiser.step()
        return outputs

    def forget_gradients(self, prepared: Prepared | None = None) -> None:
        """Let go of all gradients, as a training loop does before each step."""
        of = prepared or self.prepared
        module = module_of(of.function)
        if module is not None:
            module.zero_grad(set_to_none=True)
        for tensor in tensors_in([of.args, of.kwargs]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a tensor that is no leaf, torch warns
                if tensor.is_leaf:
                    tensor.grad = None

    @contextlib.contextmanager
    def noticing_changes(self) -> Iterator[None]:
        """Note whether a call changes its inputs in place: from then on each call gets copies."""
        inputs = tensors_in([self.prepared.args, self.prepared.kwargs])
        before = [_version(tensor) for tensor in inputs]
        yield
        self.fresh = self.fresh or before != [_version(tensor) for tensor in inputs]


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version  # noqa: SLF001 - documented for this


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
