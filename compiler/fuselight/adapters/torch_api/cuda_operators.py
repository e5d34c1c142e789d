"""Operators that a program implements for CUDA tensors only, on a machine whose tensors are all on the CPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
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
_COVERS_CPU = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


@contextlib.contextmanager
def cuda_operators_on_cpu() -> Iterator[None]:
    """Use implementations for CUDA on CPU tensors, until the block ends, where an operator has none for them.

    Those of `torch.library.custom_op(device_types="cuda")`, `torch.library.impl(..., "CUDA")` and `Library.impl`.
    """
    real: Any = torch.library.Library.impl
    added: dict[str, Any] = {}

    @functools.wraps(real)
    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **named: Any) -> Any:
        key, operator = dispatch_key or self.dispatch_key, f"{self.ns}::{_name_of(op_name)}"
        if key in _COVERS_CPU and operator in added:
            added.pop(operator)._destroy()  # noqa: SLF001 - or torch would warn of a second implementation
        result = real(self, op_name, fn, dispatch_key, **named)
        if key == "CUDA" and self.ns not in _OF_TORCH and operator not in added:
            with contextlib.suppress(RuntimeError, AttributeError, TypeError):  # private parts of torch
                _implement_for_cpu(operator, functools.partial(real, fn=fn, **named), added)
        return result

    try:
        with patched(torch.library.Library, "impl", impl):
            yield
    finally:
        for library in added.values():
            library._destroy()  # noqa: SLF001 - or it would outlive the block


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
