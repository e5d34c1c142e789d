"""Devices as values: published data of GPUs, lookup by name, and estimates of what a kernel costs.

Invariant: this package does not look at the machine. The same name gives the same Device on a laptop and on a GPU
server; `fuselight.target.present_device` merges in what a present GPU reports.
"""

from __future__ import annotations

from fuselight.devices.choose import AUTO as AUTO
from fuselight.devices.choose import FALLBACK as FALLBACK
from fuselight.devices.choose import UnfitDevice as UnfitDevice
from fuselight.devices.choose import UnknownDevice as UnknownDevice
from fuselight.devices.choose import find as find
from fuselight.devices.choose import from_settings as from_settings
from fuselight.devices.choose import nearest as nearest
from fuselight.devices.estimate import BANDWIDTH_REACHED as BANDWIDTH_REACHED
from fuselight.devices.estimate import LAUNCH_US as LAUNCH_US
from fuselight.devices.estimate import RATE_REACHED as RATE_REACHED
from fuselight.devices.estimate import estimate as estimate
from fuselight.devices.estimate import lacks as lacks
from fuselight.devices.estimate import rate as rate
from fuselight.devices.published import DEVICES as DEVICES
