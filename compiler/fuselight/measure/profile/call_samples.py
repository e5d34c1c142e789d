"""Samples the stack of the thread that makes a call, from another thread of the same process.

Fills the parts of a first call that torch does not report. Only the first call is sampled: one sample holds the
interpreter lock for 0.1 ms or less, 0.5% of a compile, while a steady call may be shorter than one sample. Invariant:
no thread is left when the block has ended, and no frame is held between samples, because it would keep the call's
tensors alive, which CUDA graphs refuse. Stored data grows with the logarithm of the duration.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType

from fuselight.report import Location, is_user_file

EVERY = 0.02
"""Seconds between two samples, at first."""
_MANY = 4096
"""Number of samples after which the interval doubles."""
_DEEP = 400
"""Maximum frames of a stack that are read, innermost first."""
_LIBRARIES = frozenset({"torch", "triton"})
_BETWEEN = frozenset({"contextlib", __name__, "fuselight.measure.profile.compile_steps"})
"""Modules between a `with` statement and `sampling_calls`."""


@dataclass(frozen=True)
class CallSample:
    """One sample."""

    ns: int
    """From `time.perf_counter_ns`."""
    name: str
    """`torch._inductor.codecache.load`, `import sympy`, `model.forward`."""
    location: Location | None = None
    """The user's line, if the sample is in user code."""


@dataclass
class _Watch:
    thread: int
    base: FrameType | None
    roots: tuple[str, ...]
    samples: list[CallSample] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        every, due = EVERY, _MANY
        while not self.done.wait(every):
            now, stack = time.perf_counter_ns(), _stack(self.thread, self.base)
            if stack:
                name, location = _where(stack, self.roots)
                self.samples.append(CallSample(now, name, location))
            if len(self.samples) >= due:
                every, due = 2 * every, due + _MANY


@contextlib.contextmanager
def sampling_calls(roots: Sequence[str] = ()) -> Iterator[list[CallSample]]:
    """Sample this thread's stack every 20 ms until the block ends. `roots`: folders of the user's code."""
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
    """The frame that entered the block: frames outside of it do not belong to the call."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - Python's only way
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame


@dataclass(frozen=True)
class _Called:
    """The data kept of one frame."""

    code: CodeType
    line: int
    module: str

    @property
    def function(self) -> str:
        """The function's name, qualified from Python 3.11 on."""
        return str(getattr(self.code, "co_qualname", self.code.co_name))


def _stack(thread: int, base: FrameType | None) -> list[_Called]:
    """The frames of a thread within `base`, innermost first; the frame objects are released immediately."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way
    found: list[_Called] = []
    while frame is not None and frame is not base and len(found) < _DEEP:
        found.append(_Called(frame.f_code, frame.f_lineno, str(frame.f_globals.get("__name__", "?"))))
        frame = frame.f_back
    return found


def _where(stack: Sequence[_Called], roots: tuple[str, ...]) -> tuple[str, Location | None]:
    """Name the active import, else the innermost function of torch or the user, else the innermost function."""
    imported = [one for one in stack if one.code.co_name == "<module>"]
    if imported:
        return f"import {imported[-1].module}", None
    return next(
        (_named(one, roots) for one in stack if _is_theirs(one, roots)),
        (f"{stack[0].module}.{stack[0].function}", None),
    )


def _is_theirs(one: _Called, roots: tuple[str, ...]) -> bool:
    return one.module.partition(".")[0] in _LIBRARIES or is_user_file(one.code.co_filename, roots)


def _named(one: _Called, roots: tuple[str, ...]) -> tuple[str, Location | None]:
    location = None
    if is_user_file(one.code.co_filename, roots):
        location = Location(one.code.co_filename, one.line, function=one.function)
    return f"{one.module}.{one.function}", location
