"""The argument that names a GPU of the catalogue."""

from __future__ import annotations

from fuselight.shared.devices import AUTO, UnknownDevice, find
from fuselight.shared.report import Device
from fuselight_server.agents.arguments import ArgumentError


def device_of(name: str) -> Device | None:
    """The device of a name, None for `auto`. Raises ArgumentError."""
    try:
        return None if name.strip().lower() == AUTO else find(name)
    except UnknownDevice as error:
        raise ArgumentError(str(error)) from None
