"""Calls inside of a call that Dynamo traced, with the arguments that they get in eager mode.

Invariant: the outer call is made at most once more, as far as the last of them begins, and what it raises is dropped:
the program ends after it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any

from fuselight.adapters.torch_api.dynamo.traced_frames import TracedFrame

_MAX_FRAMES = 3


class _AllKnown(BaseException):
    """Each of the calls has been made: the outer call ends, whatever errors the program handles."""


def inner_frames(frame: TracedFrame, functions: Sequence[tuple[str, str]]) -> list[TracedFrame]:
    """The first call of each of these functions (file and name), the last one first."""
    wanted = list(dict.fromkeys(functions))[-_MAX_FRAMES:]
    calls: dict[tuple[str, str], TracedFrame] = {}

    def note(running: types.FrameType, event: str, _: Any) -> None:
        key = running.f_code.co_filename, running.f_code.co_name
        if event == "call" and key in wanted and key not in calls and running.f_code is not frame.code:
            calls[key] = _started(running)
            if len(calls) == len(wanted):
                raise _AllKnown

    if not wanted:
        return []
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call(frame)
    except (Exception, _AllKnown):  # noqa: BLE001, S110 - the calls before it are known
        pass
    finally:
        sys.setprofile(before)
    return [calls[key] for key in reversed(wanted) if key in calls]


def _started(running: types.FrameType) -> TracedFrame:
    code, values = running.f_code, dict(running.f_locals)
    free = {name: values.pop(name) for name in code.co_freevars if name in values}
    return TracedFrame(code, running.f_globals, values, free)


def call(frame: TracedFrame) -> Any:
    """Make the call of a frame in eager mode."""
    code = frame.code
    cells = tuple(types.CellType(frame.free.get(name)) for name in code.co_freevars)
    function = types.FunctionType(code, dict(frame.names), code.co_name, None, cells)
    positional, named = frame.passed()
    return function(*positional, **named)
