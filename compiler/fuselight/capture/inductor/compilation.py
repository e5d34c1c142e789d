"""Compiles each captured graph for real, as torch.compile does, and records what Inductor generates.

Invariant: Dynamo gets exactly the function that Inductor returned, without a wrapper of Fuselight's, so a call
costs what it costs the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.adapters.virtual_gpu import codegen, cudagraphs
from fuselight.capture.inductor.generation import Generation
from fuselight.shared.report import Device, GeneratedGraph, Phase

_FROM_ELSEWHERE = GeneratedGraph(
    "?", Phase.INFERENCE, failure="it came from a cache of Inductor's that another process has filled"
)


class Compilation(Generation):
    """A Dynamo backend: torch.compile's own with `mode` and `options`, and what it generates is kept in `graphs`.

    `device` is the one that it compiles for, for estimates next to the measured times. `backend` replaces torch's: it
    ends in Inductor, and its `config` has Inductor's options.
    """

    def __init__(
        self,
        device: Device,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        dynamic: bool | None = None,
        backend: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(device)
        self._inductor = backend or codegen.inductor_backend(mode, options or {}, dynamic=dynamic)
        self.modules: list[ModuleType | None] = []
        """The wrapper of each of `graphs`; None where it was not generated here."""
        self._loaded: ModuleType | None = None
        self._written: dict[str, int] = {}
        """Inductor's cache key of each graph that it generated, and its position in `graphs`."""

    @property
    def unrecorded(self) -> Callable[..., Any]:
        """The same compile without recording."""
        return self._inductor

    @property
    def options(self) -> dict[str, Any]:
        """Inductor's options that differ from its own, those of the mode included."""
        return dict(getattr(self._inductor, "config", {}))

    @property
    def cudagraphs(self) -> bool:
        """Whether CUDA graphs are asked for."""
        return codegen.asks_for_cudagraphs(self._inductor)

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any
    ) -> Callable[..., Any]:
        """Take a captured graph from Dynamo. Raises what the compiler raises."""
        del asked
        self._begin(gm)
        before = len(self.graphs)
        try:
            with cudagraphs.observing_cudagraphs(self._not_recorded):
                run = codegen.compile_observed(self._inductor, gm, example_inputs, self)
        except errors.Restart:
            del self.graphs[before:]
            del self.modules[before:]
            raise  # Dynamo captures the frame again
        self._captured += 1
        return run

    def loaded(self, module: ModuleType) -> None:
        """The wrapper of the graph that is `written` next is there (CompilationObserver's)."""
        self._loaded = module

    def compiled(self, key: str | None) -> str:
        """A graph is compiled: it was generated just now, or is equal to one before it (CompilationObserver's)."""
        if (
            not self.graphs or self.graphs[-1].cache_key is not None
        ):  # nothing was written: Inductor's cache had it
            known = self._written.get(key or "")
            same = self.graphs[known] if known is not None else _FROM_ELSEWHERE
            self.graphs.append(replace(same, compile_id=self._compile_id(), graph=self._captured))
            self._loaded = self.modules[known] if known is not None else None
        position = len(self.graphs) - 1
        if key is not None:
            self._written.setdefault(key, position)
        name = f"{self._compile_id()} graph {position}"
        self.graphs[position] = replace(self.graphs[position], cache_key=name)
        self.modules.append(self._loaded)
        return name
