# ruff: noqa: SLF001 - private names are this package's business
"""Compiles with Inductor for real, as torch.compile does, and reports what is generated.

Invariant: the compiled code is what torch.compile makes of the graph with the same mode and options. Two things differ,
both for what is shown and for what is timed: the backward is compiled with the forward and not at the first backward
call, and C++ kernels carry a record for the profiler, which costs nothing while no profiler runs. An exception in a
hook goes to the observer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

import torch
import torch._functorch.config
import torch._inductor.compile_fx
import torch._inductor.config
import torch._inductor.graph

from fuselight.torch_api.patching import wrapped
from fuselight.virtual_gpu.codegen import GenerationObserver, hearing, tell


class CompilationObserver(GenerationObserver, Protocol):
    """Receives the events of one graph that is compiled."""

    def loaded(self, module: ModuleType) -> None:
        """The wrapper of the graph that was written last is loaded."""

    def compiled(self, key: str | None) -> str:
        """A graph is compiled, Inductor's cache key of it; returns what profiles are to call it."""
        ...


def inductor_backend(
    mode: str | None, options: Mapping[str, Any], *, dynamic: bool | None
) -> Callable[..., Any]:
    """What torch.compile(mode=..., options=...) calls for each graph. Raises RuntimeError for unknown options."""
    wrapper: Any = torch._TorchCompileInductorWrapper
    made: Callable[..., Any] = wrapper(mode, dict(options), dynamic)
    return made


def asks_for_cudagraphs(backend: Callable[..., Any]) -> bool:
    """Whether a backend of `inductor_backend` replays CUDA graphs."""
    return bool(
        getattr(backend, "config", {}).get("triton.cudagraphs", torch._inductor.config.triton.cudagraphs)
    )


def compile_heard(
    backend: Callable[..., Any],
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    observer: CompilationObserver,
) -> Callable[..., Any]:
    """Compile `gm` with a backend of `inductor_backend`. Raises what torch raises."""

    def compile_to_module(real: Callable[..., Any], self: Any) -> Any:
        tell(observer, observer.lowered, self, self.module)
        module = real(self)
        with open(module.__file__, encoding="utf-8") as file:
            text = file.read()
        if self.disable_cudagraphs_reason:
            tell(observer, observer.not_replayed, str(self.disable_cudagraphs_reason), ())
        tell(observer, observer.written, self, text)
        tell(observer, observer.loaded, module)
        return module

    def compile_inner(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        made = real(*args, **named)
        try:  # a unique name in profiles: equal graphs share one key in Inductor's cache
            made._fx_graph_cache_key = observer.compiled(getattr(made, "_fx_graph_cache_key", None))
        except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
            observer.broke("compiled", error)
        return made

    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        enter(wrapped(torch._inductor.graph.GraphLowering, "compile_to_module", compile_to_module))
        enter(hearing(observer, lambda _: ()))
        enter(wrapped(torch._inductor.compile_fx, "_compile_fx_inner", compile_inner))
        enter(
            torch._functorch.config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True)
        )
        enter(torch._inductor.config.patch({"cpp.enable_kernel_profile": True}))
        run: Callable[..., Any] = backend(gm, inputs)
        return run
