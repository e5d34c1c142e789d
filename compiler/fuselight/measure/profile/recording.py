"""A profile as plain events, read from an exported torch.profiler trace: parsed, tested and stored without torch.

Invariant: times are nanoseconds of one clock for host and device. Nothing is joined here, no device event is dropped,
and of the others only events that no consumer needs.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from fuselight.measure.profile import torch_records
from fuselight.shared.report import Stack

CUPTI = "CUPTI"
"""`Recording.source` of a GPU profile."""
RECORD_FUNCTIONS = "record functions"
"""`Recording.source` on the CPU: operators and C++ kernels record themselves."""


class EventKind(str, enum.Enum):
    """The source of an event."""

    KERNEL = "kernel"
    """A kernel on the device."""
    COPY = "copy"
    """A memory copy or set on the device, or between it and the host."""
    RUNTIME = "runtime"
    """A call of the CUDA runtime or driver, on the host."""
    OPERATOR = "operator"
    """A torch record on the host: an operator, a C++ kernel, a launch, a compiled region."""
    ANNOTATION = "annotation"
    """A `record_function` of any program, on the host."""


_KINDS = {
    "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.COPY,
    "gpu_memset": EventKind.COPY,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "cpu_op": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
}
_ON_DEVICE = frozenset({EventKind.KERNEL, EventKind.COPY})


@dataclass(frozen=True)
class Event:
    """One event of a profile."""

    name: str
    kind: EventKind
    start_ns: int
    ns: int
    thread: int
    """The host thread, or the device stream."""
    correlation: int | None = None
    """Joins a runtime call to the device work that it launches; a replayed CUDA graph has one number for all of its
    work."""
    sequence: int | None = None
    """Autograd's sequence number of an operator, the same for its backward."""

    @property
    def end_ns(self) -> int:
        """End of the event."""
        return self.start_ns + self.ns

    @property
    def on_device(self) -> bool:
        """Whether it is device work."""
        return self.kind in _ON_DEVICE


@dataclass(frozen=True)
class Window:
    """One profiled call."""

    start_ns: int
    end_ns: int
    """Time at which the call had returned and its last device work had ended."""
    thread: int
    """The host thread that made the call."""


@dataclass(frozen=True)
class PlacedOperator:
    """A top-level eager operator and the line that called it."""

    name: str
    """`aten::linear`."""
    stack: Stack = ()
    """User and library frames, outermost first; empty if there are none."""


@dataclass(frozen=True)
class Recording:
    """Some profiled calls of one function."""

    source: str
    """`CUPTI` or `RECORD_FUNCTIONS`."""
    device: str
    """`cpu`, `cuda:0`."""
    events: tuple[Event, ...]
    windows: tuple[Window, ...]
    """In order of time; they do not overlap."""
    operators: tuple[PlacedOperator, ...] = ()
    """From a separate call: the operators of the calling thread in order, with their lines; eager calls only."""
    made: dict[str, str] = field(default_factory=dict)
    """Origin of a stored recording: versions, device name, command, model."""

    @property
    def on_device(self) -> bool:
        """Whether kernels run on a separate device."""
        return self.source == CUPTI


def read_trace(text: str) -> tuple[Event, ...]:
    """The events of an exported trace in order of time, outer events before inner ones.

    Raises ValueError if the text is not a trace.
    """
    trace = json.loads(text, parse_float=Decimal)  # microseconds with three digits, exactly
    value = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(value, list):
        raise ValueError("it holds no traceEvents")  # noqa: TRY004 - the text is what is wrong
    return tuple(sorted(_events(value), key=lambda event: (event.start_ns, -event.ns)))


def _events(results: list[Any]) -> Iterator[Event]:
    for result in results:
        kind = (
            _KINDS.get(result.get("cat", ""))
            if isinstance(result, dict) and result.get("ph") == "X"
            else None
        )
        if kind is None:
            continue
        arguments = result.get("args") or {}
        yield Event(
            name=result["name"],
            kind=kind,
            start_ns=int(result["ts"] * 1000),
            ns=int(result.get("dur", 0) * 1000),
            thread=_number(arguments.get("stream") if kind in _ON_DEVICE else result.get("tid")) or 0,
            correlation=_number(arguments.get("correlation")),
            sequence=_number(arguments.get("Sequence number")),
        )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def read_windows(events: tuple[Event, ...]) -> tuple[Window, ...]:
    """The profiled calls in order of time: device work before the next call belongs to the current one."""
    marks = [
        event for event in events if event.kind is EventKind.ANNOTATION and event.name == torch_records.CALL
    ]
    windows, at = [], 0
    work = [event for event in events if event.on_device]
    for mark, later in zip_longest(marks, marks[1:]):
        limit = None if later is None else later.start_ns
        end = mark.end_ns
        while at < len(work) and (limit is None or work[at].start_ns < limit):
            if work[at].start_ns >= mark.start_ns:
                end = max(end, work[at].end_ns)
            at += 1
        windows.append(Window(mark.start_ns, end if limit is None else min(end, limit), mark.thread))
    return tuple(windows)
