"""Operators of a program on a machine whose tensors are all on the CPU: those for CUDA only, and on fake tensors.

Invariant: an implementation runs on fake tensors only where that is asked for, and in addition to the operator's fake
function, whose result counts.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import patched

_OF_TORCH = frozenset(
    {
        "aten", "prim", "prims", "quantized", "quantized_decomposed", "inductor", "c10d", "c10d_functional",
        "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "mkldnn", "onednn", "sparse", "fsdp",
    }
)  # fmt: skip
"""Namespaces in which torch has implementations of its own, for the CPU too."""
UncheckedOperator = Callable[[str, Any, Exception], None]
"""Gets an operator, its implementation, and what that raised on fake tensors."""
_on_failure: UncheckedOperator | None = None
"""Set while implementations run on fake tensors."""
_HAS_LAUNCHES = frozenset({"CUDA", "CPU", "CompositeExplicitAutograd"})
"""Keys of implementations that make an operator's launches."""
_COVERS_CPU = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


@contextlib.contextmanager
def cuda_operators_on_cpu() -> Iterator[None]:
    """Use implementations for CUDA on CPU tensors, until the block ends, where an operator has none for them.

    Those of `torch.library.custom_op(device_types="cuda")`, `torch.library.impl(..., "CUDA")` and `Library.impl`.
    """
    real: Any = torch.library.Library.impl
    added: dict[str, Any] = {}
    implementations: dict[str, Any] = {}
    real_fake: Any = getattr(torch.library.Library, "_register_fake", None)

    @functools.wraps(real)
    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **named: Any) -> Any:
        key, operator = dispatch_key or self.dispatch_key, f"{self.ns}::{_name_of(op_name)}"
        if key in _COVERS_CPU and operator in added:
            added.pop(operator)._destroy()  # noqa: SLF001 - or torch would warn of a second implementation
        result = real(self, op_name, fn, dispatch_key, **named)
        if key in _HAS_LAUNCHES and self.ns not in _OF_TORCH:
            implementations[operator] = fn
        if key == "CUDA" and self.ns not in _OF_TORCH and operator not in added:
            with contextlib.suppress(RuntimeError, AttributeError, TypeError):  # private parts of torch
                _implement_for_cpu(operator, functools.partial(real, fn=fn, **named), added)
        return result

    def register_fake(self: Any, op_name: Any, fn: Any, _stacklevel: int = 1, **named: Any) -> Any:
        operator = f"{self.ns}::{_name_of(op_name)}"

        @functools.wraps(fn)
        def fake(*args: Any, **values: Any) -> Any:
            result = fn(*args, **values)
            if _on_failure is not None and operator in implementations:
                _run(operator, implementations[operator], args, values)
            return result

        return real_fake(self, op_name, fake if callable(fn) else fn, _stacklevel + 1, **named)

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(patched(torch.library.Library, "impl", impl))
            if real_fake is not None:
                stack.enter_context(patched(torch.library.Library, "_register_fake", register_fake))
            yield
    finally:
        for library in added.values():
            library._destroy()  # noqa: SLF001 - or it would outlive the block


@contextlib.contextmanager
def implementations_on_fake_tensors(on_failure: UncheckedOperator) -> Iterator[None]:
    """Also run what an operator does where its fake function is called, until the block ends: for its launches.

    Of operators that were defined within `cuda_operators_on_cpu`.
    """
    global _on_failure  # noqa: PLW0603 - a fake function gets nothing else
    before, _on_failure = _on_failure, on_failure
    try:
        yield
    finally:
        _on_failure = before


def _run(operator: str, implementation: Any, args: tuple[Any, ...], values: dict[str, Any]) -> None:
    failed = _on_failure
    try:
        implementation(*args, **values)
    except Exception as error:  # noqa: BLE001 - user code may raise anything, and does on values of fake tensors
        if failed is not None:
            failed(operator, implementation, error)


def function_of(operator: str, implementation: Any) -> Any:
    """Return the program's function that an operator calls: `custom_op` wraps it."""
    definitions = getattr(getattr(torch, "_library", None), "custom_ops", None)
    definition = getattr(definitions, "OPDEFS", {}).get(operator)
    return getattr(definition, "_init_fn", implementation)


def _name_of(operator: Any) -> str:
    """Without its namespace; `operator` is a name or an overload."""
    return str(getattr(operator, "name", lambda: operator)()).rpartition("::")[2]


def _implement_for_cpu(operator: str, implement: Any, added: dict[str, Any]) -> None:
    has_kernel: Any = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001 - nothing public answers that
    if any(has_kernel(operator, key) for key in _COVERS_CPU):
        return
    namespace, _, name = operator.partition("::")
    make: Any = torch.library.Library
    added[operator] = library = make(namespace, "FRAGMENT")
    implement(library, name, dispatch_key="CPU")
    # A later implementation for the CPU, by the program, must not be refused as a second one.
    getattr(torch.library, "_impls", set()).difference_update(getattr(library, "_op_impls", ()))
