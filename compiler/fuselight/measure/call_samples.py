"""What the thread that makes a call is in, looked up now and then by another thread of the same process.

For the stretches of a first call that torch tells nothing of. Only the first call is watched so: a look takes the
interpreter's lock for a tenth of a millisecond or less, 0.5 % of a compile; a steady call may take no longer than one
look. Invariant: no thread is left when the block has ended; what is kept grows with the logarithm of its time.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType

from fuselight.report import Location
from fuselight.target.importing import is_users

EVERY = 0.02
"""Seconds between two looks, at first."""
_MANY = 4096
"""Looks after which there are half as many in the same time."""
_DEEP = 400
"""Frames of a stack that are looked at, innermost first."""
_LIBRARIES = frozenset({"torch", "triton"})
_BETWEEN = frozenset({"contextlib", __name__, "fuselight.measure.compile_steps"})
"""Modules between a `with` and `sampling_calls`."""


@dataclass(frozen=True)
class Sample:
    """One look."""

    ns: int
    """By `time.perf_counter_ns`."""
    name: str
    """`torch._inductor.codecache.load`, `import sympy`, `model.forward`."""
    location: Location | None = None
    """The user's line, where it is in user code."""


@dataclass
class _Watch:
    thread: int
    base: FrameType | None
    roots: tuple[str, ...]
    samples: list[Sample] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        every, due = EVERY, _MANY
        while not self.done.wait(every):
            now, top = time.perf_counter_ns(), sys._current_frames().get(self.thread)  # noqa: SLF001 - Python's only way
            if top is not None:
                name, location = _where(top, self.base, self.roots)
                self.samples.append(Sample(now, name, location))
            if len(self.samples) >= due:
                every, due = 2 * every, due + _MANY


@contextlib.contextmanager
def sampling_calls(roots: Sequence[str] = ()) -> Iterator[list[Sample]]:
    """Look every 20 ms what this thread is in, until the block ends. `roots`: folders of the user's code."""
    watch = _Watch(threading.get_ident(), _caller(), tuple(roots))
    thread = threading.Thread(target=watch.run, name="fuselight-samples", daemon=True)
    thread.start()
    try:
        yield watch.samples
    finally:
        watch.done.set()
        thread.join()
        watch.base = None


def _caller() -> FrameType | None:
    """The frame that entered the block: whatever is outside of it is not of the call."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - Python's only way
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame


def _where(top: FrameType, base: FrameType | None, roots: tuple[str, ...]) -> tuple[str, Location | None]:
    """Name the import that goes on, else the innermost function of torch or of the user, else the innermost of all."""
    found: tuple[str, Location | None] | None = None
    importing, frame = "", top
    for _ in range(_DEEP):
        if frame.f_code.co_name == "<module>":
            importing = _module(frame)  # an outer one follows, if there is one
        elif found is None and _is_theirs(frame, roots):
            found = _named(frame, roots)
        above = frame.f_back
        if above is None or above is base:
            break
        frame = above
    if importing:
        return f"import {importing}", None
    return found or (f"{_module(top)}.{_function(top)}", None)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))


def _is_theirs(frame: FrameType, roots: tuple[str, ...]) -> bool:
    return _module(frame).partition(".")[0] in _LIBRARIES or is_users(frame.f_code.co_filename, roots)


def _named(frame: FrameType, roots: tuple[str, ...]) -> tuple[str, Location | None]:
    function = _function(frame)
    location = None
    if is_users(frame.f_code.co_filename, roots):
        location = Location(frame.f_code.co_filename, frame.f_lineno, function=function)
    return f"{_module(frame)}.{function}", location


def _function(frame: FrameType) -> str:
    """Qualified from Python 3.11 on."""
    return str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))
