# ruff: noqa: SLF001 - private names are this package's business
"""Records torch's own compile events in this process: which phase begins and which ends.

torch reports each phase to its ChromiumEventLogger, whether or not TORCH_TRACE is set. Invariant: both methods are
restored when the block ends, and no exception of this module reaches torch. Times are `time.perf_counter_ns`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.utils
import torch._guards

from fuselight.adapters.torch_api.dynamo.frames import RESUME
from fuselight.adapters.torch_api.patching import wrapped
from fuselight.shared.report import Location

_MAX = 50_000
"""Phases that are kept before the shorter half of them is given up: a GPT-2 of 12 layers has some thousand."""


_ID_AT = 3
"""Index of `compile_id` among the positional arguments after the event name."""


@dataclass(frozen=True)
class CompilePhase:
    """One phase of a compile, on one thread."""

    name: str
    start_ns: int
    end_ns: int
    thread: int
    compile_id: str | None = None
    """Dynamo's id, as `1/0`; None outside of a compile, as in a thread that compiles C++."""


@dataclass
class CompileEvents:
    """The events between `start_ns` and `end_ns`; complete when the block has ended."""

    start_ns: int
    thread: int
    """The thread that entered the block, whose time is reported."""
    end_ns: int = 0
    phases: list[CompilePhase] = field(default_factory=list)
    """In the order in which they ended; those of one thread nest."""
    places: dict[str, Location] = field(default_factory=dict)
    """Compile id to the user's function, or to the line where a function resumes after a graph break."""
    given_up: int = 0
    """Number of short phases that were dropped because there were too many."""
    problem: str = ""
    """Why no events, or not all of them, were recorded."""


class _EventListener:
    """Takes the calls in, from any thread."""

    def __init__(self, events: CompileEvents) -> None:
        self.events = events
        self.active = True
        self._open: defaultdict[int, list[tuple[str, int, str | None]]] = defaultdict(list)
        """By thread, the phases that have begun and not ended, innermost last: (name, start, compile id)."""
        self._lock = threading.Lock()

    def began(self, name: str, compile_id: str | None) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._open[thread].append((name, time.perf_counter_ns(), compile_id))

    def ended(self, name: str, data: dict[str, Any]) -> None:
        """End the innermost phase of that name, and what torch has left open in it."""
        thread, now = threading.get_ident(), time.perf_counter_ns()
        with self._lock:
            stack = self._open[thread]
            if all(name != other for other, _, _ in stack):
                return  # it began before the block
            compile_id = None
            while stack:
                text, start, compile_id = stack.pop()
                self._keep(CompilePhase(text, start, now, thread, compile_id))
                if text == name:
                    break
            place = _place(data)
            if place is not None and compile_id is not None:
                self.events.places.setdefault(compile_id, place)

    def end_open_events(self) -> None:
        """End what is still open."""
        with self._lock:
            self.active = False
            self.events.end_ns = now = time.perf_counter_ns()
            for thread, stack in self._open.items():
                while stack:
                    name, start, compile_id = stack.pop()
                    self._keep(CompilePhase(name, start, now, thread, compile_id))

    def _keep(self, phase: CompilePhase) -> None:
        phases = self.events.phases
        phases.append(phase)
        if len(phases) >= _MAX:  # what holds a phase is as long as it, so what stays still nests
            middle = sorted(compile_phase.end_ns - compile_phase.start_ns for compile_phase in phases)[
                len(phases) // 2
            ]
            kept = [
                compile_phase
                for compile_phase in phases
                if compile_phase.end_ns - compile_phase.start_ns > middle
            ]
            self.events.given_up += len(phases) - len(kept)
            phases[:] = kept


@contextlib.contextmanager
def hear_compile_events() -> Iterator[CompileEvents]:
    """Record the phases of each compile until the block ends. Phases that began before the block are left out."""
    events = CompileEvents(time.perf_counter_ns(), threading.get_ident())
    listener = _EventListener(events)
    logger = getattr(torch._dynamo.utils, "ChromiumEventLogger", None)

    def log_start(real: Callable[..., Any], self: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
        if listener.active:
            _guarded(listener, lambda: listener.began(event_name, _compile_id(args, kwargs)))
        return real(self, event_name, *args, **kwargs)

    def log_end(real: Callable[..., Any], self: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
        if listener.active:
            _guarded(
                listener, lambda: listener.ended(event_name, self.get_event_data().get(event_name) or {})
            )
        return real(self, event_name, *args, **kwargs)

    with contextlib.ExitStack() as stack:
        if hasattr(logger, "log_event_start") and hasattr(logger, "log_event_end"):
            stack.enter_context(wrapped(logger, "log_event_start", log_start))
            stack.enter_context(wrapped(logger, "log_event_end", log_end))
        else:
            events.problem = f"torch {torch.__version__} has no events of a compile"
        stack.callback(listener.end_open_events)
        events.start_ns = time.perf_counter_ns()
        yield events


def _guarded(listener: _EventListener, hear: Callable[[], None]) -> None:
    try:
        hear()
    except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
        listener.events.problem = f"not all events of the compile were heard: {type(error).__name__}: {error}"


def _compile_id(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The id that the caller passes, or that of the compile that runs in this thread."""
    given = kwargs.get("compile_id") or (args[_ID_AT] if len(args) > _ID_AT else None)
    compile_id = given or torch._guards.CompileContext.current_compile_id()
    return None if compile_id is None else str(compile_id)


def _place(data: dict[str, Any]) -> Location | None:
    """Where the frame is that a compile was of, which torch adds to its outermost event."""
    path, line, name = (data.get(key) for key in ("co_filename", "co_firstlineno", "co_name"))
    if not isinstance(path, str) or not isinstance(line, int):
        return None
    resumed = RESUME.match(str(name))
    if resumed is not None:
        name, line = resumed["name"], int(resumed["line"])
    return Location(str(Path(path)), line, function=None if name is None else str(name))
