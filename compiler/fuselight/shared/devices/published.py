"""The catalogue: what vendors publish of their devices.

Invariant: each figure is from the document that `source` names, or from the table of an architecture below; what is not
published is None or 0. Rates are dense: a data sheet that gives them with sparsity only is halved. Of two rates for
one dtype it is the one with FP32 accumulation, which is how PyTorch multiplies matrices.
"""

from __future__ import annotations

from typing import Any

from fuselight.shared.report import Device

_Row = tuple[str, str, str, int, "int | None", float, float, float]
"""Key, name, compute capability, multiprocessors, boost clock (MHz), and memory: capacity (GB), bandwidth (GB/s), L2
(MB)."""

# What one multiprocessor of an architecture can hold: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability". Registers: 65,536 in each of them. Of a block's shared memory the driver keeps 1 KiB from Ampere on.
_LIMITS: dict[str, dict[str, Any]] = {
    arch: {"shared_sm_kb": shared_sm_kb, "shared_kb": shared_kb, "threads": threads, "blocks": blocks}
    for arch, shared_sm_kb, shared_kb, threads, blocks in (
        ("7.5", 64, 64, 1024, 16),
        ("8.0", 164, 163, 2048, 32),
        ("8.6", 100, 99, 1536, 16),
        ("8.9", 100, 99, 1536, 24),
        ("9.0", 228, 227, 2048, 32),
        ("10.0", 228, 227, 2048, 32),
        ("12.0", 100, 99, 1536, 24),
    )
}


def _rates(f64: float, f32: float, tf32: float, half: float, **more: float) -> dict[str, float]:
    """Rates by dtype; `half` is that of f16 and of bf16."""
    return {"f64": f64, "f32": f32, "tf32": tf32, "f16": half, "bf16": half, **more}


# FP64 of GeForce and inference cards is 1/64 of FP32 (1/32 before Ampere), as their white papers say.
_HOPPER_SXM = _rates(66.9, 66.9, 494.7, 989.4, f8=1978.9, i8=1978.9)
_HOPPER_PAPER = "NVIDIA H100 Tensor Core GPU Architecture (2022)"


def _nvidia(source: str, tflops: dict[str, float], *rows: _Row) -> tuple[Device, ...]:
    """NVIDIA's devices of one source that have the same rates."""
    return tuple(
        Device(
            key,
            name,
            "cuda",
            arch,
            multiprocessors,
            clock_mhz,
            memory_gb,
            bandwidth_gbs,
            tflops,
            l2_mb=l2_mb,
            source=source,
            **_LIMITS[arch],
        )
        for key, name, arch, multiprocessors, clock_mhz, memory_gb, bandwidth_gbs, l2_mb in rows
    )


DEVICES: tuple[Device, ...] = (
    *_nvidia(
        "NVIDIA Turing GPU Architecture (2018)",
        {"f64": 0.25, "f32": 8.1, "f16": 65.0, "i8": 130.0},
        ("t4", "Tesla T4", "7.5", 40, 1590, 16.0, 320.0, 4.0),
    ),
    *_nvidia(
        "NVIDIA A10 Tensor Core GPU data sheet (2021)",
        _rates(0.49, 31.2, 62.5, 125.0, i8=250.0),
        ("a10", "NVIDIA A10", "8.6", 72, 1695, 24.0, 600.0, 6.0),
    ),
    *_nvidia(
        "NVIDIA A100 Tensor Core GPU data sheet (2021); NVIDIA A100 Tensor Core GPU Architecture (2020)",
        _rates(19.5, 19.5, 156.0, 312.0, i8=624.0),
        ("a100-40gb-sxm", "NVIDIA A100-SXM4-40GB", "8.0", 108, 1410, 40.0, 1555.0, 40.0),
        ("a100-40gb-pcie", "NVIDIA A100-PCIE-40GB", "8.0", 108, 1410, 40.0, 1555.0, 40.0),
        ("a100-80gb-sxm", "NVIDIA A100-SXM4-80GB", "8.0", 108, 1410, 80.0, 2039.0, 40.0),
        ("a100-80gb-pcie", "NVIDIA A100 80GB PCIe", "8.0", 108, 1410, 80.0, 1935.0, 40.0),
    ),
    *_nvidia(
        "NVIDIA L4 Tensor Core GPU data sheet (2023); NVIDIA Ada GPU Architecture, v2.01 (2023)",
        _rates(0.47, 30.3, 60.0, 121.0, f8=242.5, i8=242.5),
        ("l4", "NVIDIA L4", "8.9", 58, 2040, 24.0, 300.0, 48.0),
    ),
    *_nvidia(
        "NVIDIA L40S data sheet (2023)",
        _rates(1.43, 91.6, 183.0, 362.05, f8=733.0, i8=733.0),
        ("l40s", "NVIDIA L40S", "8.9", 142, 2520, 48.0, 864.0, 96.0),
    ),
    *_nvidia(
        f"NVIDIA H100 Tensor Core GPU data sheet (2023); {_HOPPER_PAPER}",
        _HOPPER_SXM,
        ("h100-sxm", "NVIDIA H100 80GB HBM3", "9.0", 132, 1980, 80.0, 3350.0, 50.0),
    ),
    *_nvidia(
        f"NVIDIA H100 Tensor Core GPU data sheet (2023); {_HOPPER_PAPER}",
        _rates(51.2, 51.2, 378.0, 756.0, f8=1513.0, i8=1513.0),
        ("h100-pcie", "NVIDIA H100 PCIe", "9.0", 114, 1755, 80.0, 2000.0, 50.0),
    ),
    *_nvidia(
        f"NVIDIA H200 Tensor Core GPU data sheet (2024); rates: {_HOPPER_PAPER}; L2 and clock: from CUDA",
        _HOPPER_SXM,
        ("h200", "NVIDIA H200", "9.0", 132, 1980, 141.0, 4800.0, 60.0),
    ),
    *_nvidia(
        "NVIDIA Blackwell Architecture Technical Brief (2024), HGX B200; multiprocessors and L2: from CUDA",
        _rates(40.0, 80.0, 1100.0, 2250.0, f8=4500.0, f4=9000.0, i8=4500.0),
        ("b200", "NVIDIA B200", "10.0", 148, None, 192.0, 8000.0, 126.0),
    ),
    *_nvidia(
        "NVIDIA Ampere GA102 GPU Architecture (2020)",
        _rates(0.56, 35.6, 35.6, 71.0, i8=284.0),
        ("rtx-3090", "NVIDIA GeForce RTX 3090", "8.6", 82, 1695, 24.0, 936.0, 6.0),
    ),
    *_nvidia(
        "NVIDIA Ada GPU Architecture (2022)",
        _rates(1.29, 82.6, 82.6, 165.2, f8=330.3, i8=660.6),
        ("rtx-4090", "NVIDIA GeForce RTX 4090", "8.9", 128, 2520, 24.0, 1008.0, 72.0),
    ),
    *_nvidia(
        "NVIDIA RTX Blackwell GPU Architecture (2025)",
        _rates(1.64, 104.8, 104.8, 209.5, f8=419.0, f4=1676.0, i8=838.0),
        ("rtx-5090", "NVIDIA GeForce RTX 5090", "12.0", 170, 2407, 32.0, 1792.0, 96.0),
    ),
    Device(
        key="mi300x",
        name="AMD Instinct MI300X",
        backend="hip",
        arch="gfx942",
        multiprocessors=304,
        clock_mhz=2100,
        memory_gb=192.0,
        bandwidth_gbs=5300.0,
        tflops=_rates(163.4, 163.4, 653.7, 1307.4, f8=2614.9, i8=2614.9),
        shared_kb=64,
        shared_sm_kb=64,
        registers=131072,  # a vector register file of 512 KiB
        threads=2048,
        l2_mb=32.0,  # 4 in each of 8 dies
        warp=64,
        source="AMD Instinct MI300X data sheet (2023); AMD GPU specifications, ROCm documentation (2025)",
    ),
    Device(
        key="cpu",
        name="CPU",
        backend="cpu",
        arch="",
        multiprocessors=0,
        registers=0,
        threads=0,
        blocks=0,
        warp=0,
        source="depends on the machine: kernels are C++, and there are no estimates",
    ),
)
