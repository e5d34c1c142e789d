"""The estimated time of each operator of eager mode, by a dispatch mode.

Invariant: no value is read, so that fake tensors are enough.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from fuselight.adapters.torch_api.composite_operators import run_parts
from fuselight.shared.devices.estimate import estimate
from fuselight.shared.report import Device


class OperatorCount(Protocol):
    """Hears of each operator that computes a tensor."""

    def __call__(self, us: float, *, multiplies: bool) -> None:
        """`us`: its estimated microseconds; `multiplies`: whether it multiplies matrices, or is an attention."""


class OperatorWork(TorchDispatchMode):
    """While entered, reports each operator that computes a tensor."""

    supports_higher_order_operators = True

    def __init__(self, device: Device, count: OperatorCount) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device, self._count = device, count

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and report it."""
        parts = run_parts(self, func, args, kwargs)
        if parts is not NotImplemented:
            return parts
        result = func(*args, **(kwargs or {}))
        computed = [item for item in tree_leaves(result) if isinstance(item, torch.Tensor)]
        if computed and not _is_view(func):
            given = [item for item in tree_leaves([args, kwargs]) if isinstance(item, torch.Tensor)]
            flops = _flops(func, args, kwargs or {}, result)
            size = sum(tensor.numel() * tensor.element_size() for tensor in (*given, *computed))
            known = estimate(self._device, size, flops or None, str(computed[0].dtype))
            self._count(known[0] if known is not None else 0.0, multiplies=bool(flops))
        return result


def _is_view(func: Any) -> bool:
    returns = getattr(getattr(func, "_schema", None), "returns", ())
    return bool(returns) and all(value.alias_info is not None for value in returns)


def _flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    count = flop_registry.get(getattr(func, "overloadpacket", None))
    try:
        if count is not None:
            return int(count(*args, **kwargs, out_val=result))
    except Exception:  # noqa: BLE001 - torch's counters take some overloads only
        return 0
    if "scaled_dot_product" in str(func) and len(args) > 1:  # that of the CPU has no counter
        return int(4 * args[0].numel() * args[1].shape[-2])
    return 0
