# ruff: noqa: SLF001 - private names are this package's business
"""Operators that consist of others, as `conv2d` of `convolution`, for modes that look at each operator.

Autograd takes them apart before a dispatch mode sees them. In inference mode, which has no autograd, a mode gets them
whole.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def run_parts(
    mode: TorchDispatchMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Any:
    """Run the operators that `func` consists of under the mode that got it; NotImplemented if it is not composite.

    What a mode's own `__enter__` does besides is not done again.
    """
    if not isinstance(func, torch._ops.OpOverload):
        return NotImplemented
    if not _is_composite(func.name()):  # type: ignore[no-untyped-call]
        return NotImplemented
    TorchDispatchMode.__enter__(mode)  # type: ignore[no-untyped-call]
    try:
        return func.decompose(*args, **(kwargs or {}))
    finally:
        TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]


@functools.lru_cache(maxsize=4096)
def _is_composite(name: str) -> bool:
    # Operators of TorchScript, as `prim::device`, are none of the dispatcher's, which raises for them.
    return torch._C._dispatch_has_kernel(name) and torch._C._dispatch_has_kernel_for_dispatch_key(
        name, "CompositeImplicitAutograd"
    )
