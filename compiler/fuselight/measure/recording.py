"""A profile as plain events: what is read, tested and kept as a recording, without torch.

Invariant: times are nanoseconds of one clock, host and device alike, and nothing is joined or left out here but what
no reader of ours needs.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.report import Stack

CUPTI = "CUPTI"
"""`Recording.source` of a GPU's profile."""
RECORD_FUNCTIONS = "record functions"
"""`Recording.source` on the CPU: what ran is known by the operators and C++ kernels that tell of themselves."""


class EventKind(str, enum.Enum):
    """Who tells of an event."""

    KERNEL = "kernel"
    """On the device."""
    COPY = "copy"
    """A memory copy or set on the device, or between it and the host."""
    RUNTIME = "runtime"
    """A call of the CUDA runtime or driver, on the host."""
    OPERATOR = "operator"
    """torch's own record, on the host: an operator, a C++ kernel, a launch, a compiled region."""
    ANNOTATION = "annotation"
    """Somebody's `record_function`, on the host."""


@dataclass(frozen=True)
class Event:
    """One event of a profile."""

    name: str
    kind: EventKind
    start_ns: int
    ns: int
    thread: int
    """The host's thread, or the device's stream."""
    correlation: int | None = None
    """What joins a call of the runtime to the work that it brings to the device; that of a replayed CUDA graph is
    the same for all of its work."""
    sequence: int | None = None
    """Autograd's number of an operator, the same for its backward."""

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.start_ns + self.ns

    @property
    def on_device(self) -> bool:
        """Whether it is work of the device."""
        return self.kind in {EventKind.KERNEL, EventKind.COPY}


@dataclass(frozen=True)
class Window:
    """One profiled call."""

    start_ns: int
    end_ns: int
    """When it had returned, and its last work on the device had ended."""
    thread: int
    """The host's thread that called."""


@dataclass(frozen=True)
class PlacedOperator:
    """An eager operator that no other operator called, and the line that called it."""

    name: str
    """`aten::linear`."""
    stack: Stack = ()
    """The user's and libraries' frames, outermost first; empty where there is none."""


@dataclass(frozen=True)
class Recording:
    """Some profiled calls of one function."""

    source: str
    """`CUPTI` or `RECORD_FUNCTIONS`."""
    device: str
    """`cpu`, `cuda:0`."""
    events: tuple[Event, ...]
    windows: tuple[Window, ...]
    """In the order of time; they do not overlap."""
    operators: tuple[PlacedOperator, ...] = ()
    """Of one call of its own, in order: the operators of the calling thread with their lines; eager calls only."""
    made: dict[str, str] = field(default_factory=dict)
    """Of what is kept: versions, the device's name, the command, the model."""

    @property
    def on_device(self) -> bool:
        """Whether kernels run on a device of their own, beside the host."""
        return self.source == CUPTI
