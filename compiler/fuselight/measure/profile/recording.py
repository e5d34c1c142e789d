"""A profile as plain events: parsed, tested and stored without torch.

Invariant: times are nanoseconds of one clock for host and device. Nothing is joined here, and only events that no
consumer needs are dropped.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.report import Stack

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
        return self.kind in {EventKind.KERNEL, EventKind.COPY}


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
