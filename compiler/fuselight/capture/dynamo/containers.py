"""The values inside a call's arguments, and copies of the arguments with other values inside.

Invariant: no code of the user's runs, and nothing is changed: containers on the way to a new value are copied.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_DICTS = (dict, OrderedDict)


@dataclass(frozen=True)
class Field:
    """The key of a value that an object has under a name: of a dataclass, or of a named tuple."""

    name: str


Path = tuple[Any, ...]
"""Keys that lead from a frame's locals to a value: `("args", 0)`, `("batch", Field("mask"))`."""


def items_of(value: object) -> Iterator[tuple[Any, object]]:
    """The keys and values of a plain container; nothing for any other value."""
    kind = type(value)
    if isinstance(value, _DICTS) and kind in _DICTS:
        yield from value.items()
    elif isinstance(value, (list, tuple)) and kind in (list, tuple):
        yield from enumerate(value)
    elif isinstance(value, tuple) and _is_named(kind):
        yield from ((Field(name), tuple.__getitem__(value, index)) for index, name in enumerate(_names(kind)))
    elif _is_record(value):
        for field in dataclasses.fields(value):  # type: ignore[arg-type]
            if field.name in vars(value):
                yield Field(field.name), vars(value)[field.name]


def is_plain(value: object) -> bool:
    """Whether it is a list, tuple or dict, and no class of the user's."""
    return type(value) in (list, tuple, *_DICTS)


def replaced(value: Any, changes: Mapping[Path, object], path: Path = ()) -> Any:
    """A value with other values at some paths; only the containers on the way are copied."""
    if path in changes:
        return changes[path]
    if not any(other[: len(path)] == path for other in changes):
        return value
    new = {key: replaced(item, changes, (*path, key)) for key, item in items_of(value)}
    kind = type(value)
    if kind in _DICTS:
        return kind(new)
    if isinstance(value, tuple) and _is_named(kind):
        return tuple.__new__(kind, new.values())
    if isinstance(value, (list, tuple)):
        return kind(new.values())
    copied = object.__new__(kind)
    vars(copied).update(vars(value))
    vars(copied).update({key.name: item for key, item in new.items()})
    return copied


def _is_record(value: object) -> bool:
    kind = type(value)
    return dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__ and hasattr(value, "__dict__")


def _is_named(kind: type) -> bool:
    return kind.__bases__ == (tuple,) and isinstance(getattr(kind, "_fields", None), tuple)


def _names(kind: type) -> tuple[str, ...]:
    names: tuple[str, ...] = vars(kind)["_fields"]
    return names
