"""One measured call: on its device, with its inputs, forward only or with backward and optimizer step.

Invariant: every configuration does the same work. Extra work (clearing gradients, copying inputs that the call changes
in place) is the same in each, and copies are made outside of the timed region.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor.measurement import version_of
from fuselight.capture.calls.calls import Prepared, call_mode, call_outputs, module_of
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.shared.report import Work

_RATE = 0.0
"""Learning rate of the optimizer: zero keeps the weights while the step does the same work. The loss is a plain sum,
which any other rate drives to infinity within some steps."""


def modules_of(prepared: Prepared) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield every module that the call can reach, with its name: the target, arguments, globals, closure."""
    module = module_of(prepared.function)
    named = [("", module)] if module is not None else []
    named += [(name, value) for name, value in arguments_of(prepared) if isinstance(value, torch.nn.Module)]
    named += _referred(prepared.function)
    modules: dict[int, tuple[str, torch.nn.Module]] = {}
    for name, other_module in named:
        modules.setdefault(id(other_module), (name, other_module))
    yield from modules.values()


def _referred(function: Any) -> list[tuple[str, torch.nn.Module]]:
    """Modules that a plain function refers to: globals and closure variables."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(function, FunctionType):
        return []
    referred = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        referred[name] = _contents(cell)
    return [(name, value) for name, value in referred.items() if isinstance(value, torch.nn.Module)]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty closure cell
        return None


def arguments_of(prepared: Prepared) -> Iterator[tuple[str, Any]]:
    """Inputs by name: `input 0`, `input mask`."""
    yield from ((f"input {index}", value) for index, value in enumerate(prepared.args))
    yield from ((f"input {name}", value) for name, value in prepared.kwargs.items())


def work_of(asked: Work | None, prepared: Prepared) -> Work:
    """The work of one call: as requested, else forward and backward if the inputs say `train=True`."""
    return asked or (Work.FORWARD_BACKWARD if prepared.options.train else Work.INFERENCE)


def on_device(prepared: Prepared, names: Mapping[str, Any], device: torch.device) -> Prepared:
    """The call with its module, the file's other modules and its inputs on `device`."""
    reachable = [module_of(prepared.function), *names.values()]
    for module in dict.fromkeys(value for value in reachable if isinstance(value, torch.nn.Module)):
        module.to(device)
    return with_inputs(prepared, lambda tensor: _moved(tensor, device))


def with_inputs(prepared: Prepared, change: Callable[[torch.Tensor], torch.Tensor]) -> Prepared:
    """The call with each input tensor replaced by what `change` makes of it."""
    args, kwargs = with_tensors((prepared.args, prepared.kwargs), change)
    return replace(prepared, args=args, kwargs=kwargs)


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device == device:
        return tensor
    return tensor.detach().to(device).requires_grad_(tensor.requires_grad)


@dataclass
class Unit:
    """One call of a target, to be repeated."""

    prepared: Prepared
    function: Callable[..., Any]
    """The callable: the target in the given configuration."""
    work: Work
    fresh: bool = False
    """Whether each call needs copies of the inputs because the target changes them in place."""
    compiles_optimizer: bool = False
    """Whether the optimizer's step is compiled too, by a torch.compile of its own."""
    notes: dict[str, None] = field(default_factory=dict)
    _step: Callable[[], object] | None = None
    """The optimizer's step, if a call has one."""
    _parameters: list[torch.nn.Parameter] = field(default_factory=list)
    """Parameters that take gradients, of every module that the call reaches."""
    _leaves: list[torch.Tensor] = field(default_factory=list)
    """All tensors that may hold a gradient of the previous call."""

    def __post_init__(self) -> None:
        options = replace(self.prepared.options, train=self.work is not Work.INFERENCE)
        self.prepared = replace(self.prepared, options=options)
        if self.work is Work.INFERENCE:
            return
        reached = (parameter for _, module in modules_of(self.prepared) for parameter in module.parameters())
        self._parameters = [parameter for parameter in dict.fromkeys(reached) if parameter.requires_grad]
        inputs = tensors_in([self.prepared.args, self.prepared.kwargs])
        self._leaves = [*self._parameters, *(tensor for tensor in inputs if tensor.is_leaf)]
        if self.work is Work.TRAINING_STEP and self._parameters:
            optimizer = torch.optim.SGD(self._parameters, lr=_RATE)
            self._step = torch.compile(optimizer.step) if self.compiles_optimizer else optimizer.step
        elif self.work is Work.TRAINING_STEP:
            self.notes["it has no parameters: a training step is forward and backward"] = None

    def mode(self) -> contextlib.AbstractContextManager[None]:
        """Set train or eval mode, and gradients, for all calls within the block."""
        return call_mode(self.prepared)

    def copied(self) -> Prepared:
        """The call with copies of its inputs."""
        return with_inputs(self.prepared, _copy)

    def prepare(self) -> Callable[[], Any]:
        """Prepare one call; returns the call, which returns the target's outputs."""
        prepared = self.copied() if self.fresh else self.prepared
        return lambda: self.call_with(prepared)

    def call_with(self, prepared: Prepared) -> Any:
        """Make the call with the inputs of `prepared`."""
        if self.work is Work.INFERENCE:
            return self.function(*prepared.args, **prepared.kwargs)
        self.drop_gradients()
        outputs, notes = call_outputs(prepared, self.function, trained=bool(self._parameters))
        for note in notes:
            self.notes[note.text] = None
        if self._step is not None:
            self._step()
        return outputs

    def lasting_tensors(self) -> list[torch.Tensor]:
        """The tensors that are there throughout a call: of modules, and the inputs."""
        tensors = tensors_in([self.prepared.args, self.prepared.kwargs])
        for _, module in modules_of(self.prepared):
            tensors += [*module.parameters(), *module.buffers()]
        return tensors

    def drop_gradients(self) -> None:
        """Do what a training loop does before each step."""
        for leaf in self._leaves:
            leaf.grad = None

    @contextlib.contextmanager
    def noticing_changes(self, prepared: Prepared) -> Iterator[None]:
        """Detect whether a call changes the inputs of `prepared` in place; if so, each later call gets copies."""
        inputs = tensors_in([prepared.args, prepared.kwargs])
        before = [version_of(tensor) for tensor in inputs]
        yield
        self.fresh = self.fresh or before != [version_of(tensor) for tensor in inputs]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, which avoids a recompilation; a dense copy if elements overlap."""
    plain = tensor.detach()
    if tensor.layout is torch.strided and 0 not in tensor.stride() and type(tensor) is torch.Tensor:
        copied_tensor = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
        copied_tensor.copy_(plain)
    else:
        copied_tensor = plain.clone()
    return copied_tensor.requires_grad_(tensor.requires_grad)
