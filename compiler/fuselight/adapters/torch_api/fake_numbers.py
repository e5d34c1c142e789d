"""What depends on the data of a tensor that has none: numbers that are read, and sizes, as that of `nonzero()`.

torch raises, which ends every program that reads one number. Small tensors that are computed from numbers alone, as
the widths of layers, keep their values.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._mode_utils import no_dispatch

from fuselight.adapters.torch_api.patching import patched

_MAX_KNOWN = 1024
"""Elements of a tensor that keeps its values."""
_aten: Any = torch.ops.aten
_EXACT = ("arange", "linspace", "zeros", "ones", "full")
"""Makers of tensors from numbers."""
_DRAWN: dict[Any, Callable[..., Any]] = {
    _aten.rand.default: lambda size, **_named: torch.full(size, 0.5),
    _aten.randint.default: lambda high, size, **_named: torch.full(size, high // 2),
    _aten.randint.low: lambda low, high, size, **_named: torch.full(size, (low + high) // 2),
}
"""Operators that draw numbers, and the middle of what they draw from."""


@contextlib.contextmanager
def assumed_numbers(
    on_read: Callable[[], None], on_drawn: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Inside, a number that the program reads from a fake tensor is 1, or True. `on_read()` is called each time.

    `torch.equal` of tensors of one shape is a number that is read. One random number, which may decide whether a layer
    runs, is the middle of what it is drawn from: `on_drawn()` is called each time.
    Fake tensors of a trace have symbols, and stay as they are. A torch without the table of operators raises as before.
    """
    table: Any = getattr(fake_impls, "op_implementations_dict", None)
    known = isinstance(table, dict)
    functions = {**_read(table, on_read), **_known_values(table, on_drawn)} if known else {}
    turns_constant = FakeTensorMode.may_turn_const

    def keeps_values(mode: FakeTensorMode, tensor: torch.Tensor) -> bool:
        if mode.shape_env is not None or tensor.numel() > _MAX_KNOWN:
            return turns_constant(mode, tensor)
        return tensor.device.type == "cpu" and tensor.layout is torch.strided and not mode.is_our_fake(tensor)

    FakeTensorMode.cache_clear()  # it makes results again without their values
    with patched(FakeTensorMode, "may_turn_const", keeps_values), _in_table(table, functions):
        yield


def _read(table: dict[Any, Any], on_read: Callable[[], None]) -> dict[Any, Callable[..., Any]]:
    """For the table of operators: those that read a number."""
    equal = _aten.equal.default
    reads = (_aten._local_scalar_dense.default, _aten.item.default)  # noqa: SLF001 - its name
    real = {operator: table[operator] for operator in reads if operator in table}

    def assumed(mode: Any, operator: Any, tensor: Any, *others: Any, **named: Any) -> Any:
        if mode.shape_env is not None:
            return real[operator](mode, operator, tensor, *others, **named)
        on_read()
        if tensor.dtype is torch.bool:
            return True
        return 1.0 if tensor.dtype.is_floating_point else 1

    def assumed_equal(mode: Any, operator: Any, tensor: Any, other: Any) -> bool:
        if tensor.shape != other.shape:
            return False
        if mode.shape_env is not None:
            raise DataDependentOutputException(operator)
        on_read()
        return True

    return {**dict.fromkeys(real, assumed), **({equal: assumed_equal} if equal not in table else {})}


def _known_values(table: dict[Any, Any], on_drawn: Callable[[], None]) -> dict[Any, Callable[..., Any]]:
    """For the table of operators: those that make small tensors whose values are known, or assumed."""

    def exact(mode: Any, operator: Any, *args: Any, **named: Any) -> Any:
        if mode.shape_env is None and _is_of_cpu(named) and _is_small(args):
            with no_dispatch():
                value = operator(*args, **named)
            if value.numel() <= _MAX_KNOWN:
                return mode.fake_tensor_converter.from_real_tensor(mode, value, make_constant=True)
        return (
            table_before[operator](mode, operator, *args, **named)
            if operator in table_before
            else NotImplemented
        )

    def drawn(mode: Any, operator: Any, *args: Any, **named: Any) -> Any:
        if mode.shape_env is not None or not _is_of_cpu(named) or math.prod(args[-1]) != 1:
            return NotImplemented
        on_drawn()
        with no_dispatch():
            value = _DRAWN[operator](*args).to(named.get("dtype"))
        return mode.fake_tensor_converter.from_real_tensor(mode, value, make_constant=True)

    table_before = dict(table)
    makers = [getattr(_aten, name) for name in _EXACT]
    overloads = [getattr(maker, name) for maker in makers for name in maker.overloads() if "out" not in name]
    return {**dict.fromkeys(overloads, exact), **dict.fromkeys(_DRAWN, drawn)}


def _is_of_cpu(named: dict[str, Any]) -> bool:
    return torch.device(named.get("device") or "cpu").type == "cpu"


def _is_small(args: tuple[Any, ...]) -> bool:
    """Whether no size or number among the arguments is large."""
    numbers = [
        number for value in args for number in (value if isinstance(value, (list, tuple)) else [value])
    ]
    return (
        math.prod(max(1, abs(number)) for number in numbers if isinstance(number, (int, float))) <= _MAX_KNOWN
    )


@contextlib.contextmanager
def assumed_sizes(on_size: Callable[[], None], *, least: bool = False) -> Iterator[None]:
    """Inside, a size that depends on data is the largest it can be, with `least` 1. `on_size()` is called each time.

    Of `nonzero`, `masked_select`, `unique` and indexing with a mask; other operators raise as before.
    """
    table: Any = getattr(fake_impls, "op_implementations_dict", None)

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
        _aten.nonzero.default: nonzero,
        _aten.masked_select.default: masked_select,
        _aten._unique2.default: unique,  # noqa: SLF001 - its name
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
