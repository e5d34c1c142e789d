"""How near kernels come to the device's limits: achieved bandwidth and rate, and the roofline.

Invariant: bytes and operations are what a kernel needs at least, and times are measured; where a launch stands for
several kernels of a library, or a fact is missing, there is no figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.devices.estimate import rate
from fuselight.report import KernelKind

if TYPE_CHECKING:
    from fuselight.report import Device, Kernel, MeasuredLaunch

_LIBRARIES = frozenset({KernelKind.EXTERN, KernelKind.FALLBACK})


@dataclass(frozen=True)
class Rates:
    """What one kernel achieves."""

    bandwidth_gbs: float | None = None
    tflops: float | None = None
    of_limit: float | None = None
    """Of what bounds it, from 0 to 1; None where the device's limits are not known."""
    bound: str | None = None
    """`memory` or `compute`: of which limit that is."""
    intensity: float | None = None
    """Floating-point operations for each byte."""


def rates(launch: MeasuredLaunch, kernel: Kernel | None, device: Device | None) -> Rates:
    """Return what a launch achieves."""
    times = _times(launch, kernel)
    if kernel is None or times is None or launch.us <= 0:
        return Rates()
    moved = None
    if kernel.bytes_read is not None and kernel.bytes_written is not None:
        moved = kernel.bytes_read + kernel.bytes_written
    gbs = moved * times / launch.us / 1e3 if moved else None
    tflops = kernel.flops * times / launch.us / 1e6 if kernel.flops else None
    parts: dict[str, float] = {}
    if device is not None and gbs is not None and device.bandwidth_gbs > 0:
        parts["memory"] = gbs / device.bandwidth_gbs
    most = rate(device, kernel.dtype) if device is not None else None
    if tflops is not None and most:
        parts["compute"] = tflops / most
    bound = max(parts, key=lambda name: parts[name], default=None)
    return Rates(
        bandwidth_gbs=gbs,
        tflops=tflops,
        of_limit=min(parts[bound], 1.0) if bound is not None else None,  # more than 1 came out of a cache
        bound=bound,
        intensity=kernel.flops / moved if kernel.flops and moved else None,
    )


def _times(launch: MeasuredLaunch, kernel: Kernel | None) -> float | None:
    """Return how often the kernel ran in one call; None where its device kernels are not its launches."""
    if kernel is None or (kernel.kind in _LIBRARIES and launch.count > 1):
        return None
    return max(launch.count, 1.0)
