"""What Dynamo knows of a value while it traces, read from its VariableTrackers.

Invariant: reading realizes no lazy variable and asks no question that adds a guard: sizes come as they are, and the
memory format only where Dynamo has computed it. Of a tensor that nothing has used yet, the object itself is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import variables

Seen = tuple[Any, ...]
"""A kind and what tells two values of it apart; hashable. `None` stands for a value without a fact."""

_ITEMS = 4
_DEPTH = 3
_CONSTANT = 60


def resolved(variable: Any) -> Any:
    """Return the variable that a lazy one stands for, the lazy one itself if nothing has used it yet."""
    if isinstance(variable, variables.LazyVariableTracker) and variable.is_realized():
        return variable.unwrap()
    return variable


def is_lazy(variable: Any) -> bool:
    """Whether nothing has used this value yet, so that Dynamo has not looked at it."""
    return isinstance(variable, variables.LazyVariableTracker)


def stored_value(variable: Any, name: str) -> Seen | None:
    """Return the number or tensor that the object of a variable stores under a name, as `seen`; None for others."""
    variable = resolved(variable)
    owner = variable.peek_value() if _can_peek(variable) else getattr(variable, "value", None)
    kind: Any = type(owner)
    if kind.__getattribute__ is not object.__getattribute__ or any(
        _computes(base, name) for base in kind.__mro__
    ):
        return None
    held = getattr(owner, "__dict__", None)
    if type(held) is not dict:
        return None
    if name in held:
        number = held[name]
        return ("constant", repr(number)) if type(number) in (int, float, bool) else _held_tensor(number)
    is_module = getattr(kind, "__getattr__", None) is torch.nn.Module.__getattr__
    registered = (held.get("_parameters"), held.get("_buffers")) if is_module else ()
    return next((_held_tensor(each[name]) for each in registered if each and name in each), None)


def waiting_tensor(variable: Any) -> Seen | None:
    """Return the tensor of a lazy variable that nothing has used, as `seen`; None for anything else."""
    variable = resolved(variable)
    return _held_tensor(variable.peek_value()) if _can_peek(variable) else None


def _can_peek(variable: Any) -> bool:
    return is_lazy(variable) and hasattr(type(variable), "peek_value")


def _held_tensor(value: Any) -> Seen | None:
    is_plain = isinstance(value, torch.Tensor) and not value.is_nested  # a nested tensor has no sizes
    return _tensor_value(value, None) if is_plain else None


def _tensor_value(value: torch.Tensor, formats: Any) -> Seen:
    sizes = tuple(size if type(size) is int else str(size) for size in value.shape)
    return ("tensor", value.dtype, sizes, value.device, formats, value.requires_grad)


def _computes(kind: type, name: str) -> bool:
    """Whether a class has a descriptor of the name, which comes before what an object stores."""
    return hasattr(type(vars(kind).get(name)), "__set__")


def seen(variable: Any, depth: int = 0) -> Seen | None:
    """Return what a variable holds: `("tensor", dtype, sizes, device, memory formats, requires_grad)`, ...

    `("number", text)`, `("constant", text)`, `("module", class name)`, `("container", type, items, length)`, where
    `items` are of the same form and at most `_ITEMS`.
    """
    reader = _reader(type(variable))  # type: ignore[arg-type] # classes are hashable
    return None if reader is None else reader(variable, depth)


@functools.lru_cache(maxsize=1024)
def _reader(kind: type) -> Callable[[Any, int], Seen | None] | None:
    """Return the reader of a class of variables; most instructions ask."""
    return next((read for bases, read in _READERS if bases and issubclass(kind, bases)), None)


def _tensor(variable: Any, _depth: int) -> Seen | None:
    value = variable.as_proxy().node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return None
    return _tensor_value(value, variable.is_contiguous)


def _unspecialized(variable: Any, _depth: int) -> Seen | None:
    value = variable.as_proxy().node.meta.get("example_value")
    return ("number", str(getattr(value, "dtype", "number")).removeprefix("torch."))


def _symbol(variable: Any, _depth: int) -> Seen | None:
    return ("number", str(variable.sym_num))


def _constant(variable: Any, _depth: int) -> Seen | None:
    text = repr(variable.value)
    return ("constant", text if len(text) <= _CONSTANT else f"{text[: _CONSTANT - 3]}...")


def _module(variable: Any, _depth: int) -> Seen | None:
    kind = getattr(variable, "module_type", None) or type(variable.value)
    return ("module", kind.__name__)


def _sequence(variable: Any, depth: int) -> Seen | None:
    try:
        kind = variable.python_type()
    except NotImplementedError:  # its type is not known to Dynamo: there is no fact
        return None
    return _container(kind.__name__, variable.items, depth)


def _mapping(variable: Any, depth: int) -> Seen | None:
    return _container("dict", list(variable.items.values()), depth)


def _container(name: str, items: Any, depth: int) -> Seen:
    shown = [] if depth >= _DEPTH else [seen(resolved(item), depth + 1) for item in items[:_ITEMS]]
    return ("container", name, tuple(shown), len(items))


def _classes(*names: str) -> tuple[type, ...]:
    """Return those of these classes that this torch has."""
    places = (variables, variables.tensor, variables.lists, variables.dicts, variables.nn_module)
    results = (getattr(place, name, None) for name in names for place in places)
    return tuple(kind for kind in results if isinstance(kind, type))


# The first entry that fits wins: some of these are subclasses of TensorVariable.
_READERS: tuple[tuple[tuple[type, ...], Callable[[Any, int], Seen | None]], ...] = (
    (_classes("UnspecializedPythonVariable", "FakeItemVariable"), _unspecialized),
    (_classes("TensorVariable"), _tensor),
    (_classes("SymNodeVariable"), _symbol),
    (_classes("ConstantVariable"), _constant),
    (_classes("NNModuleVariable", "UnspecializedNNModuleVariable"), _module),
    (_classes("RangeVariable", "ListIteratorVariable"), lambda _variable, _depth: None),
    (_classes("BaseListVariable"), _sequence),
    (_classes("ConstDictVariable"), _mapping),
)
