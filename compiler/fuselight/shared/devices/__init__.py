"""Devices as values: published data of GPUs, lookup by name, and estimates of what a kernel costs.

Invariant: this package does not look at the machine. The same name gives the same Device on a laptop and on a GPU
server; `fuselight.capture.calls.present_device` merges in what a present GPU reports.
"""

from __future__ import annotations

from fuselight.shared.devices.choose import AUTO as AUTO
from fuselight.shared.devices.choose import FALLBACK as FALLBACK
from fuselight.shared.devices.choose import UnfitDevice as UnfitDevice
from fuselight.shared.devices.choose import UnknownDevice as UnknownDevice
from fuselight.shared.devices.choose import find as find
from fuselight.shared.devices.choose import from_settings as from_settings
from fuselight.shared.devices.choose import nearest as nearest
from fuselight.shared.devices.estimate import BANDWIDTH_REACHED as BANDWIDTH_REACHED
from fuselight.shared.devices.estimate import LAUNCH_US as LAUNCH_US
from fuselight.shared.devices.estimate import RATE_REACHED as RATE_REACHED
from fuselight.shared.devices.estimate import estimate as estimate
from fuselight.shared.devices.estimate import estimate_beside as estimate_beside
from fuselight.shared.devices.estimate import lacks as lacks
from fuselight.shared.devices.estimate import rate as rate
from fuselight.shared.devices.published import DEVICES as DEVICES
