"""Tells the attributes and globals that the user's code reads from those that a library reads for itself.

torch makes a guard where a value is first needed: for `self.layers[: self.config.depth]`, in the `__getitem__` of
ModuleList. Invariant: only source text is read. What a library needed counts as read by the user if the function of the
user's that called it names the attribute, on that line or above.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Location, Stack

_LAST_NAME = re.compile(r"(?:(?P<dot>\.)|G\[')(?P<name>[^\W\d]\w*)(?:'\])?$")
_LONGEST_FUNCTION = 1_000
"""Lines above a read that are searched."""


def is_read_by_user(source: str, born: Stack, roots: Sequence[str]) -> bool:
    """Whether the user's own lines read a guarded expression, such as `L['self'].config.depth`."""
    place = next((location for location in reversed(born) if stacks.is_user_code(location.path, roots)), None)
    if place is None:
        return False
    if place is born[-1]:
        return True
    match = _LAST_NAME.search(source)
    if match is None:
        return False
    read = re.compile(rf"{r'[.]' if match['dot'] else r'(?<![.])'}\b{re.escape(match['name'])}\b")
    return any(read.search(line) for line in _function_above(place))


def _function_above(place: Location) -> list[str]:
    """The lines of the user's function up to the end of the statement that called the library."""
    lines = linecache.getlines(place.path)
    end = place.end_line or place.line
    start = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(place.function or '')}\b")
    for index in range(place.line - 1, max(place.line - _LONGEST_FUNCTION, 0) - 1, -1):
        if place.function and index < len(lines) and start.match(lines[index]):
            return lines[index:end]
    return lines[place.line - 1 : end]
