"""What the thread that makes a call is in, looked up now and then by another thread of the same process.

For the stretches of a first call that torch tells nothing of. Only the first call is watched so: a look takes the
interpreter's lock for a tenth of a millisecond or less, 0.5 % of a compile; a steady call may take no longer than one
look. Invariant: no thread is left when the block has ended, and no frame is held between looks: the tensors of a call
that has returned would live on in it, which CUDA graphs refuse. What is kept grows with the logarithm of its time.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType

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
            now, stack = time.perf_counter_ns(), _stack(self.thread, self.base)
            if stack:
                name, location = _where(stack, self.roots)
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


@dataclass(frozen=True)
class _Called:
    """What is kept of one frame."""

    code: CodeType
    line: int
    module: str

    @property
    def function(self) -> str:
        """Qualified from Python 3.11 on."""
        return str(getattr(self.code, "co_qualname", self.code.co_name))


def _stack(thread: int, base: FrameType | None) -> list[_Called]:
    """The frames of a thread within `base`, innermost first; they themselves are let go at once."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - Python's only way
    found: list[_Called] = []
    while frame is not None and frame is not base and len(found) < _DEEP:
        found.append(_Called(frame.f_code, frame.f_lineno, str(frame.f_globals.get("__name__", "?"))))
        frame = frame.f_back
    return found


def _where(stack: Sequence[_Called], roots: tuple[str, ...]) -> tuple[str, Location | None]:
    """Name the import that goes on, else the innermost function of torch or of the user, else the innermost of all."""
    imported = [one for one in stack if one.code.co_name == "<module>"]
    if imported:
        return f"import {imported[-1].module}", None
    return next(
        (_named(one, roots) for one in stack if _is_theirs(one, roots)),
        (f"{stack[0].module}.{stack[0].function}", None),
    )


def _is_theirs(one: _Called, roots: tuple[str, ...]) -> bool:
    return one.module.partition(".")[0] in _LIBRARIES or is_users(one.code.co_filename, roots)


def _named(one: _Called, roots: tuple[str, ...]) -> tuple[str, Location | None]:
    location = None
    if is_users(one.code.co_filename, roots):
        location = Location(one.code.co_filename, one.line, function=one.function)
    return f"{one.module}.{one.function}", location
