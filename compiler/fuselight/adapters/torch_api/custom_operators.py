"""Operators of the user's own, and whether they do what they are declared to do.

`torch.library.opcheck` calls an operator and compares: what it writes to and returns with its schema, and what its fake
form (`register_fake`) returns with the real one. Invariant: no call raises because of a check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_OF_TORCH = frozenset(
    {
        "aten",
        "c10d",
        "debugprims",
        "higher_order",
        "inductor",
        "mkl",
        "mkldnn",
        "onednn",
        "prim",
        "prims",
        "profiler",
    }
)
_CHECKS = ("test_schema", "test_faketensor")
KEPT_MEMORY = "kept_memory"
"""A check of ours: each call has to return memory of its own."""
_MAX_WORDS = 200
_IMPLEMENTATION = re.compile(r" \(with implementation in .*?\)(?=:)")
"""In a message of torch's, with the path of its own file."""


class CustomOperatorCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, the first call of each custom operator is kept, with copies of its arguments as they were."""

    def __init__(self, where: Callable[[], Any]) -> None:
        """`where`: gives the place of the code that runs."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[Any, tuple[Sequence[Any], dict[str, Any]]] = {}
        self.stacks: dict[Any, Any] = {}
        """Where each is called first, as `where` says."""
        self._where = where

    def __torch_dispatch__(self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Keep and run an operator."""
        is_own = func.namespace not in _OF_TORCH and not func.namespace.startswith("_")
        if is_own and func not in self.calls:
            self.stacks[func] = self._where()
            self.calls[func] = pytree.tree_map_only(
                torch.Tensor, lambda tensor: tensor.detach().clone(), (args, dict(kwargs or {}))
            )
        return func(*args, **(kwargs or {}))


def declaration_fault(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    """The first check of opcheck's that an operator fails, and its message; None if it passes or cannot be checked."""
    opcheck = getattr(torch.library, "opcheck", None)
    if opcheck is None:  # before 2.4
        return None
    for check in _CHECKS:
        try:
            results = opcheck(operator, args, kwargs, test_utils=check, raise_exception=False)
        except Exception:  # noqa: BLE001, S112 - an operator may refuse the calls of a check
            continue
        outcome = results.get(check)
        if isinstance(outcome, Exception):
            return check, _first_sentence(outcome)
    return _kept_memory(operator, args, kwargs)


def _kept_memory(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    """The fault of an operator two calls of which return the same memory, which is none of its arguments."""
    try:
        first, second = operator(*args, **kwargs), operator(*args, **kwargs)
    except Exception:  # noqa: BLE001 - as above
        return None
    of_arguments = _addresses((args, kwargs))
    if (_addresses(first) & _addresses(second)) - of_arguments:
        return KEPT_MEMORY, "two calls return the same memory, which compiled code frees and uses again"
    return None


def _addresses(value: Any) -> set[int]:
    return {
        tensor.untyped_storage().data_ptr()
        for tensor in pytree.tree_leaves(value)
        if type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.numel()
    }


def _first_sentence(error: Exception) -> str:
    """What is wrong, without how a check was called."""
    inner = error.__cause__ or error
    text = _IMPLEMENTATION.sub("", " ".join(str(inner).split()))
    return text[:_MAX_WORDS] or type(inner).__name__
