"""Lookups of dicts and sets by an object, as a member of an enum, which a trace makes and torch has no guard on.

torch has guards on the keys of a dict and on what it holds, and takes an argument that is one of the keys for that key:
there is none on the argument, and compiled code keeps the entry of the compile. Invariant: no code of the user's runs:
values are read as torch's models hold them.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.torch_api.dynamo import frames

_MAX_ENTRIES = 2000
_PLAIN = (bool, int, float, str, type(None))
_ABSENT = object()
_Reference = Callable[[], object]


@dataclass(frozen=True)
class KeyLookup:
    """One lookup by an object of the program. No object lives longer for it."""

    key: _Reference
    """The object of the compile."""
    entries: tuple[tuple[_Reference, object], ...]
    """Each key, and what stands for that which torch's model has for it: for a set, that it is there."""
    stack: tuple[Any, ...]
    """The traced frames, outermost first, as `traceback.FrameSummary`."""

    def finds_another(self, key: object) -> bool:
        """Whether another object is looked up, for which there is something else."""
        known = self.key()
        return known is not None and key is not known and self._entry(key) != self._entry(known)

    def _entry(self, key: object) -> object:
        return next((entry for known, entry in self.entries if known() is key), _ABSENT)


def read_lookup(container: Any, key: Any) -> KeyLookup | None:
    """A lookup in torch's model of a dict or a set; None where the key is a plain value, or unknown."""
    items, value = getattr(container, "items", None), _held(key)
    if type(value) in _PLAIN or not isinstance(items, dict) or len(items) > _MAX_ENTRIES:
        return None
    reference = _reference(value)
    if reference is None:
        return None
    is_set = "Set" in type(container).__name__
    entries = tuple(
        (known, True if is_set else _token(item))
        for tracker, item in items.items()
        if (known := _reference(_held(getattr(tracker, "vt", None)))) is not None
    )
    return KeyLookup(reference, entries, tuple(frames.user_stack()))


def lookup_methods() -> list[tuple[Any, str]]:
    """The methods of torch's models with which a trace looks a key up, of those that this torch has."""
    methods = []
    for module, owner in (
        ("dicts", "ConstDictVariable"),
        ("sets", "SetVariable"),
        ("sets", "BaseSetVariable"),
    ):
        with contextlib.suppress(ImportError):
            model = getattr(importlib.import_module(f"torch._dynamo.variables.{module}"), owner, None)
            names = ("getitem_const_raise_exception_if_absent", "maybe_getitem_const", "__contains__")
            methods += [(model, name) for name in names if name in vars(model or object)]
    return methods


def _held(variable: Any) -> object:
    """The object that a model stands for; `_ABSENT` where it has none, or has not looked at it yet."""
    cache = getattr(variable, "_cache", None)  # of a model that is lazy
    if cache is not None:
        variable = getattr(cache, "vt", None) or getattr(cache, "value", _ABSENT)
        if not hasattr(variable, "source"):
            return variable
    return getattr(variable, "value", _ABSENT)


def _reference(value: object) -> _Reference | None:
    """A reference to an object that may be a key; None for one that torch has not looked at, or that allows none."""
    if isinstance(value, enum.Enum):
        return lambda: value  # which lives as long as its class
    with contextlib.suppress(TypeError):
        return None if value is _ABSENT else weakref.ref(value)
    return None


def _token(variable: Any) -> object:
    """What stands for the value of a model: a number or a text itself, else which object it is."""
    held = _held(variable)
    if held is _ABSENT:
        held = getattr(variable, "fn", variable)
    return (type(held), held) if type(held) in _PLAIN else id(held)
