"""What one Triton kernel becomes on a device: its registers, its memory, and the texts from TTIR down to assembly.

Invariant: every figure is the compiler's own, read from what it wrote; nothing here was measured on a GPU. What could
not be learnt is None, and `failure` or `problems` say why.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LaunchConfig:
    """One way to launch a kernel that Inductor's heuristics give for the device and the sizes."""

    values: dict[str, int | str] = field(default_factory=dict)
    """Block sizes and other constants that it fixes, as `XBLOCK`: 1024. What is no whole number is Python's text."""
    num_warps: int = 4
    num_stages: int = 1


@dataclass(frozen=True)
class Occupancy:
    """How many warps of the kernel a multiprocessor can hold at once."""

    warps: int
    """Resident warps."""
    most: int
    """Warps that the device could hold."""
    blocks: int
    """Resident blocks."""
    limited_by: str
    """What ends first: `registers`, `shared memory`, `blocks` or `warps`; `warps` where it is as full as it can be."""


@dataclass(frozen=True)
class Listing:
    """One text of the kernel, between its source and the device."""

    text: str
    lines: tuple[int, ...] = ()
    """For each line of `text` in order the 1-based line of the Triton source that it comes from, 0 where there is
    none. Code that was inlined from a library counts for the line that called it."""


@dataclass(frozen=True)
class Assembled:
    """One Triton kernel, compiled for a device in one of its configurations, and not launched."""

    configs: tuple[LaunchConfig, ...] = ()
    """What Inductor would try. Where there are several it times them on the GPU and keeps the fastest."""
    default: int | None = None
    """Position in `configs` of the one that Inductor takes where it does not tune."""
    config: int | None = None
    """Position in `configs` of the one that the figures below are of."""
    smaller: LaunchConfig | None = None
    """A configuration with half the reduction block that Inductor would try as well, since this one's registers keep
    the device from being filled."""
    grid: tuple[int, ...] | None = None
    """Blocks launched along x, y and z; None where the sizes are known at run time only."""
    registers: int | None = None
    """Per thread."""
    spills: int | None = None
    """Bytes per thread that did not fit into registers and go through memory."""
    shared: int | None = None
    """Shared memory of a block, bytes."""
    num_warps: int | None = None
    """As compiled: the compiler adds warps where it specialises them."""
    num_stages: int | None = None
    occupancy: Occupancy | None = None
    listings: dict[str, Listing] = field(default_factory=dict)
    """By stage: `ttir`, `ttgir`, `llir`, then `ptx` and `sass` for NVIDIA, `amdgcn` for AMD. Those that were reached,
    where a later one failed."""
    disassembled: bool = False
    """Whether `sass` was asked for: without that it is not in `listings`."""
    failure: str | None = None
    """Why it does not run on the device, with the compiler's own words."""
    failure_line: int | None = None
    """1-based line of the Triton source that the compiler refused."""
    problems: tuple[str, ...] = ()
    """What could not be learnt or kept, and why; the rest holds."""
    triton: str | None = None
    """The version that compiled it."""
