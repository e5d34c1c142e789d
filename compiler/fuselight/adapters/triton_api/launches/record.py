"""What is known of a launch after it: whether its values are right, and which accesses were outside of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuselight.adapters.triton_api.launches.specializations import LaunchRecord


@dataclass(frozen=True)
class AccessFault:
    """Accesses of one line of a kernel outside of an argument's memory. None of them happened."""

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


@dataclass(frozen=True)
class LaunchOutcome:
    """A launch whose values are not all known."""

    kernel: str
    path: str
    """File of the kernel."""
    line: int
    """Line of its `def`."""
    unknown: str = ""
    """Why values of it are unknown, as a clause; empty where only `faults` speak against them."""
    faults: tuple[AccessFault, ...] = ()


class LaunchStopped(BaseException):
    """Ends the interpretation of a launch. The message says why its values are unknown.

    No Exception: the code of a kernel, and Triton's interpreter, must not handle it.
    """


@dataclass
class LaunchLog:
    """The launches of a process."""

    on_outcome: Callable[[LaunchOutcome, FrameType | None], None]
    """Called for each launch whose values are not all known, with the innermost frame that led to it."""
    on_uncompiled: Callable[[], None] = lambda: None
    """Called where a graph with kernels is not compiled, because Inductor would have to compile it for a CPU."""
    record: LaunchRecord | None = None
    """Gets the specializations that are launched."""
    launches: int = 0
    seconds: float = 0.0
    """Of interpretation, all launches together."""
    slow: set[Any] = field(default_factory=set)
    """Launches that exceeded their budget: equal ones are not tried again."""

    def note_uncompiled(self) -> None:
        """Note that a graph with kernels is not compiled."""
        self.on_uncompiled()
