"""Stacks that `faulthandler` writes when nothing else can: at a segfault, or while Python code does not return.

Invariant: only frames of files come out, the thread that was running first, outermost frame first as everywhere.
"""

from __future__ import annotations

import re

from fuselight.report import Location, Stack

_FRAME = re.compile(r'^  File "(?P<path>.+)", line (?P<line>\d+) in (?P<function>.+)$')
_CURRENT = re.compile(
    r"^(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$|^Stack \(most recent"
)


def read_stack(text: str) -> Stack:
    """Read the stack of the current thread out of a faulthandler dump; the last dump, if there are several."""
    stacks: list[tuple[bool, list[Location]]] = []
    for line in text.splitlines():
        header = _CURRENT.match(line)
        if header:
            stacks.append((not line.startswith("Thread"), []))
            continue
        frame = _FRAME.match(line)
        if frame and stacks:
            path, function = frame["path"], frame["function"]
            stacks[-1][1].append(Location(path, int(frame["line"]), function=function))
    current = [frames for is_current, frames in stacks if is_current] or [frames for _, frames in stacks]
    return tuple(reversed(current[-1])) if current else ()
