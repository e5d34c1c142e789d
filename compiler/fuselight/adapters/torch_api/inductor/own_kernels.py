"""Graphs with Triton kernels of the program's, where Inductor compiles for a CPU: it cannot compile those.

Invariant: torch is asked for Inductor's module only after something else has imported it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import wrapped
from fuselight.shared.import_hooks import AfterImport

_MODULE = "torch._inductor.compile_fx"
_LAUNCH = "triton_kernel_wrapper_"
_REFUSED = "compatible backends for target (cpu)"
"""What Triton says of a kernel that Inductor gives it for a CPU."""


@contextlib.contextmanager
def graphs_with_kernels_as_captured(applies: Callable[[], bool], heard: Callable[[], None]) -> Iterator[None]:
    """While `applies()`, Inductor returns a graph that launches Triton kernels as captured, and `heard` is called."""

    def compile_fx(real: Callable[..., Any], graph: Any, *args: Any, **named: Any) -> Any:
        if not applies():
            return real(graph, *args, **named)
        if not launches_kernels(graph):
            try:
                return real(graph, *args, **named)
            except Exception as error:
                if _REFUSED not in str(error):
                    raise
        heard()
        return graph.forward

    with contextlib.ExitStack() as stack:

        def install() -> None:
            stack.enter_context(wrapped(sys.modules[_MODULE], "compile_fx", compile_fx))

        if _MODULE in sys.modules:
            install()
        else:
            hook = AfterImport(_MODULE, install)
            sys.meta_path.insert(0, hook)
            stack.callback(hook.withdraw)
        yield


def launches_kernels(graph: Any) -> bool:
    """Whether a graph, or one inside of it, launches a Triton kernel of the program's."""
    if not isinstance(graph, torch.nn.Module):
        return False
    parts = (part for part in graph.modules() if isinstance(part, torch.fx.GraphModule))
    return any(_launches(node.target) for part in parts for node in part.graph.nodes)


def _launches(target: Any) -> bool:
    if str(target).startswith(_LAUNCH):
        return True
    library = sys.modules.get("torch._library.triton")
    kernels = getattr(library, "get_triton_kernels_for_op", None)
    name = getattr(getattr(target, "_schema", None), "name", None) or getattr(
        target, "_qualified_op_name", None
    )
    return kernels is not None and name is not None and bool(kernels(name))
