"""torch's own analysis of the Triton kernels that a program launches."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes


def mutated_arguments(kernel: Any, arguments: dict[str, Any]) -> list[str]:
    """Names of the tensors that a kernel writes; those of all tensors where torch cannot say.

    Compiles the kernel to Triton's first representation, which takes a fraction of a second.
    """
    tensors = [name for name, value in arguments.items() if isinstance(value, torch.Tensor)]
    try:
        from torch._higher_order_ops import triton_kernel_wrap  # noqa: PLC0415 - it loads Inductor

        module: Any = triton_kernel_wrap
        if hasattr(module, "identify_accessed_tensors"):
            accesses = module.identify_accessed_tensors(kernel, dict(arguments), {})
            written = {dependency.name for dependency in accesses.read_writes.writes}
        else:  # torch 2.12 and older
            written = set(module.identify_mutated_tensors(kernel, dict(arguments), {}))
    except Exception:  # noqa: BLE001 - it compiles the kernel, which raises anything
        return tensors
    return [name for name in tensors if name in written]


def without_modes() -> AbstractContextManager[Any]:
    """Have operators of the block reach no dispatch mode, as the one that follows memory without values."""
    modes: AbstractContextManager[Any] = _disable_current_modes()
    return modes
