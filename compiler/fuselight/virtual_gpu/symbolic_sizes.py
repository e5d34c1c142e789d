# ruff: noqa: SLF001 - private names are this package's business
"""Gives operators that AOTAutograd traces without decompositions the size expressions that decompositions produce.

A decomposition may express a size differently: group normalization turns `[s, s]` into `[s, s**2 // s]`, and kernels
contain what ATen derives from it later (`s * (s**2 // s)`). Invariant: an operator stays one node of the graph. Only
the expressions of its sizes and strides change, never their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._guards
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.virtual_gpu.partitioner import size_hint
from fuselight.virtual_gpu.retarget import CUDA, Table, on_device, traced_as


def sized_as_decomposed(decompositions: Table) -> dict[Any, Callable[..., Any]]:
    """A table for AOTAutograd that decomposes nothing, and gives results the sizes that `decompositions` would."""
    return {
        operator: _keeping(operator, decompositions)
        for operator in decompositions
        if isinstance(operator, torch._ops.OpOverload) and not _aliases(operator)
    }


def _keeping(operator: Any, decompositions: Table) -> Callable[..., Any]:
    def traced(*args: Any, **named: Any) -> Any:
        mode: Any = proxy_tensor.get_proxy_mode()
        if mode is None or not any(map(_is_symbolic, pytree.tree_leaves((args, named)))):
            return NotImplemented
        with proxy_tensor.disable_proxy_modes_tracing():
            plain = operator(*args, **named)
            value = _resized(plain, _decomposed(operator, args, named, decompositions))
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
            found = decompositions[operator](*there, **named_there)
    except Exception:  # noqa: BLE001 - a decomposition may raise anything; the graph is traced as it is
        return None
    return None if found is NotImplemented else found


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
                made = self._decompositions[func](*args, **(kwargs or {}))
            if made is not NotImplemented:
                return made
        return func(*args, **(kwargs or {}))


def _resized(plain: Any, decomposed: Any) -> Any:
    """`plain` with the sizes of `decomposed`; None where they are the same expressions, or not of the same form."""
    ours, form = pytree.tree_flatten(plain)
    theirs = pytree.tree_leaves(decomposed)
    if len(ours) != len(theirs):
        return None
    made = [_one_resized(one, other) for one, other in zip(ours, theirs, strict=True)]
    if all(new is old for new, old in zip(made, ours, strict=True)):
        return None
    return pytree.tree_unflatten(made, form)


def _one_resized(plain: Any, decomposed: Any) -> Any:
    if not isinstance(plain, torch.Tensor) or not isinstance(decomposed, torch.Tensor):
        return plain
    if _expressions(plain.shape) == _expressions(decomposed.shape):
        return plain
    known = _hints(plain.shape), _hints(plain.stride())
    if None in known[0] or known != (_hints(decomposed.shape), _hints(decomposed.stride())):
        return plain
    return torch.empty_strided(decomposed.shape, decomposed.stride(), dtype=plain.dtype, device=plain.device)


def _expressions(sizes: Any) -> list[Any]:
    return [size.node.expr if isinstance(size, torch.SymInt) else int(size) for size in sizes]


def _hints(sizes: Any) -> list[int | None]:
    return [size_hint(size) for size in sizes]


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, torch.SymInt)


def _aliases(operator: Any) -> bool:
    """Whether an operator writes to what it is given or gives a view of it: then a new tensor is no result of its."""
    schema = operator._schema
    return any(one.alias_info is not None for one in (*schema.arguments, *schema.returns))
