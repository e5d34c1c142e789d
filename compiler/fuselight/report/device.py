"""A target device as a value: what code generation and estimates need to know of a GPU, present or not."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Device:
    """A device that kernels are generated for. Figures are the vendor's; None where there is none."""

    key: str
    """Short name, as settings take it: `h100-sxm`."""
    name: str
    """The name that the driver gives: `NVIDIA H100 80GB HBM3`."""
    backend: str
    """Triton's backend: `cuda`, `hip`, or `cpu` for C++ kernels."""
    arch: str
    """Compute capability as `9.0`; `gfx942` for AMD; empty for a CPU."""
    multiprocessors: int
    """Streaming multiprocessors, or compute units; 0 where it depends on the machine, as for `cpu`."""
    clock_mhz: int | None = None
    """Boost clock."""
    memory_gb: float = 0.0
    """As the vendor names it; of a GPU that is there, the GiB that its driver shows."""
    bandwidth_gbs: float = 0.0
    """Memory bandwidth, GB/s (10^9 bytes)."""
    tflops: dict[str, float] = field(default_factory=dict)
    """Dense rates in TFLOP/s (TOP/s) by dtype: `f64 f32 tf32 f16 bf16 f8 f4 i8`, through tensor cores where it has
    them for the dtype. A dtype that is not here has no fast path on the device; none here: the rates are not known."""
    shared_kb: int = 0
    """Shared memory that one block can have, KiB."""
    shared_sm_kb: int = 0
    """Shared memory of a multiprocessor, KiB."""
    registers: int = 65536
    """32-bit registers of a multiprocessor."""
    threads: int = 2048
    """Resident threads of a multiprocessor."""
    blocks: int = 32
    """Resident blocks of a multiprocessor."""
    l2_mb: float = 0.0
    warp: int = 32
    source: str = ""
    """Where the figures are published."""
    origin: str = "published"
    """Who gave the figures: `published`, `settings` (the user), or `driver` (of a GPU that is there)."""
