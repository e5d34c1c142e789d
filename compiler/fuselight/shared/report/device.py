"""A target device as a value: the properties of a GPU that code generation and estimates need, present or not."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Device:
    """A device that kernels are generated for. Figures are the vendor's; None if unknown."""

    key: str
    """Short name, as settings take it: `h100-sxm`."""
    name: str
    """The name that the driver reports: `NVIDIA H100 80GB HBM3`."""
    backend: str
    """Triton's backend: `cuda`, `hip`, or `cpu` for C++ kernels."""
    arch: str
    """Compute capability as `9.0`; `gfx942` for AMD; empty for a CPU."""
    multiprocessors: int
    """Streaming multiprocessors, or compute units; 0 if it depends on the machine, as for `cpu`."""
    clock_mhz: int | None = None
    """Boost clock."""
    memory_gb: float = 0.0
    """The vendor's figure; for a present GPU, the GiB that its driver reports."""
    bandwidth_gbs: float = 0.0
    """Memory bandwidth, GB/s (10^9 bytes)."""
    tflops: dict[str, float] = field(default_factory=dict)
    """Dense rates in TFLOP/s (TOP/s) by dtype: `f64 f32 tf32 f16 bf16 f8 f4 i8`, with tensor cores if it has them for
    the dtype. A missing dtype has no fast path on the device; if the mapping is empty, the rates are unknown."""
    shared_kb: int = 0
    """Maximum shared memory of one block, KiB."""
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
    """Publication of the figures."""
    origin: str = "published"
    """Origin of the figures: `published`, `settings` (the user), or `driver` (of a present GPU)."""

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA's compute capability; for other devices the (9, 0) that torch then takes for granted."""
        if self.backend != "cuda" or not self.arch:
            return 9, 0
        major, _, minor = self.arch.partition(".")
        return int(major), int(minor or 0)

    @property
    def triton_arch(self) -> int | str:
        """The architecture as Triton and Inductor take it: 90, or `gfx942` for AMD."""
        major, minor = self.capability
        return self.arch if self.backend == "hip" else major * 10 + minor
