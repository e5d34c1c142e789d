"""Devices as values: what is published of GPUs, which one is meant by a name, and what a kernel costs on it at least.

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
from fuselight.devices.estimate import LAUNCH_US, estimate, lacks, rate
from fuselight.devices.published import DEVICES

__all__ = [
    "AUTO",
    "DEVICES",
    "FALLBACK",
    "LAUNCH_US",
    "UnfitDevice",
    "UnknownDevice",
    "estimate",
    "find",
    "from_settings",
    "lacks",
    "nearest",
    "rate",
]
