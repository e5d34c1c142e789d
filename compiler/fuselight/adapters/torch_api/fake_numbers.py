"""What `.item()` of a tensor without data gives: torch raises, which ends every program that reads one number."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses import fake_impls


@contextlib.contextmanager
def assumed_numbers(on_read: Callable[[], None]) -> Iterator[None]:
    """Inside, a number that the program reads from a fake tensor is 1, or True. `on_read()` is called each time.

    Fake tensors of a trace have symbols, and stay as they are. A torch without the table of operators raises as before.
    """
    table: Any = getattr(fake_impls, "op_implementations_dict", None)
    reads = [torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default]  # noqa: SLF001 - its name
    real = {operator: table[operator] for operator in reads if isinstance(table, dict) and operator in table}

    def assumed(mode: Any, operator: Any, tensor: Any, *others: Any, **named: Any) -> Any:
        if mode.shape_env is not None:
            return real[operator](mode, operator, tensor, *others, **named)
        on_read()
        if tensor.dtype is torch.bool:
            return True
        return 1.0 if tensor.dtype.is_floating_point else 1

    try:
        for operator in real:
            table[operator] = assumed
        yield
    finally:
        for operator, function in real.items():
            table[operator] = function
