"""Reads a pickle of plain data without the module `pickle`.

Invariant: nothing is imported, called or constructed but dicts, lists, tuples, strings, bytes, numbers and None. Any
other opcode is an error, so that a file from elsewhere can do no harm. A pickle can contain one list many times, and a
few bytes then stand for a tree without end: the value, as a tree, is bounded in depth and in nodes, as are its keys.
What is held while it is read, and the time that this takes, are bounded, too.
"""

from __future__ import annotations

import io
import pickletools
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MAX_NODES = 5_000_000
"""Values of the tree, where each value counts as often as it occurs."""
MAX_DEPTH = 50
_MAX_BITS = 128
_MAX_KEY = 16
"""Parts of a tuple that is a key."""
_MAX_GAP = 1 << 16
"""Numbers of the memo that a pickle may leave out."""
_BLOCK = 1 << 18
"""Bytes that are read between two looks at the bounds."""
_BATCH = 1000
"""Items that a pickler adds to a container at once: a batch that is smaller completes it."""
_OF_RECORD = 4
"""Values that a record counts as."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "INT", "LONG", "FLOAT"}
    | {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
    | {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "STRING"}
)
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_OPCODES = {opcode.code: opcode for opcode in pickletools.opcodes}
_BINGET, _LONG_BINGET, _LONG1, _MEMOIZE, _BININT, _MARK, _SETITEMS = b"hj\x8a\x94J(u"
_APPENDS, _EMPTY_DICT, _EMPTY_LIST, _BININT1, _BININT2, _STOP = b"e}]KM."
_LONG = rb"\x8a(?:\x06.{6}|\x07.{7}|\x05.{5}|\x08.{8}|\x09.{9}|\x04.{4})"
_UNREAD = rb"(?:h.|K.|J.{4}|M..|" + _LONG + rb"|j.{4}|N)"
_VALUE = rb"(h.|" + _LONG + rb"|J.{4}|\]\x94(?:\((?:j.{4}|h.)+e|(?:j.{4}|h.)a|)|j.{4}|K.K.\x86\x94|K.|M..|N)"
"""A value of a record: a reference, a number, a tuple of two numbers, a list of references."""
_NONE = 0x4E
_MAX_LAYOUTS = 1000
_MAX_REPEATED = 4
_REPEATED = 20
"""Dicts with the same keys after which their bytes are worth a pattern."""
_LONG_BINGETS = struct.Struct("<cI")
_SIGNED, _UNSIGNED, _SHORT = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<H")


class NotPlainError(ValueError):
    """The file is no pickle of plain data, or too large."""


@dataclass(frozen=True)
class PlainLimits:
    """What a pickle may need."""

    nodes: int = MAX_NODES
    """Values that are held, and that the value has as a tree."""
    seconds: float = 60.0


@dataclass(frozen=True)
class RecordKind:
    """What is kept in place of a dict: `make(*values)`, of the values of `names` or None.

    The result must not hold lists, dicts or tuples of the pickle, which are bounded as a tree.
    """

    names: tuple[str, ...]
    make: Callable[..., Any]


class Compactor(Protocol):
    """Keeps what it needs of the many dicts of a large pickle."""

    def kind_of(self, keys: tuple[Any, ...]) -> RecordKind | None:
        """What is made of a dict with these keys; None: the dict is kept."""

    def list_in_record(self, values: list[Any]) -> Any:
        """What is kept in place of a list that occurred in such a dict first, for where it occurs again."""


_LIMITS = PlainLimits()


def load_plain(data: bytes, *, limits: PlainLimits = _LIMITS, compactor: Compactor | None = None) -> Any:
    """The value in a pickle. Raises NotPlainError, and what `compactor` raises."""
    machine = _Machine(data, limits, compactor)
    try:
        machine.run()
        value = machine.stack[-1]
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        MemoryError,
        OverflowError,
        RecursionError,
        struct.error,
    ) as error:
        if isinstance(error, NotPlainError):
            raise
        # A whole pickle ends with STOP.
        what = f"damaged: {error or type(error).__name__}" if data.endswith(b".") else "cut off"
        raise NotPlainError(f"the pickle is {what}") from None
    _check_tree(value, limits.nodes)
    return value


def _check_tree(value: Any, most: int) -> None:
    """Raise NotPlainError where a walk of the value would take long or not end."""
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        following: list[Any] = []
        for item in level:
            if type(item) is dict:
                following += item.values()
            elif type(item) in {list, tuple}:
                following += item
            if count + len(following) > most:
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


class _Layout:
    """Dicts with the same keys in the same order."""

    __slots__ = ("count", "groups", "kind", "pattern", "positions")

    def __init__(self, kind: RecordKind | None, positions: Sequence[int | None]) -> None:
        self.kind = kind
        self.positions = positions
        """Of the values that the kind needs."""
        self.count = 0
        self.pattern: re.Pattern[bytes] | None = None
        """Of the bytes after EMPTY_DICT."""
        self.groups: Sequence[int | None] = ()
        """Those of the pattern with the values that the kind needs."""

    def learn(self, keys: Sequence[Any], values: Sequence[Any], memo: Sequence[Any]) -> None:
        """Make the pattern of a dict in a pickle of protocol 4 or 5; none unless each key is a text in the memo."""
        numbers = {id(value): number for number, value in enumerate(memo) if type(value) is str}
        parts: list[bytes] = []
        groups: dict[int, int] = {}
        for position, (key, value) in enumerate(zip(keys, values, strict=True)):
            number = numbers.get(id(key))
            if number is None:
                return
            is_short = number < 256  # noqa: PLR2004 - a byte
            code = bytes([_BINGET, number]) if is_short else bytes([_LONG_BINGET]) + _UNSIGNED.pack(number)
            # A tuple and a list are in the memo, so that they count also where they are not needed.
            is_read = position in self.positions or type(value) not in {int, str}
            if is_read:
                groups[position] = len(groups)
            parts.append(re.escape(code) + (_VALUE if is_read else _UNREAD))
        self.groups = [None if at is None else groups[at] for at in self.positions]
        self.pattern = re.compile(rb"\x94\(" + b"".join(parts) + rb"u", re.DOTALL)


def _indices(codes: bytes) -> Iterator[int]:
    """The numbers of the references in a list."""
    codes = codes[3 if codes[2:3] == b"(" else 2 : -1]
    if len(codes) % 5 == 0 and codes[::5] == b"j" * (len(codes) // 5):
        yield from (number for _, number in _LONG_BINGETS.iter_unpack(codes))
        return
    at = 0
    while at < len(codes):
        is_long = codes[at] == _LONG_BINGET
        yield _UNSIGNED.unpack_from(codes, at + 1)[0] if is_long else codes[at + 1]
        at += 5 if is_long else 2


class _Machine:
    """The stack of a pickle, for opcodes of plain data."""

    def __init__(self, data: bytes, limits: PlainLimits, compactor: Compactor | None) -> None:
        self.stack: list[Any] = []
        self._data, self._limits, self._compactor = data, limits, compactor
        self._reader = io.BytesIO(data)
        self._marks: list[tuple[int, int]] = []
        """The length of the stack, and that of the memo."""
        self._memo: list[Any] = []
        self._held = 0
        """Values in containers."""
        self._layouts: dict[tuple[Any, ...], _Layout] = {}
        self._repeated: list[_Layout] = []
        """Those whose bytes are known."""
        self._lists: dict[bytes, Any] = {}
        self._ends = time.monotonic() + limits.seconds

    def run(self) -> None:
        """Do the opcodes up to STOP. Raises what a damaged pickle leads to."""
        position, is_done = 0, False
        while not is_done:
            position, is_done = self._run_block(position)
            if max(self._held + len(self.stack), len(self._memo)) > self._limits.nodes:
                raise NotPlainError("the pickle has too many values")
            if time.monotonic() > self._ends:
                raise NotPlainError(f"reading takes longer than {self._limits.seconds:.0f} s")

    def _run_block(self, at: int) -> tuple[int, bool]:  # noqa: C901, PLR0912 - one loop: a million events are 30 million opcodes
        """Do the opcodes of a block; the most frequent ones here, in the order of their frequency."""
        data, stack, memo, marks = self._data, self.stack, self._memo, self._marks
        push, signed, unsigned = stack.append, _SIGNED.unpack_from, _UNSIGNED.unpack_from
        end = min(at + _BLOCK, len(data))
        while at < end:
            code = data[at]
            at += 1
            if code == _BINGET:
                push(memo[data[at]])
                at += 1
            elif code == _LONG_BINGET:
                push(memo[unsigned(data, at)[0]])
                at += 4
            elif code == _LONG1:
                length = data[at] + 1
                push(_number(data[at + 1 : at + length]))
                at += length
            elif code == _MEMOIZE:
                memo.append(stack[-1])
            elif code == _BININT:
                push(signed(data, at)[0])
                at += 4
            elif code == _MARK:
                marks.append((len(stack), len(memo)))
            elif code == _SETITEMS:
                self._set_items()
            elif code == _APPENDS:
                start = marks.pop()[0]
                items = stack[start:]
                del stack[start:]
                self._list().extend(items)
                self._held += len(items)
            elif code == _EMPTY_DICT:
                at = self._start_dict(at)
            elif code == _EMPTY_LIST:
                push([])
            elif code == _BININT1:
                push(data[at])
                at += 1
            elif code == _BININT2:
                push(_SHORT.unpack_from(data, at)[0])
                at += 2
            elif code == _STOP:
                return at, True
            else:
                at = self._do_rare(code, at)
        if at >= len(data):
            raise NotPlainError("the pickle is cut off")
        return at, False

    def _do_rare(self, code: int, at: int) -> int:
        """Do an opcode that is rare in large pickles; returns where the next one is."""
        opcode = _OPCODES.get(chr(code))
        if opcode is None:
            raise NotPlainError(f"the pickle has the byte {code:#x} in place of an opcode")
        argument = None
        if opcode.name == "FRAME":
            return at + 8
        if opcode.arg is not None:
            self._reader.seek(at)
            argument = opcode.arg.reader(self._reader)
            at = self._reader.tell()
        self._do(opcode.name, argument)
        return at

    def _do(self, name: str, argument: Any) -> None:  # noqa: C901 - a table of opcodes
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
            if len(self.stack) < count:
                raise NotPlainError("a tuple has too few items")
            self.stack[-count:] = [tuple(self.stack[-count:])]
            self._held += count
        elif name in {"BINPUT", "LONG_BINPUT", "PUT"}:
            self._put(int(argument))
        elif name == "GET":
            self.stack.append(self._memo[int(argument)])
        elif name == "APPEND":
            value = self.stack.pop()
            self._list().append(value)
            self._held += 1
        elif name == "SETITEM":
            value, key = self.stack.pop(), self.stack.pop()
            self._dict()[_checked_key(key)] = value
            self._held += 2
        elif name != "PROTO":
            self._do_marked(name)

    def _put(self, number: int) -> None:
        """Picklers count without gaps, or nearly."""
        if not 0 <= number <= len(self._memo) + _MAX_GAP:
            raise NotPlainError("the memo has a gap")
        self._memo += [None] * (number + 1 - len(self._memo))
        self._memo[number] = self.stack[-1]
        self._lists.clear()

    def _set_items(self) -> None:
        start, first = self._marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        target = self._dict()
        compactor = self._compactor if not target and len(items) < 2 * _BATCH else None
        if compactor is not None and all(type(key) is str for key in items[::2]):
            layout = self._layout_of(tuple(items[::2]), compactor)
            if layout.kind is not None:
                values = items[1::2]
                record = layout.kind.make(*[None if at is None else values[at] for at in layout.positions])
                self._keep_record(record, target, first)
                self._learn_bytes(layout, items[::2], values)
                return
        target.update(zip(map(_checked_key, items[::2]), items[1::2], strict=True))
        self._held += len(items)

    def _layout_of(self, keys: tuple[Any, ...], compactor: Compactor) -> _Layout:
        layout = self._layouts.get(keys)
        if layout is None:
            kind = compactor.kind_of(keys)
            positions = [keys.index(name) if name in keys else None for name in kind.names] if kind else []
            layout = _Layout(kind, positions)
            if len(self._layouts) < _MAX_LAYOUTS:
                self._layouts[keys] = layout
        return layout

    def _learn_bytes(self, layout: _Layout, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Have dicts like this one read at once from now on."""
        layout.count += 1
        if layout.count == _REPEATED and len(self._repeated) < _MAX_REPEATED:
            layout.learn(keys, values, self._memo)
            self._repeated += [layout] if layout.pattern is not None else []

    def _start_dict(self, at: int) -> int:
        """Begin a dict, or read it at once if its bytes are those of a known record; returns where to go on."""
        for layout in self._repeated:
            match = layout.pattern.match(self._data, at) if layout.pattern is not None else None
            if match is not None and match.end() < len(self._data):
                return self._read_record(layout, match)
        self.stack.append({})
        return at

    def _read_record(self, layout: _Layout, match: re.Match[bytes]) -> int:
        memo, kind = self._memo, layout.kind
        if kind is None:
            raise NotPlainError("a record has no kind")
        first = len(memo)
        memo.append(None)
        values: list[Any] = []
        keep = values.append
        for group in match.groups():
            code = group[0]
            if code == _LONG1:
                keep(int.from_bytes(group[2:], "little", signed=True))
            elif code == _BINGET:
                keep(memo[group[1]])
            elif code == _BININT:
                keep(_SIGNED.unpack_from(group, 1)[0])
            elif code == _EMPTY_LIST:
                keep(self._list_of(group))
                memo.append(values[-1])
            elif code == _LONG_BINGET:
                keep(memo[_UNSIGNED.unpack_from(group, 1)[0]])
            elif group[-1] == _MEMOIZE:  # of two small numbers
                keep((group[1], group[3]))
                memo.append(values[-1])
            elif code == _NONE:
                keep(None)
            else:
                keep(group[1] if code == _BININT1 else _SHORT.unpack_from(group, 1)[0])
        record = kind.make(*[None if at is None else values[at] for at in layout.groups])
        memo[first] = record
        self.stack.append(record)
        self._held += _OF_RECORD
        return match.end()

    def _list_of(self, group: bytes) -> Any:
        """What is kept of a list of references: equal bytes are equal lists, as a number of the memo is given once."""
        known = self._lists.get(group)
        if known is None and self._compactor is not None:
            known = self._compactor.list_in_record([self._memo[index] for index in _indices(group)])
            if type(known) is not list:
                self._lists[group] = known
        return known

    def _keep_record(self, record: Any, target: Any, first: int) -> None:
        """Keep a record in place of a dict; `first` is the length of the memo at its first key."""
        self.stack[-1] = record
        self._held += _OF_RECORD
        memo, compactor = self._memo, self._compactor
        if 0 < first <= len(memo) and memo[first - 1] is target:
            memo[first - 1] = record
        for number in range(first, len(memo)):
            if type(memo[number]) is list and compactor is not None:
                memo[number] = compactor.list_in_record(memo[number])

    def _do_marked(self, name: str) -> None:
        if name not in {"TUPLE", "LIST", "DICT"}:
            raise NotPlainError(f"the pickle has the opcode {name}")
        start = self._marks.pop()[0]
        items = self.stack[start:]
        del self.stack[start:]
        self._held += len(items)
        if name == "TUPLE":
            self.stack.append(tuple(items))
        elif name == "LIST":
            self.stack.append(items)
        else:
            self.stack.append(dict(zip(map(_checked_key, items[::2]), items[1::2], strict=True)))

    def _dict(self) -> dict[Any, Any]:
        target = self.stack[-1]
        if type(target) is not dict:
            raise NotPlainError("a key is set in something that is no dict")
        return target

    def _list(self) -> list[Any]:
        target = self.stack[-1]
        if type(target) is not list:
            raise NotPlainError("an item is added to something that is no list")
        return target


def _number(data: bytes) -> int:
    if len(data) * 8 > _MAX_BITS + 8:
        raise NotPlainError("a number is too large")
    return int.from_bytes(data, "little", signed=True)
