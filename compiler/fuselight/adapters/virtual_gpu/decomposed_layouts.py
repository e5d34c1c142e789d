# ruff: noqa: SLF001 - private names are this package's business
"""Gives operators that AOTAutograd traces without decompositions the sizes and strides that decompositions produce.

A decomposition may express a size differently: group normalization turns `[s, s]` into `[s, s**2 // s]`, and kernels
contain what ATen derives from it later (`s * (s**2 // s)`). Its result may also have other strides: `cat` of one tensor
and an empty one is a copy with the tensor's strides, and a `reshape` after it is a view or a copy by these strides.
Invariant: an operator stays one node of the graph, and the values of its sizes do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._guards
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.adapters.torch_api.inductor.size_hints import size_hint
from fuselight.adapters.virtual_gpu.retarget import CUDA, Table, on_device, traced_as


def laid_out_as_decomposed(decompositions: Table) -> dict[Any, Callable[..., Any]]:
    """A table for AOTAutograd that decomposes nothing, and gives results the layout that `decompositions` would."""
    return {
        operator: _keeping(operator, decompositions)
        for operator in decompositions
        if isinstance(operator, torch._ops.OpOverload) and not _aliases(operator)
    }


def _keeping(operator: Any, decompositions: Table) -> Callable[..., Any]:
    def traced(*args: Any, **named: Any) -> Any:
        mode: Any = proxy_tensor.get_proxy_mode()
        if mode is None or not any(map(_may_differ, pytree.tree_leaves((args, named)))):
            return NotImplemented
        with proxy_tensor.disable_proxy_modes_tracing():
            plain = operator(*args, **named)
            value = _laid_out(plain, _decomposed(operator, args, named, decompositions))
        if value is None:
            return NotImplemented
        return traced_as(value, mode, "call_function", operator, (args, named))

    return traced


def _decomposed(operator: Any, args: Any, named: Any, decompositions: Table) -> Any:
    """The result of the decomposition on the device; None if it has none or cannot run here."""
    fake = torch._guards.detect_fake_mode(pytree.tree_leaves((args, named)))
    if fake is None or fake.shape_env is None:
        return None

    def moved(value: Any) -> Any:
        return (
            CUDA if isinstance(value, torch.device) and value.type == "cpu" else on_device(value, CUDA, fake)
        )

    there, named_there = pytree.tree_map(moved, (args, named))
    try:
        with fake.shape_env.ignore_fresh_unbacked_symbols(), fake, _Decomposing(decompositions):
            outputs = decompositions[operator](*there, **named_there)
    except Exception:  # noqa: BLE001 - a decomposition may raise anything; the graph is traced as it is
        return None
    return None if outputs is NotImplemented else outputs


class _Decomposing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Decomposes what decompositions call."""

    def __init__(self, decompositions: Table) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._decompositions = decompositions

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in self._decompositions:
            with self:
                outputs = self._decompositions[func](*args, **(kwargs or {}))
            if outputs is not NotImplemented:
                return outputs
        return func(*args, **(kwargs or {}))


def _laid_out(plain: Any, decomposed: Any) -> Any:
    """`plain` with sizes and strides of `decomposed`; None where they are the same, or not of the same form."""
    ours, form = pytree.tree_flatten(plain)
    theirs = pytree.tree_leaves(decomposed)
    if len(ours) != len(theirs):
        return None
    outputs = [_one_laid_out(value, other) for value, other in zip(ours, theirs, strict=True)]
    if all(new is old for new, old in zip(outputs, ours, strict=True)):
        return None
    return pytree.tree_unflatten(outputs, form)


def _one_laid_out(plain: Any, decomposed: Any) -> Any:
    if not isinstance(plain, torch.Tensor) or not isinstance(decomposed, torch.Tensor):
        return plain
    if _layout(plain) == _layout(decomposed):
        return plain
    known = _hints(plain.shape)
    if None in known or known != _hints(decomposed.shape):
        return plain
    return torch.empty_strided(decomposed.shape, decomposed.stride(), dtype=plain.dtype, device=plain.device)


def _layout(tensor: torch.Tensor) -> tuple[list[Any], list[Any]]:
    """The expressions of a tensor's sizes, and of the strides that place its elements."""
    strides = [
        stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size_hint(size) != 1
    ]
    return _expressions(tensor.shape), _expressions(strides)


def _expressions(sizes: Any) -> list[Any]:
    return [size.node.expr if isinstance(size, torch.SymInt) else int(size) for size in sizes]


def _hints(sizes: Any) -> list[int | None]:
    return [size_hint(size) for size in sizes]


def _may_differ(value: Any) -> bool:
    """Whether an operator that is given `value` may have another layout than its decomposition.

    Where all sizes are numbers and all inputs contiguous, no decomposition of torch 2.13 differs.
    """
    if not isinstance(value, torch.Tensor):
        return isinstance(value, torch.SymInt)
    if value.layout is not torch.strided:
        return False
    symbolic = any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
    return symbolic or not value.is_contiguous()


def _aliases(operator: Any) -> bool:
    """Whether an operator writes to what it is given or gives a view of it: then a new tensor is no result of its."""
    schema = operator._schema
    return any(argument.alias_info is not None for argument in (*schema.arguments, *schema.returns))
