"""Launches of the user's own Triton kernels on a machine without a GPU, as far as something is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report.place import Location, Stack


@dataclass(frozen=True)
class KernelFault:
    """Accesses of one line of a Triton kernel outside of a tensor. None of them happened."""

    kernel: str
    location: Location
    """The line of the kernel."""
    access: str
    """`load`, `store` or `atomic`."""
    argument: str
    """Name of the kernel's parameter; empty where the address is near none."""
    offset: int
    """Of the first such access, in elements from the argument's first one."""
    elements: int
    """How many elements the argument has, from its first one on."""
    masked: bool = False
    """Whether the access has a mask, or a boundary check."""
    program: tuple[int, int, int] = (0, 0, 0)
    """The program that made the first one, as `tl.program_id` gives it for the three axes."""
    launch: Stack = ()
    """Where the kernel was launched."""
