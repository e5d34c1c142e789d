"""What the allocator of a process did, as data.

Invariant: the rows of a moment add up to its bytes. A fact that a snapshot does not have is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fuselight.shared.report import Location, file_name


class TensorOrigin(Enum):
    """What is known of where tensors were made."""

    LINE = "line"
    """A line of the job's own code."""
    LIBRARY = "library"
    """A line of an installed package, which no line of the job's own code called."""
    NO_STACK = "no_stack"
    """Made while it was recorded, without a Python stack: by the threads of the backward, or of a C++ library."""
    BEFORE = "before"
    """Made before the recording began."""


@dataclass(frozen=True)
class HeldTensors:
    """The tensors that are alive at a moment, of one line."""

    origin: TensorOrigin
    bytes: int
    """As the allocator rounds them."""
    tensors: int
    location: Location | None
    """With paths of the job, or local ones once they are mapped."""
    is_compiled: bool = False
    """Whether compiled code made them."""
    inside: Location | None = None
    """The line of an installed package that made most of them, called by the line."""


@dataclass(frozen=True)
class MemoryMoment:
    """The state of the allocator at a moment of the recording."""

    allocated: int
    """Bytes of tensors."""
    reserved: int
    """Bytes that the allocator has from the driver."""
    event: int
    """Number of the event before it; -1 for the start."""
    seconds: float | None
    """Since the epoch."""
    held: tuple[HeldTensors, ...]
    """Most bytes first."""


@dataclass(frozen=True)
class FreeMemory:
    """What is reserved and not allocated."""

    bytes: int
    whole_segments: int
    """Bytes of segments without any tensor: the allocator can give them back."""
    between_tensors: int
    """Bytes in segments with tensors: of use only for tensors that fit into a piece."""
    largest: int
    """Bytes of the largest piece."""
    pinned_by: tuple[HeldTensors, ...]
    """By line, the bytes between tensors in the segments that tensors of the line keep, most first."""


@dataclass(frozen=True)
class OutOfMemory:
    """An allocation that failed."""

    requested: int
    """Bytes that were asked for."""
    device_free: int
    """Bytes that the driver had left."""
    moment: MemoryMoment
    location: Location | None
    """The line that asked."""
    callers: tuple[Location, ...]
    """The lines of the job's own code that led to it, outermost first."""


class StepMark(Enum):
    """By what the steps of a recording are counted."""

    OPTIMIZER = "optimizer"
    BACKWARD = "backward"
    PART = "part"
    """No steps are known: equal parts of the recording."""


@dataclass(frozen=True)
class GrowingLine:
    """A line whose tensors are never freed, again and again."""

    held: HeldTensors
    """All of them, in the steps that were compared."""
    steps: int
    """In how many steps the line made some."""
    callers: tuple[Location, ...]
    """The lines of the job's own code that led to the last one, outermost first."""
    is_replaced: bool = False
    """Whether each tensor takes the place of a smaller one, and `held` is by how much they grow."""


@dataclass(frozen=True)
class MemoryGrowth:
    """What is left of each step."""

    mark: StepMark
    steps: int
    """How many were compared: the first and what is not complete are left out."""
    allocated: tuple[int, ...]
    """Bytes at the end of each of them."""
    lines: tuple[GrowingLine, ...]
    """Most bytes first."""


@dataclass(frozen=True)
class DeviceMemory:
    """One device of one process."""

    device: int
    events: int
    peak: MemoryMoment
    end: MemoryMoment
    free: FreeMemory
    """At the end."""
    peak_reserved: int
    failures: tuple[OutOfMemory, ...]
    """The first and the last one, if several."""
    failure_count: int
    growth: MemoryGrowth | None
    """None if the recording is too short."""
    has_expandable_segments: bool


@dataclass(frozen=True)
class ProcessMemory:
    """The snapshot of one process."""

    file: str
    rank: int | None
    """As in the name of the file or of its folder."""
    taken: float | None
    """Seconds since the epoch of its last event."""
    devices: tuple[DeviceMemory, ...]

    @property
    def label(self) -> str:
        """`rank 3`, or the name of the file."""
        return f"rank {self.rank}" if self.rank is not None else file_name(self.file)


@dataclass(frozen=True)
class MemoryDifference:
    """A line that holds more on one rank than on another, at the peak of each."""

    location: Location | None
    origin: TensorOrigin
    most: int
    most_rank: int
    least: int
    least_rank: int


@dataclass(frozen=True)
class JobMemory:
    """The snapshots of a job."""

    processes: tuple[ProcessMemory, ...]
    differences: tuple[MemoryDifference, ...] = ()
    """Between the rank with the highest peak and the one with the lowest, largest first; empty if they are alike."""
    notes: tuple[str, ...] = ()
