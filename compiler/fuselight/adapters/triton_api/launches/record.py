"""What is known of a launch after it: whether its values are right, and which accesses were outside of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from fuselight.shared.report import TuningChange

if TYPE_CHECKING:
    from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
    from fuselight.adapters.triton_api.launches.specializations import LaunchRecord


@dataclass(frozen=True)
class AccessFault:
    """What is wrong with accesses of one line of a kernel."""

    access: str
    """`load`, `store` or `atomic`."""
    path: str
    line: int
    """1-based."""
    argument: str
    """Name of the kernel's parameter; empty where the address is near none."""
    offset: int
    """Of the first such access, in elements from the argument's first one."""
    elements: int
    """How many elements the argument has from its first one on."""
    masked: bool
    """Whether the access has a mask, or a boundary check."""
    program: tuple[int, int, int]
    """The program that made the first one."""
    kind: FaultKind = "bounds"
    exact: int = 0
    """Of `overflow`: the offset that the program means, of which `offset` is what 32 bits leave."""
    other_program: tuple[int, int, int] = (0, 0, 0)
    """Of `race`: the program that also writes the element, or reads it; equal to `program` for one block that does."""
    other_access: str = ""
    """Of `race`: what the other program does, `load` or `store`."""
    count: int = 1
    """Of `race` and `unwritten`: how many elements."""
    useful: float = 1.0
    """Of `sectors`: the part of the bytes of all 32-byte sectors that is used, 0 to 1."""


FaultKind = Literal["bounds", "descriptor", "overflow", "race", "unwritten", "sectors", "left out"]
"""`bounds`: outside of the argument's memory; the access did not happen. `descriptor`: the same, inside of the shape of
its tensor descriptor. `overflow`: at another address than meant,
because 32-bit arithmetic overflowed. `race`: two programs, or two lanes of a block, write different values to an
element, or one reads what another one changes. `unwritten`: read, but written by nobody. `sectors`: most of the bytes
that the access fetches are not used. `left out`: a maximum or minimum (`access`) counts elements that the mask of
a load leaves out, as 0."""


@dataclass(frozen=True)
class AddressReport:
    """How far the addresses of a launch were checked without values."""

    programs: int
    """How many programs were checked."""
    total: int
    """How many the launch has."""
    is_complete: bool
    """Whether each of them was checked to its end, with all iterations of its loops."""
    open: tuple[tuple[str, int, str], ...] = ()
    """What is not known: file, line, and the reason as a clause."""


@dataclass(frozen=True)
class LaunchOutcome:
    """A launch whose values are not all known, or of which something is wrong."""

    kernel: str
    path: str
    """File of the kernel."""
    line: int
    """Line of its `def`."""
    unknown: str = ""
    """Why values of it are unknown, as a clause; empty where only `faults` speak against them."""
    faults: tuple[AccessFault, ...] = ()
    addresses: AddressReport | None = None
    """Of a launch whose addresses were checked without values."""
    tuning: TuningChange | None = None
    """What the timed runs of its autotuner change in its first result."""


@dataclass(frozen=True)
class LaunchSummary:
    """A launch as it compares with one for other inputs."""

    kernel: str
    path: str
    """File of the kernel."""
    grid: tuple[int, int, int]
    shapes: dict[str, tuple[int, ...]]
    """Of each argument that is a tensor."""
    written: frozenset[str]
    """The arguments that it writes."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Of each argument that is a number."""


class LaunchStopped(BaseException):
    """Ends the interpretation of a launch. The message says why its values are unknown.

    No Exception: the code of a kernel, and Triton's interpreter, must not handle it.
    """


@dataclass
class LaunchLog:
    """The launches of a process."""

    on_outcome: Callable[[LaunchOutcome, FrameType | None], None]
    """Called for each launch whose values are not all known, with the innermost frame that led to it."""
    stack_of: Callable[[FrameType], Any] = lambda _: None
    """Describes where a launch is made, for `UninitializedMemory`."""
    on_uncompiled: Callable[[], None] = lambda: None
    """Called where a graph with kernels is not compiled, because Inductor would have to compile it for a CPU."""
    record: LaunchRecord | None = None
    """Gets the specializations that are launched."""
    launches: int = 0
    seconds: float = 0.0
    """Of interpretation, all launches together."""
    address_seconds: float = 0.0
    """Of address checks, all launches together."""
    checked: set[Any] = field(default_factory=set)
    """Launches whose addresses were checked: equal ones are not checked again."""
    slow: set[Any] = field(default_factory=set)
    """Launches that exceeded their budget: equal ones are not tried again."""

    summaries: list[LaunchSummary] | None = None
    """Gets each launch that is computed or checked, if it is a list."""
    uninitialized: UninitializedMemory | None = None
    """Follows memory that is allocated without values, where a run asks for that."""

    def note_uncompiled(self) -> None:
        """Note that a graph with kernels is not compiled."""
        self.on_uncompiled()
