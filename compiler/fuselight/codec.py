"""Frozen dataclasses to JSON and back, for the wire and for stored reports.

Invariant: `decode(T, encode(x)) == x` for every message and report type, and decoding is tolerant: a key that
the type does not know is skipped (a newer writer), a missing one takes the field's default (an older writer).
Only data comes out: no type is named in the JSON, so a damaged or hostile file can build these types and
nothing else.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import Any, TypeVar, Union

T = TypeVar("T")
_SHOWN = 60  # characters of an unfit value that an error quotes


class DecodeError(ValueError):
    """The data does not fit the type. The message names the path of the value, as in `frames[3].line`."""


def encode(value: Any) -> Any:
    """Turn a dataclass tree into JSON values. Fields that hold their default are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            default = field.default
            if default is dataclasses.MISSING or type(item) is not type(default) or item != default:
                out[field.name] = encode(item)
        return out
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(kind: type[T], data: Any) -> T:
    """Build a `kind` from JSON values. Raises DecodeError."""
    result = _decode(kind, data, "")
    return typing.cast("T", result)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, data: Any, where: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of type
    if kind is Any:
        return data
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, where)
    if origin is typing.Literal:
        if data in typing.get_args(kind):
            return data
        raise _misfit(where, f"one of {typing.get_args(kind)}", data)
    if origin is tuple:
        if not isinstance(data, list):
            raise _misfit(where, "a list", data)
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, element, f"{where}[{i}]") for i, element in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise _misfit(where, "an object", data)
        item = typing.get_args(kind)[1]
        return {str(key): _decode(item, element, f"{where}.{key}") for key, element in data.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast("type", kind), data, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError:
            raise _misfit(where, f"one of {[member.value for member in kind]}", data) from None
    if kind is float and type(data) is int:
        return float(data)
    if kind is type(None) and data is None:
        return None
    if isinstance(kind, type) and type(data) is kind:
        return data
    raise _misfit(where, getattr(kind, "__name__", str(kind)), data)


def _decode_union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    error: DecodeError | None = None
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return _decode(kind, data, where)
        except DecodeError as misfit:
            error = misfit
    raise error or _misfit(where, "null", data)


def _decode_dataclass(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _misfit(where, f"an object ({kind.__name__})", data)
    hints = _hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        path = f"{where}.{field.name}" if where else field.name
        if field.name in data:
            values[field.name] = _decode(hints[field.name], data[field.name], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DecodeError(f"{path} is missing")
    return kind(**values)


def _misfit(where: str, wanted: str, data: Any) -> DecodeError:
    shown = repr(data)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    return DecodeError(f"{where or 'the value'} should be {wanted}, not {shown}")
