"""How many cycles an access of shared memory takes in a Triton kernel's PTX, with its bank conflicts.

A warp's 32 lanes get addresses that depend on `%tid.x` alone; what is added to all of them alike, as the stage of a
loop, changes no conflict. Invariant: None for an address that depends on anything else that differs from lane to lane.
Standard library only.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

LANES = 32
_WORD = 4
"""Bytes of a bank."""
_BANKS = 32
_BITS = (1 << 32) - 1
_MAX_DEPTH = 400
_DEFINITION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.]*)\s+(%\w+),\s*(.*?);")
_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?(?:0x)?[0-9a-fA-F]+)\s*)?\]")

_Lanes = tuple[int, ...]
_UNIFORM: _Lanes = (0,) * LANES
"""Of a value that is the same for all lanes, and not known."""


def wavefronts(addresses: _Lanes, width: int) -> int:
    """Cycles of an access of `width` bytes a lane: in parts of 128 bytes, each as long as its busiest bank."""
    each = LANES if width <= _WORD else max(1, LANES * _WORD // width)
    total = 0
    for first in range(0, LANES, each):
        words = {
            (address + offset) // _WORD
            for address in addresses[first : first + each]
            for offset in range(0, max(width, 1), _WORD)
        }
        busy: dict[int, int] = {}
        for word in words:
            busy[word % _BANKS] = busy.get(word % _BANKS, 0) + 1
        total += max(busy.values())
    return total


class LaneAddresses:
    """The addresses of the first warp's lanes in a PTX text."""

    def __init__(self, ptx: str) -> None:
        self._definitions: dict[str, tuple[str, list[str]]] = {}
        self._known: dict[str, _Lanes | None] = {}
        self._exact: dict[str, bool] = {}
        for line in ptx.split("\n"):
            match = _DEFINITION.match(line)
            if match is not None and match[2] not in self._definitions:
                self._definitions[match[2]] = (match[1], [part.strip() for part in match[3].split(",")])

    def of(self, operands: str) -> _Lanes | None:
        """The addresses of the first operand in brackets, up to what is the same for all lanes."""
        match = _ADDRESS.search(operands)
        if match is None:
            return None
        offset = int(match[2], 0) if match[2] else 0
        lanes, _ = self._value(match[1], 0)
        return None if lanes is None else tuple(lane + offset for lane in lanes)

    def _value(self, name: str, depth: int) -> tuple[_Lanes | None, bool]:
        """The lanes of a register or a number, and whether they are exact: else something uniform is added."""
        if name in self._known:
            return self._known[name], self._exact[name]
        if not name.startswith("%"):
            try:
                return (int(name, 0) & _BITS,) * LANES, True
            except ValueError:
                return _UNIFORM, False  # the address of a variable
        if name.startswith("%tid."):
            return (tuple(range(LANES)) if name == "%tid.x" else _UNIFORM), True
        if name not in self._definitions or depth > _MAX_DEPTH:
            return _UNIFORM, False
        self._known[name], self._exact[name] = _UNIFORM, False  # while a loop leads back to it
        operation, operands = self._definitions[name]
        lanes, exact = self._computed(operation, operands, depth + 1)
        self._known[name], self._exact[name] = lanes, exact
        return lanes, exact

    def _computed(self, operation: str, operands: list[str], depth: int) -> tuple[_Lanes | None, bool]:
        base = operation.partition(".")[0]
        if base in {"ld", "shfl"} or any("{" in operand for operand in operands):
            # What Triton loads for an address, or hands from lane 0 to all, is uniform; a value of a tile is not.
            return (_UNIFORM, False) if operation.startswith(("ld.param", "shfl.sync.idx")) else (None, False)
        values = [self._value(operand, depth) for operand in operands]
        known = [value for value, _ in values if value is not None]
        is_exact = all(exact for _, exact in values)
        if len(known) < len(values):
            return None, False
        if base in {"mov", "cvt", "cvta"}:
            return known[0], is_exact
        if base in {"add", "sub"} and len(known) == 2:  # noqa: PLR2004 - operands
            sign = 1 if base == "add" else -1
            return tuple((left + sign * right) & _BITS for left, right in zip(*known, strict=True)), is_exact
        compute = _OPERATIONS.get(".".join(operation.split(".")[:2]) if base == "setp" else base)
        if is_exact and compute is not None:
            with contextlib.suppress(TypeError, ValueError):
                return tuple(compute(*lane) & _BITS for lane in zip(*known, strict=True)), True
        # Without the exact values: the same for all lanes if all operands are.
        is_uniform = all(len(set(value)) == 1 for value in known)
        return (_UNIFORM if is_uniform else None), False


def _extract(value: int, start: int, length: int) -> int:
    return (value >> start) & ((1 << length) - 1)


def _insert(value: int, into: int, start: int, length: int) -> int:
    mask = ((1 << length) - 1) << start
    return (into & ~mask) | ((value << start) & mask)


def _look_up(first: int, second: int, third: int, table: int) -> int:
    result = 0
    for at in range(8):
        if table >> at & 1:
            terms = (first if at & 4 else ~first, second if at & 2 else ~second, third if at & 1 else ~third)
            result |= terms[0] & terms[1] & terms[2]
    return result


_OPERATIONS: dict[str, Callable[..., int]] = {
    "shl": lambda value, by: value << by,
    "shr": lambda value, by: value >> by,
    "and": lambda left, right: left & right,
    "or": lambda left, right: left | right,
    "xor": lambda left, right: left ^ right,
    "not": lambda value: ~value,
    "neg": lambda value: -value,
    "selp": lambda left, right, condition: left if condition else right,
    "setp.eq": lambda left, right: left == right,
    "setp.ne": lambda left, right: left != right,
    "setp.lt": lambda left, right: left < right,
    "setp.gt": lambda left, right: left > right,
    "setp.le": lambda left, right: left <= right,
    "setp.ge": lambda left, right: left >= right,
    "mul": lambda left, right: left * right,
    "mad": lambda left, right, added: left * right + added,
    "bfe": _extract,
    "bfi": _insert,
    "lop3": _look_up,
    "min": min,
    "max": max,
}
