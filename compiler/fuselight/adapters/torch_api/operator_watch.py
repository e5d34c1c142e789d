# ruff: noqa: SLF001 - private names are this package's business
"""Operators of eager mode as they run: what each is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.adapters.torch_api.composite_operators import run_parts


@dataclass(frozen=True)
class WatchedOperator:
    """One operator that has run. Collections are flat."""

    name: str
    """Without namespace and overload, and without the `_` of the form in place: `div`."""
    arguments: tuple[Any, ...]
    """Tensors that the operator changes are as it left them."""
    operands: tuple[Any, ...]
    """The same as they were before."""
    results: tuple[Any, ...]


class OperatorWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, `after` gets each operator that has run."""

    def __init__(self, after: Callable[[WatchedOperator], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._after = after

    def __torch_dispatch__(self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        parts = run_parts(self, func, args, kwargs)
        if parts is not NotImplemented:
            return parts
        given = tuple(pytree.tree_leaves((args, kwargs or {})))
        before = tuple(map(_copied, given)) if func._schema.is_mutable else given
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket.__name__).strip("_")
        self._after(WatchedOperator(name, given, before, tuple(pytree.tree_leaves(result))))
        return result


def _copied(leaf: Any) -> Any:
    is_plain = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and not leaf.is_meta
    return leaf.detach().clone() if is_plain else leaf
