"""Values as plain data, and how two of them differ. Needs no torch, so that any process can compare.

Invariant: an observation is nested tuples of plain data whose first element names the kind. Two observations that no
`difference` tells apart are equal in every value, dtype, shape and flag, up to the given rounding.
"""

from __future__ import annotations

import math
from typing import Any

Observation = tuple[Any, ...]
"""`("tensor", {...})`, `("int", 3)`, `("list", [...])`, `("dict", [(key, ...), ...])`, `("object", "Net")`."""
_EPSILON = {
    "torch.float64": 2.0**-52,
    "torch.complex128": 2.0**-52,
    "torch.float32": 2.0**-23,
    "torch.complex64": 2.0**-23,
    "torch.float16": 2.0**-10,
    "torch.bfloat16": 2.0**-7,
    "float": 2.0**-52,
}
ROUNDING = 32
"""Units in the last place of a tensor's largest element that count as rounding."""
_FLAGS = ("type", "dtype", "shape", "requires_grad")


def difference(
    old: Observation, new: Observation, *, rounding: bool, strides: bool, values: bool = True, place: str = ""
) -> str:
    """Describe the first difference; empty if there is none.

    `rounding`: whether values may differ by rounding. `strides`: whether they count. `values`: whether values count.
    """
    where = place or "the result"
    if old[0] != new[0]:
        return f"{where} was {_words(old)}, is {_words(new)}"
    if old[0] in {"list", "tuple", "dict"}:
        parts = _parts(old, new, place)
        if isinstance(parts, str):
            return f"{where} {parts}"
        how = {"rounding": rounding, "strides": strides, "values": values}
        differences = (difference(results, other, place=name, **how) for name, results, other in parts)
        return next(filter(None, differences), "")
    words = _leaf_difference(old, new, rounding=rounding, strides=strides, values=values)
    return f"{where}{words}" if words else ""


def _leaf_difference(
    old: Observation, new: Observation, *, rounding: bool, strides: bool, values: bool
) -> str:
    words = _flag_difference(old[1], new[1], strides=strides) if old[0] == "tensor" else ""
    if words or not values:
        return f": {words}" if words else ""
    if old[0] == "tensor":
        return _first_value(old[1]["values"], new[1]["values"], old[1]["dtype"], rounding=rounding)
    if old[0] == "float":
        return _first_value([old[1]], [new[1]], "float", rounding=rounding)
    return "" if old == new else f" was {_words(old)}, is {_words(new)}"


def _parts(
    old: Observation, new: Observation, place: str
) -> list[tuple[str, Observation, Observation]] | str:
    """The elements of two containers by place, or what differs between the containers."""
    if len(old[1]) != len(new[1]):
        return f"had {len(old[1])} elements, has {len(new[1])}"
    pairs = list(zip(old[1], new[1], strict=True))
    if old[0] != "dict":
        return [(f"{place}[{index}]", *pair) for index, pair in enumerate(pairs)]
    if any(value[0] != other[0] for value, other in pairs):
        return "had other keys"
    return [(f"{place}[{value[0]}]", value[1], other[1]) for value, other in pairs]


def _words(value: Observation) -> str:
    if value[0] == "tensor":
        data = value[1]
        return f"{data['type']} {data['dtype']}{data['shape']}"
    return f"{value[0]} {value[1]!r}"[:80] if len(value) > 1 else value[0]


def _flag_difference(old: dict[str, Any], new: dict[str, Any], *, strides: bool) -> str:
    for flag in (*_FLAGS, *(["strides"] if strides else [])):
        if old[flag] != new[flag]:
            return f"{flag} was {old[flag]}, is {new[flag]}"
    return ""


def _first_value(old: list[Any], new: list[Any], dtype: str, *, rounding: bool) -> str:
    scale = max(
        (abs(value) for value in old if not isinstance(value, float) or math.isfinite(value)), default=0
    )
    bound = ROUNDING * _EPSILON[dtype] * scale if rounding and dtype in _EPSILON else 0
    for index, (was, now) in enumerate(zip(old, new, strict=True)):
        if not _is_close(was, now, bound):
            return f": element {index} was {was}, is {now}"
    return ""


def _is_close(was: Any, now: Any, bound: float) -> bool:
    if was == now:
        signs = isinstance(was, float) and was == 0 and bound == 0
        return not signs or math.copysign(1, was) == math.copysign(1, now)
    if was != was and now != now:  # noqa: PLR0124 - NaN
        return True
    return isinstance(was, float) and isinstance(now, float) and abs(was - now) <= bound
