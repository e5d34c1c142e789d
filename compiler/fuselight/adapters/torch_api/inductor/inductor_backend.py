# ruff: noqa: SLF001 - private names are this package's business
"""torch.compile's own Inductor backend, with contexts that are in force while it compiles and while its code runs.

Invariant: without contexts the code is what torch.compile makes with the same mode and options. A backward that torch
compiles at its first call gets the same contexts as one that it compiles with the forward.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Context = Callable[[], contextlib.AbstractContextManager[Any]]
"""Makes a context manager that is entered once."""


def has_option(name: str) -> bool:
    """Whether Inductor of this torch has an option."""
    return hasattr(importlib.import_module("torch._inductor.config"), name)


def without_cuda_graphs(wanted: Any) -> bool:
    """Have torch.compile's own Inductor backend make no CUDA graphs; returns whether it would have.

    `wanted`: what `torch._dynamo.optimize` was given, of which this is read before anything is compiled.
    """
    inner = getattr(wanted, "_torchdynamo_orig_backend", wanted)
    wrapper = getattr(inner, "compiler_fn", inner)
    config = getattr(wrapper, "config", None)
    if not isinstance(config, dict) or not isinstance(wrapper, torch._TorchCompileInductorWrapper):
        return False
    return bool(config.pop("triton.cudagraphs", False))


@dataclass
class InductorBackend:
    """A Dynamo backend: torch.compile's own with `mode` and `options`. Raises RuntimeError for unknown options."""

    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None
    compiling: Context | None = None
    """In force while AOTAutograd traces and Inductor compiles, forward and backward."""
    calling: Context | None = None
    """In force during each call of the compiled forward and backward."""
    cache_tag: str = ""
    """Tells this code apart from what torch makes of the same graph without the contexts, in torch's caches."""
    _wrapper: Any = field(init=False, repr=False)
    """What torch.compile would call for each graph."""

    def __post_init__(self) -> None:
        wrapper: Any = torch._TorchCompileInductorWrapper
        self._wrapper = wrapper(self.mode, dict(self.options), self.dynamic)

    @property
    def config(self) -> dict[str, Any]:
        """Inductor's options, those of the mode included."""
        return dict(self._wrapper.config)

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a captured graph for Dynamo. Raises what torch raises."""
        del asked
        if self.compiling is None and self.calling is None and not self.cache_tag:
            run: Callable[..., Any] = self._wrapper(gm, inputs)
            return run
        compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")

        def inner_compile(*args: Any, **named: Any) -> Any:
            with self._in_force():
                code = compile_fx.compile_fx_inner(*args, **named)
            return code if self.calling is None else _within(self.calling, code)

        with self._in_force():
            prepared: Callable[..., Any] = compile_fx.compile_fx(
                gm, inputs, inner_compile=inner_compile, config_patches=self._wrapper.config
            )
            return prepared

    @contextlib.contextmanager
    def _in_force(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for patch in _cache_patches(self.cache_tag, cached=self.calling is None):
                stack.enter_context(patch)
            if self.compiling is not None:
                stack.enter_context(self.compiling())
            yield

    def reset(self) -> None:
        """Free what CUDA graphs hold, as torch._dynamo.reset asks."""
        self._wrapper.reset()


def _cache_patches(tag: str, *, cached: bool) -> Iterator[contextlib.AbstractContextManager[Any]]:
    """Patches of torch's settings that keep its caches apart."""
    shared: Any = getattr(torch.compiler, "config", None)
    if tag and hasattr(shared, "cache_key_tag"):
        known = str(shared.cache_key_tag or "")
        yield shared.patch(cache_key_tag=known if tag in known else f"{known}{tag}")
        tag = ""
    functorch: Any = importlib.import_module("torch._functorch.config")
    # AOTAutograd's cache would return code without the contexts of a call, and knows nothing of other contexts.
    if (tag or not cached) and hasattr(functorch, "enable_autograd_cache"):
        yield functorch.patch(enable_autograd_cache=False)


def _within(calling: Context, code: Any) -> Any:
    """Compiled code with a context around each call."""
    plain = getattr(code, "current_callable", None)
    if plain is not None:

        @functools.wraps(plain)
        def run(*args: Any) -> Any:
            with calling():
                return plain(*args)

        code.current_callable = run
        return code

    def boxed(*args: Any) -> Any:
        with calling():
            return code(*args)

    if getattr(code, "_boxed_call", False):
        boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed
