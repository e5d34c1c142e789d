"""Finds the line of the user's that changes a guarded value: `state["step"] += 1`.

Invariant: a line is named as changing only if its text assigns in place to a name, an attribute or a key of that name,
and it also reads the value or is the only such line of the file.
"""

from __future__ import annotations

import re

from fuselight.shared.report import GuardFailure, Location
from fuselight_server.explain.findings.common.context import Context

_LAST_NAME = re.compile(r"(?:\[(['\"])(?P<key>\w+)\1\]|(?P<name>\b[^\W\d]\w*))$")


def changing_line(context: Context, failure: GuardFailure) -> str:
    """Where a value changes, as `, changed on line 12`; where it is read if that is not known."""
    read = context.innermost_user_frame(failure.born)
    match = _LAST_NAME.search(failure.source)
    if read is None:
        return ""
    line = None if match is None else _assigning_line(context, read, match["key"] or match["name"])
    return f", read on line {read.line}" if line is None else f", changed on line {line}"


def _assigning_line(context: Context, read: Location, name: str) -> int | None:
    """The line that assigns in place: the one that reads the value, or the only one of the file."""
    name = re.escape(name)
    assigns = re.compile(rf"(?:\[['\"]{name}['\"]\]|\b{name})\s*(?:[-+*/%&|^@]|//|\*\*|<<|>>)=(?!=)")
    if assigns.search(context.read_line(read.path, read.line) or ""):
        return read.line
    lines = [number for number, text in enumerate(context.lines_of(read.path), 1) if assigns.search(text)]
    return lines[0] if len(lines) == 1 else None
