"""Devices as values: what is published of GPUs, which one a name means, and what a kernel is likely to cost on it.

Invariant: nothing here looks at this machine. The same name gives the same Device on a laptop and on a GPU server;
what a GPU that is there says of itself is merged in by `fuselight.target.present`.
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
