"""Make the tensors that directives and annotations ask for.

Invariant: the values are the same in each run (the caller sets the seed), and integers without a bound are 0 or 1:
valid as an index nearly everywhere.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from types import MemberDescriptorType
from typing import Any

import torch

from fuselight.adapters.torch_api import devices
from fuselight.shared.inputs import TensorSpec

SEED = 0
_UNBOUNDED = 2
_DEPTH = 8
"""Inputs and outputs are shallow; a cycle must end."""


def set_seeds(seed: int = SEED) -> None:
    """Fix every generator that user code commonly draws from."""
    random.seed(seed)
    # For each backend that may initialize later, manual_seed formats the stack, which takes most of its time.
    (torch.default_generator.manual_seed if devices.is_cpu_only() else torch.manual_seed)(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def make_tensor(spec: TensorSpec, device: str | None = None) -> torch.Tensor:
    """Make one tensor. Raises what torch raises, as for a dtype that this torch does not have."""
    dtype: torch.dtype | None = getattr(torch, spec.dtype, None)
    if dtype is None:
        raise TypeError(f"torch {torch.__version__} has no dtype {spec.dtype}")
    if spec.dtype.startswith("float4"):  # two values a byte: no conversion makes one
        return torch.randint(0, 256, spec.shape, dtype=torch.uint8, device=device).view(dtype)
    if dtype.is_complex:
        return torch.randn(spec.shape, dtype=torch.complex64, device=device).to(dtype)
    if dtype.is_floating_point:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        return torch.randn(spec.shape, dtype=wide, device=device).to(dtype)
    bound = _UNBOUNDED if spec.bound is None else spec.bound
    return torch.randint(0, bound, spec.shape, dtype=torch.int64, device=device).to(dtype)


def tensors_in(value: Any, depth: int = 0) -> list[torch.Tensor]:
    """Collect the tensors of nested tuples, lists, dicts and dataclasses; `depth` says how deep `value` lies."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth > _DEPTH:
        return []
    if isinstance(value, dict):
        items: Any = value.values()
    elif isinstance(value, (tuple, list)):
        items = value
    else:
        items = (getattr(value, name, None) for name in getattr(value, "__dataclass_fields__", ()))
    return [tensor for item in items for tensor in tensors_in(item, depth + 1)]


def with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy of nested tuples, lists, dicts and dataclasses with each tensor changed; one object becomes one copy."""
    return _changed(value, change, {}, 0)


def _changed(
    value: Any, change: Callable[[torch.Tensor], torch.Tensor], known: dict[int, Any], depth: int
) -> Any:
    if id(value) in known:
        return known[id(value)]
    result = value
    if isinstance(value, torch.Tensor):
        result = change(value)
    elif depth > _DEPTH:
        return value
    elif (copied := _container(value, lambda item: _changed(item, change, known, depth + 1))) is not None:
        result = copied
    known[id(value)] = result
    return result


def _container(value: Any, changed: Callable[[Any], Any]) -> Any:
    """A copy of a container with its items changed, None for anything else.

    No constructor and no method of the user's runs: a frozen dataclass and a dict that refuses assignments have a copy.
    """
    if isinstance(value, dict):
        base = next(kind for kind in (OrderedDict, defaultdict, dict) if isinstance(value, kind))
        container: Any = base.__new__(type(value))
        if isinstance(value, defaultdict):
            defaultdict.__init__(container, value.default_factory)
        for key, item in dict.items(value):
            base.__setitem__(container, key, changed(item))
    elif isinstance(value, list):
        container = list.__new__(type(value))
        list.extend(container, map(changed, value))
    elif isinstance(value, tuple):
        container = _tuple(type(value), list(map(changed, value)))
    elif is_dataclass(value) and not isinstance(value, type):
        container = _blank(value)
    else:
        return None
    for name, item in list(getattr(value, "__dict__", {}).items()):
        vars(container)[name] = changed(item)
    for member, item in slots_of(value):
        member.__set__(container, changed(item))
    return container


def _blank(value: Any) -> Any:
    try:
        return object.__new__(type(value))
    except TypeError:  # of a base class of C's, such as an exception
        return copy.copy(value)


def _tuple(kind: Any, items: list[Any]) -> Any:
    try:
        return tuple.__new__(kind, items)
    except TypeError:  # a kind of C's, such as torch.Size
        return kind(items)


def slots_of(value: object) -> Iterator[tuple[MemberDescriptorType, Any]]:
    """What an object keeps in `__slots__`, those of its base classes included."""
    for kind in type(value).__mro__:
        if "__slots__" not in vars(kind):
            continue
        for member in list(vars(kind).values()):
            if isinstance(member, MemberDescriptorType):
                try:
                    yield member, member.__get__(value)
                except AttributeError:  # not set
                    continue
