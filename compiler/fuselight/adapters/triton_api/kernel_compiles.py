"""Compiles a kernel for example arguments, as a directive above a `@triton.jit` function gives them.

Invariant: nothing is launched. Where there is no GPU, what Triton would compile is noted.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch

from fuselight.adapters.triton_api import names


def compile_call(function: Any) -> Callable[..., None] | None:
    """Return what compiles `function` for its arguments, with its signature; None for what is no kernel of Triton's."""
    if "triton.runtime.jit" not in sys.modules:  # then nothing is a kernel
        return None
    try:
        jit, autotuner = names.runtime_jit(), names.autotuner()
        is_kernel = isinstance(function, jit.KernelInterface)
    except (ImportError, AttributeError):  # a Triton that is broken, or another than those that are known
        return None
    if not is_kernel:
        return None
    kernel = function
    while not isinstance(kernel, jit.JITFunction) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    if not isinstance(kernel, jit.JITFunction):
        return None
    times = isinstance(function, autotuner.Autotuner) and torch.cuda.is_available()

    def compile_kernel(*args: Any, **named: Any) -> None:
        if times:  # `run` would time the configurations, with launches
            function.warmup(*args, grid=(1,), **named)
        else:
            function.run(*args, grid=(1,), warmup=True, **named)

    functools.update_wrapper(compile_kernel, kernel.fn, assigned=("__module__", "__name__", "__qualname__"))
    compile_kernel.__signature__ = _signature(function, kernel)  # type: ignore[attr-defined]
    disabled: Callable[..., None] = torch.compiler.disable(compile_kernel)  # type: ignore[no-untyped-call]
    disabled.__signature__ = compile_kernel.__signature__  # type: ignore[attr-defined]
    disabled.compiles_kernel = True  # type: ignore[attr-defined]
    return disabled


def is_compile_call(function: Any) -> bool:
    """Whether a callable is what `compile_call` made."""
    return getattr(function, "compiles_kernel", False) is True


def _signature(function: Any, kernel: Any) -> inspect.Signature:
    """The parameters of a kernel; those that an autotuner or heuristics give need no argument."""
    given = _given(function)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None) if name in given else parameter
        for name, parameter in inspect.signature(kernel.fn).parameters.items()
    ]
    parameters.sort(key=lambda parameter: parameter.kind)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("num_warps", "num_stages")
        if name not in kernel.arg_names
    ]
    return inspect.Signature([*parameters, *options])


def _given(function: Any) -> set[str]:
    """Names of arguments that configurations and heuristics give."""
    given: set[str] = set()
    while hasattr(function, "fn"):
        for config in getattr(function, "configs", ()):
            given |= set(config.kwargs)
        given |= set(getattr(function, "values", ()) or ())
        function = function.fn
    return given
