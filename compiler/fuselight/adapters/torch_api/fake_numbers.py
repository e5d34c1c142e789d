"""What depends on the data of a tensor that has none: numbers that are read, and sizes, as that of `nonzero()`.

torch raises, which ends every program that reads one number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import DataDependentOutputException


@contextlib.contextmanager
def assumed_numbers(on_read: Callable[[], None]) -> Iterator[None]:
    """Inside, a number that the program reads from a fake tensor is 1, or True. `on_read()` is called each time.

    `torch.equal` of tensors of one shape is a number that is read.
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

    equal = torch.ops.aten.equal.default

    def assumed_equal(mode: Any, operator: Any, tensor: Any, other: Any) -> bool:
        if tensor.shape != other.shape:
            return False
        if mode.shape_env is not None:
            raise DataDependentOutputException(operator)
        on_read()
        return True

    functions: dict[Any, Callable[..., Any]] = dict.fromkeys(real, assumed)
    if isinstance(table, dict) and equal not in table:
        functions[equal] = assumed_equal
    with _in_table(table, functions):
        yield


@contextlib.contextmanager
def assumed_sizes(on_size: Callable[[], None], *, least: bool = False) -> Iterator[None]:
    """Inside, a size that depends on data is the largest it can be, with `least` 1. `on_size()` is called each time.

    Of `nonzero`, `masked_select`, `unique` and indexing with a mask; other operators raise as before.
    """
    table: Any = getattr(fake_impls, "op_implementations_dict", None)
    aten: Any = torch.ops.aten

    def of(most: int) -> int:
        on_size()
        return min(most, 1) if least else most

    def nonzero(_mode: Any, _operator: Any, tensor: Any) -> Any:
        count = of(tensor.numel())
        return tensor.new_empty_strided((count, tensor.dim()), (1, count), dtype=torch.int64)

    def masked_select(_mode: Any, _operator: Any, tensor: Any, mask: Any) -> Any:
        broadcast: Any = torch.broadcast_shapes
        return tensor.new_empty((of(broadcast(tensor.shape, mask.shape).numel()),))

    def unique(_mode: Any, _operator: Any, tensor: Any, *_flags: Any, **_named: Any) -> Any:
        count = of(tensor.numel())
        indices = (
            tensor.new_empty(tensor.shape, dtype=torch.int64),
            tensor.new_empty((count,), dtype=torch.int64),
        )
        return tensor.new_empty((count,)), *indices

    wanted: dict[Any, Callable[..., Any]] = {
        aten.nonzero.default: nonzero,
        aten.masked_select.default: masked_select,
        aten._unique2.default: unique,  # noqa: SLF001 - its name
    }

    def without_symbols(operator: Any, of_data: Callable[..., Any]) -> Callable[..., Any]:
        real = table[operator]

        def chosen(mode: Any, *args: Any, **named: Any) -> Any:
            return (of_data if mode.shape_env is None else real)(mode, *args, **named)

        return chosen

    known = isinstance(table, dict)
    with _in_table(
        table,
        {
            operator: without_symbols(operator, of_data)
            for operator, of_data in wanted.items()
            if known and operator in table
        },
    ):
        yield


@contextlib.contextmanager
def _in_table(table: Any, functions: dict[Any, Callable[..., Any]]) -> Iterator[None]:
    """Have a table of operators other functions until the block ends."""
    real = {operator: table[operator] for operator in functions if operator in table}
    try:
        for operator, function in functions.items():
            table[operator] = function
        yield
    finally:
        for operator in functions:
            if operator in real:
                table[operator] = real[operator]
            else:
                table.pop(operator, None)
