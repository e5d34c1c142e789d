"""Runs a target in one configuration: every torch.compile of the source then compiles as the configuration says.

Invariant: where a graph may end (fullgraph, disable, dynamic) stays as the user asked unless the configuration says
otherwise; in eager nothing is compiled at all.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight import torch_api
from fuselight.configurations import Configuration
from fuselight.inductor import Compilation
from fuselight.report import Device, GeneratedGraph, Problem


@dataclass(eq=False)
class Switched:
    """A backend that another one can stand in for, as where an error is looked for."""

    backend: Callable[..., Any]
    instead: Callable[..., Any] | None = None

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Take a captured graph from Dynamo."""
        made: Callable[..., Any] = (self.instead or self.backend)(gm, inputs, **asked)
        return made


@dataclass
class Compiled:
    """What one configuration compiles with."""

    configuration: Configuration
    device: Device
    backends: dict[str, Switched] = field(default_factory=dict)
    """One for each torch.compile of the source that asks for something else: Dynamo shares what equal ones compile."""

    @property
    def by_inductor(self) -> tuple[Compilation, ...]:
        """Those that are Inductor."""
        found = (one.backend for one in self.backends.values())
        return tuple(one for one in found if isinstance(one, Compilation))

    @contextlib.contextmanager
    def replaced_by(self, backend: Callable[..., Any]) -> Iterator[None]:
        """Inside, graphs go to `backend`."""
        for one in self.backends.values():
            one.instead = backend
        try:
            yield
        finally:
            for one in self.backends.values():
                one.instead = None

    @property
    def suspect(self) -> Callable[..., Any] | None:
        """What compiles its graphs, with no record kept; None where nothing was compiled."""
        first = next((one.backend for one in self.backends.values()), None)
        return first.unheard if isinstance(first, Compilation) else first

    @property
    def graphs(self) -> tuple[GeneratedGraph, ...]:
        """What was generated, in the order of each torch.compile."""
        return tuple(graph for one in self.by_inductor for graph in one.graphs)

    @property
    def texts(self) -> dict[str, str]:
        """The sources of kernels and wrappers, by key."""
        return {key: text for one in self.by_inductor for key, text in one.texts.items()}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be learnt of the compile."""
        return tuple(dict.fromkeys(problem for one in self.by_inductor for problem in one.problems))

    @property
    def cudagraphs(self) -> bool | None:
        """Whether CUDA graphs are asked for; None where Inductor compiled nothing."""
        return any(one.cudagraphs for one in self.by_inductor) if self.by_inductor else None


@contextlib.contextmanager
def configured(configuration: Configuration, device: Device) -> Iterator[Compiled]:
    """Inside, torch.compile makes what the configuration says. Raises what torch raises of unknown options."""
    made = Compiled(configuration, device)
    with torch_api.replaced_compile(functools.partial(_compile, made), None):
        yield made


def _compile(made: Compiled, real: Callable[..., Any], model: Any = None, /, **asked: Any) -> Any:
    """`torch.compile`, as the configuration has it. As the original: without a model it is a decorator."""
    model = asked.pop("model", model)
    named = _as_configured(made, asked)
    if model is None:
        return lambda function: real(function, **named)
    return real(model, **named)


def _as_configured(made: Compiled, asked: dict[str, Any]) -> dict[str, Any]:
    configuration = made.configuration
    if configuration.eager:
        return {**asked, "disable": True}
    kept = {name: value for name, value in asked.items() if name not in {"backend", "mode", "options"}}
    mode, backend, options = configuration.mode, configuration.backend, dict(configuration.options)
    if configuration.written:
        mode, backend, options = asked.get("mode"), asked.get("backend"), dict(asked.get("options") or {})
    else:
        if configuration.dynamic is not None:
            kept["dynamic"] = configuration.dynamic
        kept["fullgraph"] = bool(kept.get("fullgraph")) or configuration.fullgraph
    if backend in (None, "inductor"):
        return {**kept, "backend": _by_inductor(made, mode, options, kept.get("dynamic"))}
    if options:
        kept["options"] = options
    key = f"{backend!r} {sorted(options.items())!r}"
    if key not in made.backends:
        made.backends[key] = Switched(
            torch_api.backend_named(backend) if isinstance(backend, str) else backend
        )
    return {**kept, "backend": made.backends[key]}


def _by_inductor(
    made: Compiled,
    mode: str | None,
    options: dict[str, Any],
    dynamic: bool | None,  # noqa: FBT001 - torch.compile's
) -> Switched:
    key = f"{mode} {sorted(options.items())!r} {dynamic}"
    if key not in made.backends:
        made.backends[key] = Switched(Compilation(made.device, mode, options, dynamic=dynamic))
    return made.backends[key]
