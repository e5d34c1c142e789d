"""The `def` line of a decorated function: torch logs the line of its first decorator.

Invariant: where the source cannot be read, or does not show it, the line stays as torch logged it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Location

    ReadLine = Callable[[str, int], str | None]

_MOST_LINES = 100
"""Lines that decorators may take."""


def at_def(location: Location | None, function: str | None, read_line: ReadLine | None) -> Location | None:
    """The location of a function, on its `def` line."""
    if location is None or not function or read_line is None:
        return location
    if not (read_line(location.path, location.line) or "").lstrip().startswith("@"):
        return location
    wanted = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(function.rpartition('.')[2])}\b")
    for number in range(location.line + 1, location.line + _MOST_LINES):
        text = read_line(location.path, number)
        if text is None:
            break
        if wanted.match(text):
            return replace(location, line=number)
    return location
