"""Runs a target in one configuration: every torch.compile of the source then compiles as the configuration says.

Invariant: where a graph may end (fullgraph, disable, dynamic) stays as the user asked unless the configuration says
otherwise; in eager nothing is compiled at all.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fuselight import torch_api
from fuselight.configurations import Configuration
from fuselight.inductor import Compilation
from fuselight.report import Device, GeneratedGraph, Problem


@dataclass
class Compiled:
    """What one configuration compiles with; one for each different torch.compile of the source."""

    configuration: Configuration
    device: Device
    by_inductor: list[Compilation] = field(default_factory=list)

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
    if backend not in (None, "inductor"):
        return {**kept, "backend": backend, **({"options": options} if options else {})}
    ours = Compilation(made.device, mode, options, dynamic=kept.get("dynamic"))
    made.by_inductor.append(ours)
    return {**kept, "backend": ours}
