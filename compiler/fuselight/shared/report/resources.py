"""Compilation of one Triton kernel for a device: registers, memory, and the texts from TTIR to assembly.

Invariant: every figure comes from the compiler's output; nothing here was measured on a GPU. Unknown values are None,
and `failure` or `problems` say why.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuselight.shared.report.place import LineNumber


@dataclass(frozen=True)
class LaunchConfig:
    """One launch configuration of a kernel that Inductor's heuristics give for the device and the sizes."""

    values: dict[str, int | str] = field(default_factory=dict)
    """Block sizes and other constants that it fixes, as `XBLOCK`: 1024. Values that are not integers are Python
    text."""
    num_warps: int = 4
    num_stages: int = 1


@dataclass(frozen=True)
class Occupancy:
    """How many warps of the kernel a multiprocessor can hold at once."""

    warps: int
    """Resident warps."""
    most: int
    """Maximum warps of the device."""
    blocks: int
    """Resident blocks."""
    limited_by: str
    """The limit that is reached first: `registers`, `shared memory`, `blocks` or `warps`; `warps` at full occupancy."""


@dataclass(frozen=True)
class Listing:
    """One intermediate text of the kernel, between its source and the device."""

    text: str
    lines: tuple[LineNumber, ...] = ()
    """For each line of `text` in order, the 1-based line of the Triton source that it comes from, 0 if there is none.
    Code inlined from a library counts for the line that called it."""


@dataclass(frozen=True)
class Assembled:
    """One Triton kernel, compiled for a device in one of its configurations, and not launched."""

    configs: tuple[LaunchConfig, ...] = ()
    """Configurations that Inductor would try. If there are several, it times them on the GPU and keeps the fastest."""
    default: int | None = None
    """Position in `configs` of the configuration that Inductor uses without tuning."""
    config: int | None = None
    """Position in `configs` of the configuration that the following figures describe."""
    smaller: LaunchConfig | None = None
    """A configuration with half the reduction block that Inductor would also try, because this one's registers limit
    occupancy."""
    grid: tuple[int, ...] | None = None
    """Blocks launched along x, y and z; None if the sizes are known only at run time."""
    registers: int | None = None
    """Per thread."""
    spills: int | None = None
    """Bytes per thread that did not fit into registers and are stored in memory."""
    shared: int | None = None
    """Shared memory of a block, bytes."""
    num_warps: int | None = None
    """As compiled: the compiler adds warps for warp specialization."""
    num_stages: int | None = None
    occupancy: Occupancy | None = None
    listings: dict[str, Listing] = field(default_factory=dict)
    """By stage: `ttir`, `ttgir`, `llir`, then `ptx` and `sass` for NVIDIA, `amdgcn` for AMD. Includes the stages
    reached before a failure."""
    disassembled: bool = False
    """Whether `sass` was requested; otherwise it is not in `listings`."""
    failure: str | None = None
    """Why it does not run on the device, with the compiler's message."""
    failure_line: LineNumber | None = None
    """1-based line of the Triton source that the compiler rejected."""
    problems: tuple[str, ...] = ()
    """Facts that could not be determined or stored, and why; the rest is valid."""
    triton: str | None = None
    """The version that compiled it."""
