"""Runs a target in one configuration: every torch.compile of the source compiles as the configuration says.

Invariant: the user's choices of where a graph may end (fullgraph, disable, dynamic) stay unless the configuration
changes them. In eager nothing is compiled, and Inductor, which takes seconds to load, is not imported.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from fuselight.adapters.torch_api.choices.kernel_choices import ChoiceRecorder
from fuselight.adapters.torch_api.dynamo import module_tensors, targets
from fuselight.replay.freezing import FREEZING
from fuselight.replay.graph_key import tuned_graph
from fuselight.replay.preparation import prepared, prepared_inductor
from fuselight.shared.configurations import MODES, Configuration
from fuselight.shared.report import Device, GeneratedGraph, Problem
from fuselight.shared.report.tuned import TunedGraph

if TYPE_CHECKING:
    from fuselight.capture.inductor import Compilation

_NOT_FROZEN = (
    "options={'freezing': True} of torch.compile freezes nothing: set torch._inductor.config.freezing = True before "
    "the first call, or tune and use backend='fuselight'"
)
_GUARDS = "guard_filter_fn"
"""An option that torch.compile handles itself."""


@dataclass(eq=False)
class Switched:
    """A backend that can be replaced by another, for example during a bisection."""

    backend: Callable[..., Any]
    instead: Callable[..., Any] | None = None
    captured: dict[str, TunedGraph] = field(default_factory=dict)
    """The graphs that it was given, by key."""
    of_step: bool = False
    """Whether it compiles an optimizer's step instead of the model."""

    @property
    def unrecorded(self) -> Callable[..., Any]:
        """The backend without recording."""
        compilation = self.compilation
        return compilation.unrecorded if compilation is not None else self.backend

    @property
    def compilation(self) -> Compilation | None:
        """The backend's compilation record, if it is Inductor."""
        inductor = sys.modules.get("fuselight.capture.inductor")
        backend: Any = self.backend
        return backend if inductor is not None and isinstance(backend, inductor.Compilation) else None

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a captured graph for Dynamo."""
        if self.instead is None:
            graph = tuned_graph(gm, inputs)
            self.captured.setdefault(graph.key, graph)
        else:
            asked["suspect"] = self.unrecorded
        compiled: Callable[..., Any] = (self.instead or self.backend)(gm, inputs, **asked)
        return compiled


@dataclass
class Compiled:
    """The backends of one configuration."""

    configuration: Configuration
    device: Device
    backends: dict[str, Switched] = field(default_factory=dict)
    """One backend per distinct set of torch.compile arguments: Dynamo shares the code of equal backends."""
    captured: dict[str, TunedGraph] = field(default_factory=dict)
    """The captured graphs by key, in the order of their first compile."""
    choices: ChoiceRecorder = field(default_factory=ChoiceRecorder)
    """What Inductor chose by timing kernels."""
    notes: dict[str, None] = field(default_factory=dict)
    """What of the configuration had no effect, and why."""

    @property
    def by_inductor(self) -> tuple[Compilation, ...]:
        """The Inductor compilations."""
        compilations = (backend.compilation for backend in self.backends.values())
        return tuple(compilation for compilation in compilations if compilation is not None)

    @contextlib.contextmanager
    def replaced_by(self, backend: Callable[..., Any]) -> Iterator[None]:
        """Within the block, graphs of the model go to `backend`, which gets the replaced backend as `suspect`."""
        for switched_backend in self._of_model:
            switched_backend.instead = backend
        try:
            yield
        finally:
            for switched_backend in self._of_model:
                switched_backend.instead = None

    @property
    def suspect(self) -> Callable[..., Any] | None:
        """The first backend that compiles graphs of the model; None if nothing was compiled."""
        return next((switched_backend.unrecorded for switched_backend in self._of_model), None)

    @property
    def _of_model(self) -> list[Switched]:
        return [backend for backend in self.backends.values() if not backend.of_step]

    @property
    def graphs(self) -> tuple[GeneratedGraph, ...]:
        """The generated graphs, in the order of the torch.compile calls."""
        return tuple(graph for compilation in self.by_inductor for graph in compilation.graphs)

    @property
    def texts(self) -> dict[str, str]:
        """Sources of kernels and wrappers, by key."""
        return {key: text for compilation in self.by_inductor for key, text in compilation.texts.items()}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems that occurred while the compile was recorded."""
        return tuple(
            dict.fromkeys(problem for compilation in self.by_inductor for problem in compilation.problems)
        )

    @property
    def options(self) -> dict[str, Any]:
        """Inductor's options for the model, those of the mode included; empty if Inductor compiled nothing."""
        compilations = (switched_backend.compilation for switched_backend in self._of_model)
        return next((compilation.options for compilation in compilations if compilation is not None), {})

    @property
    def cudagraphs(self) -> bool | None:
        """Whether CUDA graphs are requested; None if Inductor compiled nothing."""
        return any(compilation.cudagraphs for compilation in self.by_inductor) if self.by_inductor else None


@contextlib.contextmanager
def configured(
    configuration: Configuration, device: Device, choices: ChoiceRecorder | None = None
) -> Iterator[Compiled]:
    """Within the block, torch.compile follows the configuration. Raises what torch raises for unknown options."""
    backends = Compiled(configuration, device, choices=choices or ChoiceRecorder())
    launches = (
        contextlib.nullcontext()
        if configuration.eager or device.backend == "cpu"
        else backends.choices.watching_launches()
    )
    with (
        launches,
        targets.replaced_compile(
            functools.partial(_compile, backends), functools.partial(_optimize, backends)
        ),
    ):
        yield backends


def _compile(backends: Compiled, real: Callable[..., Any], model: Any = None, /, **asked: Any) -> Any:
    """`torch.compile` for this configuration. Without a model it is a decorator, as the original is."""
    model = asked.pop("model", model)
    if model is None:
        return lambda function: _compile_model(real, function, _as_configured(backends, asked, function))
    return _compile_model(real, model, _as_configured(backends, asked, model))


def _compile_model(real: Callable[..., Any], model: Any, named: dict[str, Any]) -> Any:
    if named.get("disable") and isinstance(model, torch.nn.Module):
        vars(model)["_orig_mod"] = model  # sources name what they had compiled by it; no submodule
    return real(model, **named)


def _optimize(backends: Compiled, real: Callable[..., Any], wanted: Any, /, *args: Any, **asked: Any) -> Any:
    """`torch._dynamo.optimize` for this configuration; torch.compile calls it too, with resolved arguments."""
    if asked.get("disable") or isinstance(targets.backend_within(wanted), Switched):
        return real(wanted, *args, **asked)
    named = _as_configured(backends, {"backend": wanted})
    kept = {name: value for name, value in named.items() if name in {"dynamic", "disable"}}
    if named.get("fullgraph"):
        kept["nopython"] = True
    return real(named.get("backend", wanted), *args, **{**asked, **kept})


def _as_configured(backends: Compiled, asked: dict[str, Any], model: Any = None) -> dict[str, Any]:
    """The arguments of torch.compile in a configuration, for `model` if that is known.

    An optimizer's step is compiled as `torch.compile(optimizer.step)` does, which is what a tuned result says of it.
    With the model's options it fails: gradients are results of the model's CUDA graphs, and those of another
    torch.compile overwrite them.

    Freezing cannot be left to `options`: torch applies them after Dynamo, which has made every parameter an input of
    the graph by then, so the option has no effect.
    """
    configuration = backends.configuration
    of_step = isinstance(getattr(model, "__self__", None), torch.optim.Optimizer)
    if of_step and not configuration.eager and not configuration.written:
        mode = MODES[0] if configuration.backend is None else None
        configuration = Configuration(configuration.name, mode=mode, backend=configuration.backend)
    if configuration.eager:
        return {**asked, "disable": True}
    kept = {name: value for name, value in asked.items() if name not in {"backend", "mode", "options"}}
    of_source = dict(asked.get("options") or {})
    mode, backend, options = configuration.mode, configuration.backend, dict(configuration.options)
    if configuration.written:
        mode, backend, options = asked.get("mode"), asked.get("backend"), dict(of_source)
    else:
        kept = _with_marks(configuration, kept)
    options.pop(_GUARDS, None)
    for_torch = _for_dynamo(configuration, of_source)
    if backend in (None, "inductor"):
        key = f"{mode} {sorted(options.items(), key=str)!r} {kept.get('dynamic')} {of_step}"
        if configuration.written and options.get(FREEZING) and not module_tensors.is_freezing_set():
            backends.notes.setdefault(_NOT_FROZEN)
        if key not in backends.backends:
            from fuselight.capture.inductor import Compilation  # noqa: PLC0415 - with Inductor: not where all is eager

            inductor = prepared_inductor(
                configuration.preparation,
                mode,
                options,
                dynamic=kept.get("dynamic"),
                compiling=backends.choices.recording,
                say=backends.notes.setdefault,
                freezes=not configuration.written,
                longest=configuration.longest,
            )
            recorded = Compilation(backends.device, backend=inductor)
            backends.backends[key] = Switched(recorded, captured=backends.captured, of_step=of_step)
    else:
        key = f"{backend if isinstance(backend, str) else id(backend)} {of_step}"
        if key not in backends.backends:
            named = targets.backend_named(backend) if isinstance(backend, str) else backend
            named = prepared(configuration.preparation, named)
            backends.backends[key] = Switched(named, captured=backends.captured, of_step=of_step)
        for_torch.update(options)
        if mode is not None:
            kept["mode"] = mode
    if for_torch:
        kept["options"] = for_torch
    return {**kept, "backend": backends.backends[key]}


def _for_dynamo(configuration: Configuration, of_source: Mapping[str, Any]) -> dict[str, Any]:
    """The options that torch.compile handles itself, whatever the backend is."""
    if configuration.fixed_modules:
        return {_GUARDS: torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    return {_GUARDS: of_source[_GUARDS]} if _GUARDS in of_source else {}


def _with_marks(configuration: Configuration, kept: dict[str, Any]) -> dict[str, Any]:
    """The arguments of torch.compile with those of the configuration that decide where graphs end."""
    marked = {**kept, "fullgraph": bool(kept.get("fullgraph")) or configuration.fullgraph}
    if configuration.dynamic is not None:
        marked["dynamic"] = configuration.dynamic
        for name in targets.SHAPES:  # torch takes either, never both
            marked.pop(name, None)
    return marked
