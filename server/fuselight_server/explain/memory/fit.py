"""Whether a step fits into the memory of a device.

Invariant: an estimate has no fragmentation, no context of the driver and no other program, so that less than the whole
memory counts as `fits`; what is between that and the whole is `close`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fuselight.shared.report import Device

_CONTEXT = 0.6e9
"""An allowance in bytes for the driver's context and loaded kernels, which are beside tensors: not measured."""
_RESERVED = 1.45
"""An allowance for free blocks that are too small to be used. Of 68 recorded steps on an H200 whose allocator was
limited to a multiple of their estimate, 57 ran with 1.1, 67 with 1.3 and all with 1.45 (docs/results/memory.md)."""


class Fit(Enum):
    """The verdict."""

    FITS = "fits"
    CLOSE = "close"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch that fits in each form; None if that was not determined, 0 if a batch of 1 does not fit."""

    eager: int | None = None
    compiled: int | None = None


def fitting_bytes(device: Device) -> int:
    """The largest peak that counts as `fits`."""
    return _fitting(device.memory_gb)


def _fitting(memory_gb: float) -> int:
    return int((memory_gb * 1e9 - _CONTEXT) / _RESERVED)


def fit_of(peak: int, device: Device) -> Fit | None:
    """Whether `peak` bytes of tensors fit; None for a device whose memory is not known."""
    return verdict(peak, device.memory_gb) if device.memory_gb else None


def verdict(peak: int, memory_gb: float) -> Fit:
    """Whether `peak` bytes of tensors fit into `memory_gb` GB."""
    if peak <= _fitting(memory_gb):
        return Fit.FITS
    return Fit.CLOSE if peak + _CONTEXT <= memory_gb * 1e9 else Fit.DOES_NOT_FIT
