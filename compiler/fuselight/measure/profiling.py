"""Profiles some calls of a function with torch.profiler, and reads what it tells.

Invariant: the profiler is off when a function of this module returns or raises; nothing is compiled, and nothing is
changed by it but time.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from fuselight.dynamo import stacks
from fuselight.measure import labels
from fuselight.measure.placing import placed_operators
from fuselight.measure.recording import CUPTI, RECORD_FUNCTIONS, Event, PlacedOperator, Recording
from fuselight.measure.trace_events import read_trace, read_windows
from fuselight.report import Stack
from fuselight.torch_api.profiling import marked_operators, marks_compiled_calls

MOST_EVENTS = 20_000
"""Of one recording: half a second to read. More calls than these give change no median."""
_FEW_CALLS = 5
_FEW_EVENTS = 100_000
"""So many calls at least, for a median, while they are no more than these: seconds to read, some 100 MiB meanwhile."""

_ENDS_A_CYCLE = "Warning: Profiler clears events at the end of each cycle"
"""What torch warns of where a process profiles a second time."""


class NotProfiledError(Exception):
    """There is no profile, and the message says why in words for the user."""


@dataclass(frozen=True)
class Trace:
    """Profiled calls as the profiler tells of them, not yet read."""

    text: str
    calls: int
    device: torch.device


def record_calls(
    call: Callable[[], object],
    calls: int,
    device: torch.device,
    *,
    lines: bool = False,
    most_events: int = MOST_EVENTS,
) -> Recording:
    """Profile calls and read what the profiler tells, see `trace_calls` and `read_calls`.

    With `lines`, for eager calls alone, a further one tells of each operator which line calls it.
    """
    recording = read_calls(trace_calls(call, calls, device, most_events=most_events))
    return replace(recording, operators=record_lines(call, device, compiled=False)) if lines else recording


def trace_calls(
    call: Callable[[], object], calls: int, device: torch.device, *, most_events: int = MOST_EVENTS
) -> Trace:
    """Profile `calls` calls, fewer where they would be more than some `most_events` events, each waited for.

    One more call goes ahead, to start the profiler and to count its events. Raises NotProfiledError, and what `call`
    raises.
    """
    each = max(1, len(_seen(_profiled(call, 1, device), device)))
    few = min(_FEW_CALLS, _FEW_EVENTS // MOST_EVENTS * most_events // each)
    count = max(1, min(calls, max(few, most_events // each)))
    return Trace(_profiled(call, count, device), count, device)


def read_calls(trace: Trace) -> Recording:
    """What a trace tells. Takes some 30 us for each event. Raises NotProfiledError."""
    events = _seen(trace.text, trace.device)
    windows = read_windows(events)
    if len(windows) != trace.calls:
        raise NotProfiledError(
            f"the profiler tells of {len(windows)} calls where {trace.calls} were made; what it tells of is incomplete"
        )
    return Recording(
        source=CUPTI if trace.device.type == "cuda" else RECORD_FUNCTIONS,
        device=str(trace.device),
        events=events,
        windows=windows,
    )


def _profiled(
    call: Callable[[], object],
    calls: int,
    device: torch.device,
    *,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> str:
    """The trace of `calls` calls. The device is idle when each of them begins."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    _wait(device)
    profiler = profile(activities=activities)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_ENDS_A_CYCLE)  # nothing for the user, nor to fail on
        profiler.start()
    try:
        for _ in range(calls):
            with record_function(labels.CALL), around():
                call()
            _wait(device)
    finally:
        profiler.stop()
    return _exported(profiler)


def _seen(text: str, device: torch.device) -> tuple[Event, ...]:
    """The events of a trace. Raises NotProfiledError where it tells nothing of the device."""
    events = read_trace(text)
    if device.type == "cuda" and not any(
        event.on_device or event.correlation is not None for event in events
    ):
        # Each call was waited for by way of the CUDA runtime: a profiler that sees the runtime sees at least that.
        raise NotProfiledError(
            "the profiler saw nothing of the GPU: another tool holds its profiling interface (CUPTI), as Nsight, DCGM "
            "or another profiler does, or this user may not use it"
        )
    return events


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _exported(profiler: profile) -> str:
    """The trace, as the profiler writes it: the one form in which all versions give it whole."""
    descriptor, path = tempfile.mkstemp(suffix=".json", prefix="fuselight-profile-")
    os.close(descriptor)
    try:
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    finally:
        os.unlink(path)


def record_lines(
    call: Callable[[], object], device: torch.device, *, compiled: bool
) -> tuple[PlacedOperator, ...]:
    """The eager operators of one call with their lines, of the thread that calls; () where they cannot be had.

    With `compiled`, parts of the call are Inductor's code, which runs as it is. Not for other backends: theirs may run
    operators in frames whose lines are not the user's.
    """
    if compiled and not marks_compiled_calls():
        return ()
    known: dict[Stack, int] = {}

    def mark() -> str:
        return f"{labels.LINE}{known.setdefault(stacks.calling_frames(), len(known))}"

    try:
        events = read_trace(_profiled(call, 1, device, around=lambda: marked_operators(mark)))
    except Exception:  # noqa: BLE001 - it has run before: what fails is to look at it, and the times are there
        return ()
    return placed_operators(events, tuple(known))
