"""Which device the settings mean, and what there is to choose from.

Invariant: a wrong name chooses as `auto` does, and says so in words with the nearest names.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.devices import AUTO, DEVICES, FALLBACK, UnknownDevice, find
from fuselight.shared.report import Device
from fuselight_server.base.settings import Settings
from fuselight_server.editor.messages.answers import OfferedDevice, TargetDevice


@dataclass(frozen=True)
class Choice:
    """What `fuselight.device` comes to."""

    device: Device | None
    """The device that is named; None for the GPU that is there, else `fuselight.devices.FALLBACK`."""
    problem: str | None = None
    """Why a name was passed over."""

    def status(self) -> TargetDevice:
        """The device as clients get it."""
        return {
            "key": self.device.key if self.device else AUTO,
            "words": words(self.device),
            "problem": self.problem,
        }


def choose(settings: Settings) -> Choice:
    """Return the device of the settings."""
    name = settings.device.strip()
    if name.lower() in ("", AUTO):
        return Choice(None)
    try:
        return Choice(find(name, settings.devices.values()))
    except UnknownDevice as unknown:
        return Choice(None, f"{unknown} Until fuselight.device is changed, kernels are for {_AUTO_WORDS}.")


_AUTO_WORDS = f"the GPU that is there, else {FALLBACK}"


def words(device: Device | None) -> str:
    """Describe a device in a line."""
    if device is None:
        return f"Kernels are for {_AUTO_WORDS}."
    known = figures(device)
    return f"Kernels are for {device.name}" + (f": {known}." if known else ".")


def figures(device: Device) -> str:
    """What there is to know of a device at a glance; empty where it depends on the machine."""
    parts = [f"capability {device.arch}" if device.backend == "cuda" else device.arch]
    if device.multiprocessors:
        parts.append(f"{device.multiprocessors} {'SMs' if device.backend == 'cuda' else 'compute units'}")
    if device.memory_gb:
        parts.append(f"{device.memory_gb:g} GB")
    if device.bandwidth_gbs:
        parts.append(f"{device.bandwidth_gbs:,.0f} GB/s")
    dtype = next((dtype for dtype in ("bf16", "f16", "f32") if dtype in device.tflops), None)
    if dtype is not None:
        parts.append(f"{device.tflops[dtype]:,.0f} TFLOP/s in {dtype}")
    return ", ".join(part for part in parts if part)


def offered(settings: Settings) -> list[OfferedDevice]:
    """List what can be chosen, for a picker: `auto`, the user's own, the catalogue's."""
    chosen = choose(settings)
    current = chosen.device.key if chosen.device else AUTO
    published = [device for device in DEVICES if device.key not in settings.devices]
    devices = (
        OfferedDevice(
            key=device.key,
            name=device.name if device.name != device.key else "",
            detail=figures(device),
            own=device.origin == "settings",
            current=device.key == current,
        )
        for device in (*settings.devices.values(), *published)
    )
    auto = OfferedDevice(key=AUTO, name=_AUTO_WORDS, detail="", own=False, current=current == AUTO)
    return [auto, *devices]
