"""How numbers change over a call. What measures how long the call takes, no two calls leave the same.

Invariant: a change is a duration only in a file that has a clock of Python's, and if it is no more than the call has
taken. A comparison takes durations for equal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from types import BuiltinFunctionType, ModuleType
from typing import Any

DURATION = "a duration"
"""What is recorded of the change of such a number."""


_SHOWN = 80


def number_changes(before: Mapping[str, float | str], after: Mapping[str, float | str]) -> dict[str, str]:
    """How each number changed: as a difference, because a global goes on from call to call."""
    return {
        name: _change(before.get(name), value)
        for name, value in after.items()
        if name not in before or before[name] != value
    }


def _change(before: float | str | None, after: float | str) -> str:
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        return f"{after - before:+g}"
    return repr(after)[:_SHOWN]


def without_durations(changes: Mapping[str, str], seconds: float, names: Mapping[str, Any]) -> dict[str, str]:
    """The changes of numbers, those that may be durations all alike.

    `changes`: as `+0.00042`, by name. `seconds`: how long the call took. `names`: the globals of the user's file.
    """
    if not any(map(_is_clock, names.values())):
        return dict(changes)
    return {name: DURATION if _is_duration(change, seconds) else change for name, change in changes.items()}


def _is_clock(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value is time
    return isinstance(value, BuiltinFunctionType) and getattr(value, "__module__", "") == time.__name__


def _is_duration(change: str, seconds: float) -> bool:
    match = _SOME.fullmatch(change)
    return match is not None and 0.0 < float(match[1]) <= seconds


_SOME = re.compile(r"(?:\+|\('float', '|)(\d+\.\d+(?:e-\d+)?|\d+e-\d+)(?:'\))?")
"""By how much a number grew, or what a new one is, if it is no whole number."""
