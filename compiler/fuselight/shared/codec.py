"""Converts frozen dataclasses to JSON and back, for the wire and for stored reports.

Invariant: `decode(T, encode(x)) == x` for every message and report type. Decoding is tolerant: it skips unknown keys (a
newer writer), and a missing key takes the field's default (an older writer). The JSON names no types, so a damaged or
hostile file can only build these types. Integers are bounded; `Annotated[int, range(...)]` and
`Annotated[float, Between(...)]` name closer bounds.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, Union

T = TypeVar("T")
_SHOWN = 60  # characters of an unfit value that an error quotes
_INTEGERS = range(-(2**127), 2**127)
"""All that a field holds: torch's integers have 64 bits, and sums of theirs still convert to float."""
_PLAIN = frozenset({str, int, float, bool, type(None)})


class DecodeError(ValueError):
    """The data does not fit the type. The message names the path of the value, as in `frames[3].line`."""


class _Misfit(Exception):  # noqa: N818 - never leaves this module
    """A value that does not fit; its path is assembled while the exception propagates."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.where = ""
        self.what = what

    def inside(self, step: str) -> _Misfit:
        """The same misfit, seen from one level up."""
        dot = "." if self.where and not self.where.startswith("[") else ""
        self.where = f"{step}{dot}{self.where}"
        return self


@dataclasses.dataclass(frozen=True)
class Between:
    """Bounds of a float, inclusive; nan is in none."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


Reader = Callable[[Any], Any]
"""Builds one value from JSON. Raises _Misfit."""


def encode(value: Any) -> Any:
    """Turn a dataclass tree into JSON values. Omits fields that hold their default."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    plan = _fields_of(kind)
    if plan is not None:
        out = {}
        for name, default in plan:
            item = getattr(value, name)
            if type(item) is not type(default) or item != default:
                out[name] = encode(item)
        return out
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


@functools.cache
def _fields_of(kind: Any) -> tuple[tuple[str, Any], ...] | None:
    """Name and default (MISSING if there is none) of each field of a dataclass, None for other types."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple((field.name, field.default) for field in dataclasses.fields(kind))


def decode(kind: type[T], data: Any) -> T:
    """Build a `kind` from JSON values. Raises DecodeError."""
    try:
        reads: Any = kind
        return typing.cast("T", _reader(reads)(data))
    except _Misfit as misfit:
        raise DecodeError(f"{misfit.where or 'the value'} {misfit.what}") from None


def read_table(kind: type[T], module: str) -> T:
    """The JSON file next to a module of ours, which has its name; `module`: the module's `__file__`."""
    with open(os.path.splitext(module)[0] + ".json", encoding="utf-8") as file:
        return decode(kind, json.load(file))


def read_words(module: str) -> dict[str, frozenset[str]]:
    """Sets of names, by what they are: the table next to a module, as for `read_table`."""
    return {key: frozenset(words) for key, words in read_table(dict[str, tuple[str, ...]], module).items()}


@functools.cache
def _reader(kind: Any) -> Reader:  # noqa: PLR0911 - one a kind of type
    """The reader of a type, built once because a report has tens of thousands of values."""
    if kind is Any:
        return lambda data: data
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _union_reader(arguments)
    if origin is Annotated:
        return _bounded_reader(_plain_reader(arguments[0]), arguments[1])
    if origin is tuple:
        if arguments[-1] is not Ellipsis:
            return _row_reader(tuple(map(_reader, arguments)))
        return _tuple_reader(_reader(arguments[0]))
    if origin is dict:
        return _dict_reader(_reader(arguments[1]))
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(typing.cast("type", kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum_reader(kind)
    plain = _plain_reader(kind)
    return _bounded_reader(plain, _INTEGERS) if kind is int else plain


def _bounded_reader(plain: Reader, bounds: range | Between) -> Reader:
    def read(data: Any) -> Any:
        value = plain(data)
        if value not in bounds:
            raise _misfit(f"in {bounds}", data)
        return value

    return read


def _plain_reader(kind: Any) -> Reader:
    wanted = "NoneType" if kind is None else getattr(kind, "__name__", str(kind))

    def read(data: Any) -> Any:
        if type(data) is kind:
            return data
        if kind is float and type(data) is int:
            try:
                return float(data)
            except OverflowError:
                raise _misfit("a number below 1.8e308", data) from None
        raise _misfit(wanted, data)

    return read


def _enum_reader(kind: type[enum.Enum]) -> Reader:
    def read(data: Any) -> Any:
        try:
            return kind(data)
        except ValueError:
            raise _misfit(f"one of {[member.value for member in kind]}", data) from None

    return read


def _tuple_reader(item: Reader) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise _misfit("a list", data)
        out: list[Any] = []
        try:
            for element in data:
                out.append(item(element))  # noqa: PERF401 - its length is the place of a misfit
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(out)}]") from None
        return tuple(out)

    return read


def _row_reader(items: tuple[Reader, ...]) -> Reader:
    """The reader of a tuple with a fixed number of entries."""

    def read(data: Any) -> Any:
        if not isinstance(data, list) or len(data) != len(items):
            raise _misfit(f"a list of {len(items)}", data)
        return tuple(item(element) for item, element in zip(items, data, strict=True))

    return read


def _dict_reader(item: Reader) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _misfit("an object", data)
        out = {}
        for key, element in data.items():
            try:
                out[str(key)] = item(element)
            except _Misfit as misfit:
                raise misfit.inside(str(key)) from None
        return out

    return read


def _union_reader(kinds: tuple[Any, ...]) -> Reader:
    readers = tuple(_reader(kind) for kind in kinds if kind is not type(None))
    optional = type(None) in kinds

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        error = None
        for reader in readers:
            try:
                return reader(data)
            except _Misfit as misfit:
                error = misfit
        raise error or _misfit("null", data)

    return read


def _dataclass_reader(kind: type) -> Reader:
    @functools.cache
    def plan() -> tuple[tuple[str, Reader, bool], ...]:
        """Name, reader and required flag of each field; built on first use, because types can be recursive."""
        hints = typing.get_type_hints(kind, include_extras=True)
        return tuple(
            (
                field.name,
                _reader(hints[field.name]),
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(kind)
        )

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _misfit(f"an object ({kind.__name__})", data)
        values = {}
        for name, reader, needed in plan():
            if name in data:
                try:
                    values[name] = reader(data[name])
                except _Misfit as misfit:
                    raise misfit.inside(name) from None
            elif needed:
                raise _Misfit("is missing").inside(name)
        return kind(**values)

    return read


def _misfit(wanted: str, data: Any) -> _Misfit:
    shown = repr(data)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    return _Misfit(f"should be {wanted}, not {shown}")
