"""Reads a pickle of plain data without the module `pickle`.

Invariant: nothing is imported, called or constructed but dicts, lists, tuples, strings, bytes, numbers and None. Any
other opcode is an error, so that a file from elsewhere can do no harm. A pickle can contain one list many times, and a
few bytes then stand for a tree without end: the value, as a tree, is bounded in depth and in nodes, as are its keys.
"""

from __future__ import annotations

import itertools
import pickletools
from typing import Any

MAX_OPCODES = 5_000_000
MAX_NODES = 5_000_000
"""Values of the tree, where each value counts as often as it occurs."""
MAX_DEPTH = 50
_MAX_BITS = 128
_MAX_KEY = 16
"""Parts of a tuple that is a key."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "INT", "LONG", "FLOAT"}
    | {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
    | {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "STRING"}
)
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class NotPlainError(ValueError):
    """The file is no pickle of plain data."""


def load_plain(data: bytes) -> Any:
    """The value in a pickle. Raises NotPlainError."""
    machine = _Machine()
    try:
        for opcode, argument, _ in itertools.islice(pickletools.genops(data), MAX_OPCODES):
            if opcode.name == "STOP":
                _check_tree(machine.stack[-1])
                return machine.stack[-1]
            machine.do(opcode.name, argument)
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        MemoryError,
        RecursionError,
    ) as error:
        raise NotPlainError(str(error) or type(error).__name__) from None
    raise NotPlainError("the pickle is too large")


def _check_tree(value: Any) -> None:
    """Raise NotPlainError where a walk of the value would take long or not end."""
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        following: list[Any] = []
        for item in level:
            if type(item) is dict:
                following += item.values()
            elif type(item) in {list, tuple}:
                following += item
            if count + len(following) > MAX_NODES:
                raise NotPlainError("the pickle has too many values")
        if not following:
            return
        count += len(following)
        level = following
    raise NotPlainError("the pickle is nested too deeply")


def _checked_key(key: Any) -> Any:
    """A key whose hash takes no time: a text, a number, or a short tuple of them."""
    parts = key if type(key) is tuple else (key,)
    if len(parts) > _MAX_KEY or any(type(part) in {tuple, list, dict} for part in parts):
        raise NotPlainError("a key is no text and no number")
    return key


class _Machine:
    """The stack of a pickle, for opcodes of plain data."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def do(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            if type(argument) is int and argument.bit_length() > _MAX_BITS:
                raise NotPlainError("a number is too large")
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            count = _TUPLES[name]
            self.stack[-count:] = [tuple(self.stack[-count:])]
        else:
            self._do_other(name, argument)

    def _do_other(self, name: str, argument: Any) -> None:
        if name in {"PROTO", "FRAME"}:
            return
        if name == "MARK":
            self._marks.append(len(self.stack))
        elif name in {"BINPUT", "LONG_BINPUT", "PUT"}:
            self._memo[int(argument)] = self.stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self.stack[-1]
        elif name in {"BINGET", "LONG_BINGET", "GET"}:
            self.stack.append(self._memo[int(argument)])
        elif name == "APPEND":
            value = self.stack.pop()
            self._list().append(value)
        elif name == "SETITEM":
            value, key = self.stack.pop(), self.stack.pop()
            self._dict()[_checked_key(key)] = value
        else:
            self._do_marked(name)

    def _do_marked(self, name: str) -> None:
        if name not in {"APPENDS", "SETITEMS", "TUPLE", "LIST", "DICT"}:
            raise NotPlainError(f"the pickle has the opcode {name}")
        start = self._marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        if name == "APPENDS":
            self._list().extend(items)
        elif name == "SETITEMS":
            self._dict().update(zip(map(_checked_key, items[::2]), items[1::2], strict=True))
        elif name == "TUPLE":
            self.stack.append(tuple(items))
        elif name == "LIST":
            self.stack.append(items)
        else:
            self.stack.append(dict(zip(map(_checked_key, items[::2]), items[1::2], strict=True)))

    def _list(self) -> list[Any]:
        target = self.stack[-1]
        if type(target) is not list:
            raise NotPlainError("an item is added to something that is no list")
        return target

    def _dict(self) -> dict[Any, Any]:
        target = self.stack[-1]
        if type(target) is not dict:
            raise NotPlainError("a key is set in something that is no dict")
        return target
