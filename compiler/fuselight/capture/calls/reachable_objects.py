"""The objects that a call of a compiled function can reach: those whose method torch compiled separately; their state.

Invariant: it reads attributes, elements and variables, and runs no code of the user's.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, cast

import torch

from fuselight.capture.dynamo import stacks
from fuselight.shared.own_attributes import own_attributes

Place = tuple[str, int]
"""A file and the `def` line of a function in it."""
_MAX_OBJECTS = 50_000
_MAX_WALKED = 200_000
"""Objects read for the calls of a trial, about a second: later calls take those that are known."""
_LEAVES = (torch.Tensor, str, bytes, int, float, complex, bool, type(None), type, ModuleType)


def objects_with_method(
    method: Place, function: Any, given: Iterable[Any], seen: set[int] | None = None
) -> Iterator[Any]:
    """The objects with that method among `given`, the variables that `function` names, and what these hold.

    `seen` gets the numbers of all objects that are read.
    """
    for value in reached_objects(function, given, seen):
        if _has_method(cast("Hashable", type(value)), method):
            yield value


def reached_objects(function: Any, given: Iterable[Any], seen: set[int] | None = None) -> Iterator[Any]:
    """The objects among `given`, the variables that `function` names, and what these hold; tensors, but no numbers.

    `seen` gets the numbers of all objects that are read.
    """
    pending = [*given, *_variables_of(function)]
    seen = set() if seen is None else seen
    while pending and len(seen) < _MAX_OBJECTS:
        value = pending.pop()
        is_tensor = issubclass(type(value), torch.Tensor)  # `isinstance` reads an attribute
        if (issubclass(type(value), _LEAVES) and not is_tensor) or id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        pending += [] if is_tensor else _held_by(value)


class MethodOwners:
    """The objects with a method, which calls of the same function reach.

    Its own variables are walked in each call, as the program may have replaced an object, until `_MAX_WALKED` are read.
    """

    def __init__(self) -> None:
        self._walked = 0
        self._known: dict[tuple[Place, int, int], tuple[Any, Any, list[Any]]] = {}
        """Also what the numbers are of, which keeps both alive."""

    def of(self, method: Place, function: Any, owner: Any, arguments: Iterable[Any]) -> list[Any]:
        """The objects that a function, its owner and the arguments of one call reach, each once."""
        key = (method, id(function), id(owner))
        if key not in self._known or self._walked < _MAX_WALKED:
            walked: set[int] = set()
            matches = list(objects_with_method(method, function, (owner,), walked))
            self._known[key] = (function, owner, matches)
            self._walked += len(walked)
        known = self._known[key][2]
        seen = set(map(id, known))
        return [
            *known,
            *(item for item in objects_with_method(method, None, arguments) if id(item) not in seen),
        ]


def globals_of(path: str, function: Any) -> Mapping[str, Any]:
    """The global variables of a file: of the function's own, or of a module that is imported."""
    code = getattr(function, "__code__", None)
    if code is not None and stacks.absolute(code.co_filename) == path:
        own: dict[str, Any] = function.__globals__
        return own
    modules = (module for module in tuple(sys.modules.values()) if isinstance(module, ModuleType))
    return next((vars(module) for module in modules if vars(module).get("__file__") == path), {})


def _variables_of(function: Any) -> Iterator[Any]:
    """The values of the global and the closure variables that a function names."""
    code = getattr(function, "__code__", None)
    for name in code.co_names if code is not None else ():
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # its variable has no value yet
            continue


def _held_by(value: Any) -> list[Any]:
    kind = type(value)
    if issubclass(kind, Mapping):
        return list(value.values()) if kind.__module__ in _PLAIN_MODULES else []
    for plain in (list, tuple, set, frozenset):
        if issubclass(kind, plain):
            return list(plain.__iter__(value))  # a subclass may have an iterator of its own
    if kind is MethodType:
        return [value.__self__]
    if kind is FunctionType:
        return list(_variables_of(value)) if stacks.is_shown(value.__code__.co_filename) else []
    return list(own_attributes(value).values())


def state_of(named: Mapping[str, Any], tensors: list[torch.Tensor]) -> dict[str, str]:
    """What the values hold, in words by name: keys, lengths, numbers and texts; of tensors and floats the type alone.

    Two runs that differ but for rounding have the same words. Objects of libraries are not read, except for modules.
    `tensors` gets the tensors that have names, in the order of the words.
    """
    words: dict[str, str] = {}
    pending = list(named.items())
    seen: set[int] = set()
    while pending and len(words) < _MAX_WORDS:
        name, value = pending.pop()
        if isinstance(value, torch.Tensor):
            words[name] = TENSOR
            tensors.append(value)
        elif type(value) in _NUMBERS:
            words[name] = "a float" if type(value) in (float, complex) else repr(value)[:_LONGEST]
        elif id(value) not in seen:
            seen.add(id(value))
            pending += _named_parts(name, value, words)
    return words


def _named_parts(name: str, value: Any, words: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """What a value holds, by name; its keys and its length become words."""
    if isinstance(value, dict):
        keys = [_key_words(key) for key in dict.keys(value)]
        words[KEYS + name] = f"{len(keys)}: {', '.join(keys)}"[:_LONGEST]
        yield from zip((f"{name}[{key}]" for key in keys), dict.values(value), strict=True)
    elif isinstance(value, (set, frozenset)):
        words[KEYS + name] = f"{len(value)}: {', '.join(sorted(map(_key_words, value)))}"[:_LONGEST]
    elif isinstance(value, (list, tuple, deque)):
        words[LENGTH + name] = str(len(value))
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, torch.nn.Module) or _is_users_object(value):
        is_users, held = _is_users_object(value), dict(getattr(value, "__dict__", {}))
        attributes = {key: item for key, item in held.items() if is_users or not key.startswith("_")}
        children = held.get("_modules") if isinstance(value, torch.nn.Module) else None
        attributes.update(children or {})
        yield from ((f"{name}.{key}", item) for key, item in attributes.items() if key not in _MODULES_OWN)


def _key_words(key: Any) -> str:
    """A key as text; an object by its type, as its text may hold its address."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_key_words, key))})"
    return repr(key) if type(key) in _NUMBERS else type(key).__name__


def _is_users_object(value: Any) -> bool:
    if isinstance(value, (type, ModuleType, FunctionType)):
        return False
    module = sys.modules.get(str(getattr(type(value), "__module__", "")))
    path = getattr(module, "__file__", None)
    return isinstance(value, SimpleNamespace) or (isinstance(path, str) and stacks.is_shown(path))


TENSOR = "a tensor"
KEYS, LENGTH = "the keys of ", "the length of "
_MODULES_OWN = frozenset(vars(torch.nn.Module()))
_NUMBERS = (str, bytes, int, float, complex, bool, type(None))
_MAX_WORDS = 4000
_LONGEST = 200

_PLAIN_MODULES = frozenset({"builtins", "collections"})
"""Where the mappings come from whose `values` is Python's own."""


@functools.lru_cache(maxsize=4096)
def _has_method(kind: Hashable, method: Place) -> bool:
    """Whether a class or one of its bases defines the method."""
    return any(
        (code := getattr(getattr(value, "__func__", value), "__code__", None)) is not None
        and (place := stacks.def_location(code)) is not None
        and (place.path, place.line) == method
        for base in getattr(kind, "__mro__", ())
        for value in vars(base).values()
    )
