"""Devices as values: published data of GPUs, lookup by name, and estimates of what a kernel costs.

Invariant: this package does not look at the machine. The same name gives the same Device on a laptop and on a GPU
server; `fuselight.target.present_device` merges in what a present GPU reports.
"""

from __future__ import annotations

from fuselight.devices.choose import (
    AUTO,
    FALLBACK,
    UnfitDevice,
    UnknownDevice,
    find,
    from_settings,
    nearest,
)
from fuselight.devices.estimate import BANDWIDTH_REACHED, LAUNCH_US, RATE_REACHED, estimate, lacks, rate
from fuselight.devices.published import DEVICES

__all__ = [
    "AUTO",
    "BANDWIDTH_REACHED",
    "DEVICES",
    "FALLBACK",
    "LAUNCH_US",
    "RATE_REACHED",
    "UnfitDevice",
    "UnknownDevice",
    "estimate",
    "find",
    "from_settings",
    "lacks",
    "nearest",
    "rate",
]
