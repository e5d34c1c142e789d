"""The user's own Triton kernels as a run launched them: types, sizes, compiled forms, configurations.

Invariant: each specialization is one that the run launched, or asked Triton to compile. Estimates are in fields that
say so; `measured_us` is a time of Triton's own autotuner on a GPU, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuselight.shared.report.place import LineNumber, Location, Stack
from fuselight.shared.report.resources import Assembled, LaunchConfig, Occupancy


@dataclass(frozen=True)
class CompiledOption:
    """The kernel, compiled once more with a change, to see whether the change helps."""

    option: str
    """`num_warps`, `num_stages`, `float64`, or the name of an argument that is assumed to be divisible by 16."""
    value: int
    registers: int | None = None
    spills: int | None = None
    """Bytes per thread."""
    shared: int | None = None
    """Bytes of a block."""
    occupancy: Occupancy | None = None
    widths: dict[str, int] = field(default_factory=dict)
    """Bytes of the widest instruction of a thread, by the line of the loads and stores: `load 12`, `store 14`."""
    failure: str | None = None


@dataclass(frozen=True)
class KernelConfiguration:
    """One configuration of an autotuner, compiled for the device."""

    config: LaunchConfig
    text: str = ""
    """As Python: `triton.Config({"BLOCK": 128}, num_warps=4, num_stages=3)`; empty if it cannot be written."""
    grid: tuple[int, ...] | None = None
    registers: int | None = None
    spills: int | None = None
    """Bytes per thread."""
    shared: int | None = None
    """Bytes of a block."""
    occupancy: Occupancy | None = None
    measured_us: float | None = None
    """Median of Triton's autotuner on this machine's GPU."""
    failure: str | None = None
    """Why it does not compile for the device, or does not fit."""
    is_compiled: bool = False


@dataclass(frozen=True)
class TunedSizes:
    """Times of an autotuner's configurations at one value of its key."""

    values: tuple[str, ...]
    """Of the key: numbers as Python text, then dtypes of tensors."""
    times_us: tuple[float | None, ...]
    """By configuration; None for one that was not timed, or does not run."""


@dataclass(frozen=True)
class OwnKernel:
    """One specialization of a `@triton.jit` function, in the configuration that was launched."""

    name: str
    location: Location
    """The line of its `def`."""
    last_line: LineNumber
    """The last line of the function."""
    types: dict[str, str] = field(default_factory=dict)
    """By parameter: `*fp32`, `i32`, `constexpr`."""
    divisible: tuple[str, ...] = ()
    """Parameters that Triton knows to be divisible by 16."""
    values: dict[str, str] = field(default_factory=dict)
    """Values of numbers and of compile-time constants in the first launch, as Python text."""
    unused: tuple[str, ...] = ()
    """Parameters that the function never reads, and on whose values or alignment Triton specializes it."""
    num_warps: int | None = None
    num_stages: int | None = None
    grid: tuple[int, ...] | None = None
    """Programs of the first launch along x, y and z; None if it was only compiled."""
    launches: int = 0
    launched_at: Stack = ()
    """The first launch, outermost frame first."""
    bytes_read: int | None = None
    """Of the tensors that it reads, each once."""
    bytes_written: int | None = None
    estimate_us: float | None = None
    """Estimated time of a launch, microseconds."""
    bound: str | None = None
    """What most of the estimate is: `memory`, `compute`, `launch`, or `latency` of loops that wait for each load."""
    not_estimated: str = ""
    """What the launch has that no time is estimated for, as `contended atomic operations`; empty for other causes."""
    assembled: Assembled | None = None
    """Its compiled forms, with the lines of the user's file; None if the time for compiles was over."""
    options: tuple[CompiledOption, ...] = ()
    """Changes that were tried on what the compiled form shows."""
    without_float64: CompiledOption | None = None
    """Compiled with float32 in the place of float64, if it computes in float64 and stores none."""
    key: tuple[str, ...] = ()
    """The autotuner's `key`."""
    key_values: tuple[str, ...] = ()
    """The values of the autotuner's key in this launch: sizes and dtypes."""
    further_key_values: tuple[tuple[str, ...], ...] = ()
    """Other values of the key with which this specialization was launched."""
    configurations: tuple[KernelConfiguration, ...] = ()
    """Of its autotuner, in the order of the source; empty without one."""
    chosen: int | None = None
    """Position in `configurations` of the one that was launched."""
    tuned: tuple[TunedSizes, ...] = ()
    """What Triton's autotuner measured in the run, by the values of its key."""
    tuned_on: str = ""
    """Name of the GPU that it was measured on."""
    decorator: Location | None = None
    """The `@triton.autotune` call."""
    library: str = ""
    """Name of the installed package that it belongs to; empty for a kernel of the user's files."""
