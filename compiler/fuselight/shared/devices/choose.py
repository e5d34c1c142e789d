"""Finds a device by its key, its product name, the driver's name, or the user's settings.

Invariant: a name gives exactly one Device or an error that suggests the nearest names; nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fuselight.shared.devices.published import DEVICES
from fuselight.shared.report import Device

AUTO = "auto"
"""The value of the setting that selects the present GPU, or `FALLBACK` without one."""
FALLBACK = "h100-sxm"

_ALIASES = {
    "a100": "a100-80gb-sxm",
    "a100 40gb": "a100-40gb-sxm",
    "a100 80gb": "a100-80gb-sxm",
    "a100 sxm": "a100-80gb-sxm",
    "a100 pcie": "a100-80gb-pcie",
    "h100": "h100-sxm",
    "h100 80gb": "h100-sxm",
    "h100 sxm5": "h100-sxm",
    "h200 sxm": "h200",
    "3090": "rtx-3090",
    "4090": "rtx-4090",
    "5090": "rtx-5090",
    "mi300": "mi300x",
}
_BRANDS = frozenset({"nvidia", "amd", "geforce", "instinct", "tesla"})
_SHOWN = 3
"""Names that an error offers."""


class UnknownDevice(ValueError):  # noqa: N818 - what was asked for, not what went wrong here
    """No device has this name."""

    def __init__(self, name: str, near: tuple[str, ...]) -> None:
        """Name the nearest devices; all of the catalogue, where none is near."""
        self.name = name
        self.near = near
        super().__init__(
            f"There is no device `{name}`. Nearest: {', '.join(near)}."
            if near
            else f"There is no device `{name}`. Known: {', '.join(device.key for device in DEVICES)}."
        )


class UnfitDevice(ValueError):  # noqa: N818 - the same
    """A device in the user's settings is invalid. The message names the key."""


def find(name: str, own: Iterable[Device] = ()) -> Device:
    """Return the device of a name, in any case and spacing; the user's `own` go first. Raises UnknownDevice."""
    devices = (*own, *DEVICES)
    wanted = _folded(name)
    spellings = [(device.key, device) for device in devices] + [(device.name, device) for device in devices]
    for spelling, device in spellings:
        if _folded(spelling) == wanted:
            return device
    for alias, key in _ALIASES.items():
        if _folded(alias) == wanted:
            return next(device for device in devices if device.key == key)
    raise UnknownDevice(name, nearest(name, own))


def nearest(name: str, own: Iterable[Device] = ()) -> tuple[str, ...]:
    """Keys of the devices whose names are most like this one, best first; empty where none is like it."""
    keys: dict[str, str] = {}
    for device in (*own, *DEVICES):
        keys.setdefault(_folded(device.key), device.key)
        keys.setdefault(_folded(device.name), device.key)
    for alias, key in _ALIASES.items():
        keys.setdefault(_folded(alias), key)
    wanted = _folded(name)
    # A part of a name ("rtx") is far from it as letters go.
    parts = [folded for folded in keys if len(wanted) > 1 and wanted in folded]
    like = difflib.get_close_matches(wanted, keys, n=2 * _SHOWN, cutoff=0.5)
    return tuple(dict.fromkeys(keys[folded] for folded in (*parts, *like)))[:_SHOWN]


def _folded(name: str) -> str:
    """Letters and digits alone, without the brand."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in _BRANDS) or "".join(words)


# What a device in settings may say, each named as the field in camel case. `source` and `origin` are ours to fill in.
_TEXTS = ("name", "backend", "arch")
_COUNTS = ("multiprocessors", "clockMhz", "sharedKb", "sharedSmKb", "registers", "threads", "blocks", "warp")
_NUMBERS = ("memoryGb", "bandwidthGbs", "l2Mb")
LIKE = "like"
"""Names the device whose figures stand where the user gives none."""
TFLOPS = "tflops"
KEYS = (LIKE, *_TEXTS, *_COUNTS, *_NUMBERS, TFLOPS)
"""What a device in settings may say."""
DTYPES = ("f64", "f32", "tf32", "f16", "bf16", "f8", "f4", "i8")
BACKENDS = ("cuda", "hip", "cpu")
_NEEDED = ("backend", "arch", "multiprocessors", "bandwidthGbs")
"""Without them no kernel can be generated or estimated; `like` gives them all."""


def from_settings(key: str, data: Any) -> Device:
    """Build a device from the user's entry `key` in `fuselight.devices`. Raises UnfitDevice."""
    if not _folded(key) or key.strip().lower() == AUTO:
        raise UnfitDevice(f"{key!r} cannot be the name of a device")
    if not isinstance(data, Mapping):
        raise UnfitDevice(f"{key} should be an object")
    for name in data:
        if name not in KEYS:
            near = difflib.get_close_matches(str(name), KEYS, n=1)
            raise UnfitDevice(f"{key}.{name} is not known" + (f"; is it {near[0]}?" if near else ""))
    base = _like(key, data.get(LIKE))
    missing = [name for name in _NEEDED if base is None and name not in data]
    if missing:
        raise UnfitDevice(
            f"{key} needs {', '.join(missing)}, or {LIKE} with the name of a device to start from"
        )
    source = "your settings" if base is None else f"your settings; else as {base.key}: {base.source}"
    values: dict[str, Any] = {"key": key, "name": key, "origin": "settings", "source": source}
    for name, value in data.items():
        if name != LIKE:
            field = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)
            values[field] = _fitting(f"{key}.{name}", name, value)
    device = Device(**values) if base is None else dataclasses.replace(base, **values)
    _check_pair(key, device)
    return device


def _check_pair(key: str, device: Device) -> None:
    """Check that the architecture is one of the backend's: each may come from another place. Raises UnfitDevice."""
    if device.backend != "cpu" and device.arch.startswith("gfx") != (device.backend == "hip"):
        wanted = '"gfx942"' if device.backend == "hip" else 'a compute capability as "9.0"'
        raise UnfitDevice(f"{key}.arch should be {wanted} for backend {device.backend}, not {device.arch!r}")


def _like(key: str, name: Any) -> Device | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise UnfitDevice(f"{key}.{LIKE} should be the name of a device")
    try:
        return find(name)
    except UnknownDevice as unknown:
        raise UnfitDevice(f"{key}.{LIKE}: {unknown}") from None


def _fitting(where: str, name: str, value: Any) -> Any:
    """`value` as the field of that name. Raises UnfitDevice."""
    if name in _TEXTS:
        if not isinstance(value, str) or (name == "backend" and value not in BACKENDS):
            wanted = f"one of {', '.join(BACKENDS)}" if name == "backend" else "a string"
            raise UnfitDevice(f"{where} should be {wanted}")
        if name == "arch" and not re.fullmatch(r"\d{1,2}\.\d|gfx[0-9a-f]+|", value):
            raise UnfitDevice(f'{where} should be a compute capability as "9.0", or "gfx942"')
        return value
    if name == TFLOPS:
        if not isinstance(value, Mapping):
            raise UnfitDevice(f'{where} should be an object, as {{"bf16": 312}}')
        return {_dtype(where, dtype): _positive(f"{where}.{dtype}", rate) for dtype, rate in value.items()}
    number = _positive(where, value)
    if name not in _COUNTS:
        return number
    if number % 1:
        raise UnfitDevice(f"{where} should be a whole number")
    return int(number)


def _dtype(where: str, dtype: Any) -> str:
    if dtype not in DTYPES:
        raise UnfitDevice(f"{where}.{dtype} is no dtype of a rate; there are {', '.join(DTYPES)}")
    return str(dtype)


def _positive(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise UnfitDevice(f"{where} should be a number above 0")
    return float(value)
