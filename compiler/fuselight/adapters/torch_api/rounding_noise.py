# ruff: noqa: SLF001 - private names are this package's business
"""Eager mode in which each operator may round the other way: shows what of a call is decided by rounding.

Results of arithmetic change by at most one rounding step of their dtype, ties of an index go to another place, a NaN
has the other sign, and a float that an integer cannot hold becomes another one. A finite result stays finite. What is
multiplied and added up rounds before, too: to the 10 bits of TF32 where a GPU may use it. Inputs are exact, and so are
operators that only copy, choose or count. Source: Monte Carlo arithmetic (D. S. Parker, 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.adapters.torch_api.composite_operators import run_parts
from fuselight.adapters.torch_api.storages import storage_address
from fuselight.shared.codec import read_words

_NAMES = read_words(__file__)
_EXACT = _NAMES["exact"]
"""Operators without rounding, by their name without overload and without the `_` of the form in place."""
_TIED = {"argmax": 1, "argmin": 1, "sort": 1, "topk": 2, "max": 1, "min": 1, "argsort": 1}
"""Operators whose indices depend on which of several equal elements comes first, with the position of `dim`."""


_PRODUCTS = _NAMES["products"]
"""Operators that multiply and add up: they round what they are given by as much as they round what they return."""
_TF32 = 2.0**-11
"""Half of the last of 10 bits."""
_MAX_GAPS = 8
"""A factor keeps its strides if the memory from its first to its last element is at most so many times its size."""
_CASTS = frozenset({"copy", "to_copy"})
_UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_FILL = 97


class WrittenMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, memory that an operator leaves unwritten holds other values than in a plain run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Run an operator, and write to what it leaves unwritten."""
        result = func(*args, **(kwargs or {}))
        if str(func.overloadpacket.__name__) in _UNWRITTEN and isinstance(result, torch.Tensor):
            result.fill_(_FILL)
        return result


class RoundingNoise(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, each operator's result may be one rounding step away."""

    def __init__(self, seed: int) -> None:
        """`seed` decides which results go up and which down."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._generators: dict[torch.device, torch.Generator] = {}
        self._seed = seed

    def __torch_dispatch__(self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Run an operator, and change its result within rounding."""
        kwargs = kwargs or {}
        parts = run_parts(self, func, args, kwargs)
        if parts is not NotImplemented:
            return parts
        name = str(func.overloadpacket.__name__).strip("_")
        if name in _TIED and self._seed % 2:
            reversed_result = _with_ties_reversed(func, args, kwargs, _TIED[name])
            if reversed_result is not None:
                return reversed_result
        if multiplies(func):
            args = pytree.tree_map_only(torch.Tensor, self._rounded_factor, args)
        result = func(*args, **kwargs)
        if name in _CASTS:
            _change_undefined(result, args[1] if name == "copy" else args[0], self._seed)
        if name in _EXACT or func.namespace == "prim" or torch.Tag.nondeterministic_seeded in func.tags:
            return result
        if not func._schema.is_mutable and _shares_memory(result, (args, kwargs)):
            return result  # a view, whatever its schema says: a copy would not show changes of it
        changed = pytree.tree_map_only(torch.Tensor, self._moved, result)
        return _in_place(func, result, changed)

    def _rounded_factor(self, tensor: torch.Tensor) -> torch.Tensor:
        is_tf32 = rounds_to_tf32(tensor)
        extent = 1 + sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        if tensor.is_contiguous() or extent > _MAX_GAPS * tensor.numel():
            return self._rounded(tensor, is_tf32=is_tf32)
        # The mask of an attention, a part of a padded tensor, has to keep its strides: the operator refuses others.
        memory = tensor.as_strided((extent,), (1,))
        return self._rounded(memory, is_tf32=is_tf32).as_strided(tensor.shape, tensor.stride())

    def _rounded(self, tensor: torch.Tensor, *, is_tf32: bool) -> torch.Tensor:
        if (
            is_tf32 and self._seed == 0
        ):  # kernels of Triton cut the bits off, which adds up more than rounding
            return as_tf32(tensor)
        return self._moved(tensor, _TF32 if is_tf32 else None)

    def _moved(self, tensor: torch.Tensor, step: float | None = None) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.numel() == 0 or tensor.element_size() < 2:  # noqa: PLR2004
            return tensor
        generator = self._generators.setdefault(
            tensor.device, torch.Generator(tensor.device).manual_seed(self._seed)
        )
        steps = torch.randint(-1, 2, tensor.shape, generator=generator, device=tensor.device)
        moved = tensor * (1 + steps.to(torch.float64) * (step or torch.finfo(tensor.dtype).eps))
        moved = moved.to(tensor.dtype)
        finite = torch.where(
            moved.isfinite(), moved, tensor
        )  # the largest number does not overflow by rounding
        return torch.where(tensor.isnan(), -tensor, finite)


def _shares_memory(result: Any, given: Any) -> bool:
    """Whether a tensor of a result has the memory of an argument."""
    addresses = {storage_address(tensor) for tensor in pytree.tree_leaves(given)} - {0}
    return any(storage_address(tensor) in addresses for tensor in pytree.tree_leaves(result))


def as_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 tensor without the bits of its fraction that TF32 lacks."""
    return (tensor.contiguous().view(torch.int32) & ~((1 << 13) - 1)).view(torch.float32)


def rounds_to_tf32(factor: torch.Tensor) -> bool:
    """Whether an operator that multiplies may round this factor to TF32."""
    backends: Any = torch.backends
    if factor.dtype is not torch.float32 or factor.device.type != "cuda":
        return False
    try:
        return bool(backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32)
    except RuntimeError:  # the program uses torch's newer settings (2.9 and later)
        return "tf32" in (backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision)


def multiplies(func: Any) -> bool:
    """Whether an operator multiplies and adds up, so that it may round its factors."""
    return isinstance(func, torch._ops.OpOverload) and str(func.overloadpacket.__name__) in _PRODUCTS


def _change_undefined(result: Any, source: Any, seed: int) -> None:
    """Give an integer another value where it was a float that it cannot hold: each machine has its own."""
    if not isinstance(result, torch.Tensor) or not isinstance(source, torch.Tensor):
        return
    if not source.is_floating_point() or result.is_floating_point() or result.is_complex():
        return
    if result.dtype is torch.bool:
        return
    limits, wide = torch.iinfo(result.dtype), source.detach().double()
    is_lost = ~((wide > limits.min - 1) & (wide < limits.max + 1))
    if bool(is_lost.any()):
        result.masked_fill_(is_lost.expand_as(result), limits.max if seed % 2 else limits.min)


def _in_place(func: Any, result: Any, changed: Any) -> Any:
    """What an operator returns: one that writes to its arguments has to return them."""
    if not func._schema.is_mutable:
        is_view = any(argument.alias_info is not None for argument in func._schema.returns)
        return result if is_view else changed
    for tensor, value in zip(pytree.tree_leaves(result), pytree.tree_leaves(changed), strict=True):
        if isinstance(tensor, torch.Tensor) and value is not tensor:
            tensor.copy_(value)
    return result


def _with_ties_reversed(func: Callable[..., Any], args: Sequence[Any], kwargs: Any, place: int) -> Any:
    """The result in which equal elements come in the opposite order; None for a form without a dimension."""
    tensor = args[0]
    dim = args[place] if len(args) > place else kwargs.get("dim")
    if not isinstance(tensor, torch.Tensor) or not isinstance(dim, int) or isinstance(dim, bool):
        return None
    if tensor.dim() == 0 or not -tensor.dim() <= dim < tensor.dim():
        return None
    last = tensor.shape[dim] - 1
    result = func(tensor.flip(dim), *args[1:], **kwargs)
    return pytree.tree_map_only(
        torch.Tensor, lambda part: last - part if part.dtype is torch.int64 else part, result
    )
