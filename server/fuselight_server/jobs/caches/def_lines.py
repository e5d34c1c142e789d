"""Where a compiled function is shown: on the `def` line, as torch logs the line of its first decorator, or on its call.

Invariant: where the source cannot be read, or does not show it, the line stays as torch logged it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from fuselight.shared.report import Location
from fuselight_server.jobs.trace_log.libraries import is_library, is_wrapper
from fuselight_server.jobs.trace_log.model import LoggedCompile

ReadLine = Callable[[str, int], str | None]

_MAX_LINES = 100
"""Lines that decorators may take."""


def shown_place(compiled: LoggedCompile, read_line: ReadLine | None) -> Location | None:
    """The line of a compiled function; of a library's function, the call of the user's code that led there."""
    location = compiled.location
    if location is None or not is_library(location.path):
        return at_def(location, compiled.function, read_line)
    calls = (
        frame.location
        for frame in reversed(compiled.stack)
        if not is_library(frame.path) and not frame.path.startswith("<")
    )
    return next(calls, location)


def shown_function(compiled: LoggedCompile) -> str | None:
    """The name of a compiled function; None for the one that torch wraps around a library's module."""
    return None if is_wrapper(compiled.location) else compiled.function


def at_def(location: Location | None, function: str | None, read_line: ReadLine | None) -> Location | None:
    """The location of a function, on its `def` line."""
    if location is None or not function or read_line is None:
        return location
    if not (read_line(location.path, location.line) or "").lstrip().startswith("@"):
        return location
    wanted = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(function.rpartition('.')[2])}\b")
    for number in range(location.line + 1, location.line + _MAX_LINES):
        text = read_line(location.path, number)
        if text is None:
            break
        if wanted.match(text):
            return replace(location, line=number)
    return location
