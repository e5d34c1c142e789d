"""Profiles calls of a function with torch.profiler and parses the result.

Invariant: the profiler is off when a function of this module returns or raises. Profiling compiles nothing and affects
only timing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from fuselight.adapters.torch_api.inductor.measurement import MarkedOperators, marks_compiled_calls
from fuselight.capture.dynamo import stacks
from fuselight.measure import timing
from fuselight.measure.profile import torch_records
from fuselight.measure.profile.eager_lines import placed_operators
from fuselight.measure.profile.recording import (
    CUPTI,
    RECORD_FUNCTIONS,
    Event,
    PlacedOperator,
    Recording,
    read_trace,
    read_windows,
)
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.report import Stack

MAX_EVENTS = 20_000
"""Event limit of one recording: half a second to parse. More calls than that do not change a median."""
_FEW_CALLS = 5
_FEW_EVENTS = 100_000
"""Calls at least, for a median, with at most so many events: they take seconds to read and some 100 MiB."""

_DETACHES = (12, 6)
"""The first CUDA with which CUPTI can be detached and attached again."""
_TEARDOWN = "TEARDOWN_CUPTI"
_ENDS_A_CYCLE = "Warning: Profiler clears events at the end of each cycle"
"""torch's warning when a process profiles a second time."""


class NotProfiledError(Exception):
    """There is no profile; the message says why."""


@dataclass(frozen=True)
class Trace:
    """Profiled calls in the profiler's format, not yet parsed."""

    text: str
    calls: int
    device: torch.device


def trace_calls(
    call: Callable[[], object],
    calls: int,
    device: torch.device,
    *,
    most_events: int = MAX_EVENTS,
) -> Trace:
    """Profile up to `calls` calls, fewer if they would exceed about `most_events` events; waits for each.

    An additional first call starts the profiler and counts the events; it is the only one if it has more than can be
    read several times. Raises NotProfiledError, and what `call` raises.
    """
    first = _profiled(call, 1, device)
    each = max(1, len(_seen(first, device)))
    few = min(_FEW_CALLS, _FEW_EVENTS // MAX_EVENTS * most_events // each)
    count = max(1, min(calls, max(few, most_events // each)))
    if count == 1 and each > most_events:
        return Trace(first, 1, device)
    return Trace(_profiled(call, count, device), count, device)


def read_calls(trace: Trace) -> Recording:
    """Parse a trace. Takes about 30 µs per event. Raises NotProfiledError."""
    events = _seen(trace.text, trace.device)
    windows = read_windows(events)
    if len(windows) != trace.calls:
        raise NotProfiledError(
            f"the profiler recorded {len(windows)} of {trace.calls} calls: the profile is incomplete"
        )
    return Recording(
        source=CUPTI if trace.device.type == "cuda" else RECORD_FUNCTIONS,
        device=str(trace.device),
        events=events,
        windows=windows,
    )


def detach(call: Callable[[], object], device: torch.device) -> None:
    """Detach CUPTI from the process: it stays attached after a profile, and each later launch takes longer.

    For a process in which calls without CUDA graphs will be timed; the next profile attaches it again. Kineto detaches
    at the end of a profile and loses what that profile has recorded (seen with torch 2.11 and CUDA 13.0), so this is a
    profile of its own. With a CUDA below 12.6 a later profile might crash.
    """
    version = tuple(int(part) for part in (torch.version.cuda or "0").split(".")[:2] if part.isdigit())
    if device.type == "cuda" and version >= _DETACHES:
        before = os.environ.get(_TEARDOWN)
        os.environ[_TEARDOWN] = "1"  # Kineto reads it at the end of a profile
        try:
            _profiled(call, 1, device)
        finally:
            os.environ.pop(_TEARDOWN, None)
            if before is not None:
                os.environ[_TEARDOWN] = before


def _profiled(
    call: Callable[[], object],
    calls: int,
    device: torch.device,
    *,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> str:
    """The trace of `calls` calls. The device is idle when each of them begins."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    timing.wait(device)
    profiler = profile(activities=activities)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_ENDS_A_CYCLE)  # the user cannot act on it
        profiler.start()
    try:
        for _ in range(calls):
            with record_function(torch_records.CALL), around():
                call()
            timing.wait(device)
    finally:
        profiler.stop()
    with owned_folder("profile") as folder:
        path = Path(folder, "trace.json")  # the one format that is complete in all versions
        profiler.export_chrome_trace(str(path))
        return path.read_text(encoding="utf-8", errors="replace")


def _seen(text: str, device: torch.device) -> tuple[Event, ...]:
    """The events of a trace. Raises NotProfiledError if it has no device events."""
    events = read_trace(text)
    if device.type == "cuda" and not any(
        event.on_device or event.correlation is not None for event in events
    ):
        # Each call waits through the CUDA runtime, so a working profiler records at least that.
        raise NotProfiledError(
            "the profiler saw nothing of the GPU: another tool holds its profiling interface (CUPTI), as Nsight, DCGM "
            "or another profiler does, or this user may not use it"
        )
    return events


def record_lines(
    call: Callable[[], object], device: torch.device, *, compiled: bool
) -> tuple[PlacedOperator, ...]:
    """The eager operators of one call with their lines, in the calling thread; () if they are not available.

    With `compiled`, parts of the call are Inductor code, which runs unchanged. Not for other backends, which may run
    operators in frames whose lines are not the user's.
    """
    if compiled and not marks_compiled_calls():
        return ()
    known: dict[Stack, int] = {}

    def mark() -> str:
        return f"{torch_records.LINE}{known.setdefault(stacks.calling_frames(), len(known))}"

    try:
        events = read_trace(_profiled(call, 1, device, around=lambda: MarkedOperators(mark)))
    except Exception:  # noqa: BLE001 - it has run before: what fails is to look at it, and the times are there
        return ()
    return placed_operators(events, tuple(known))
