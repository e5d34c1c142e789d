"""Describes an installed GPU as a Device: its driver's values, completed by published figures.

Invariant: the driver is queried only in a process that may use it, which the host is not; `merged` queries nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from fuselight.adapters.torch_api.devices import leaves_driver_alone
from fuselight.shared.devices import DEVICES
from fuselight.shared.report import Device

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
_TRANSFERS = 2
"""Transfers a cycle of the memory clock that CUDA gives, whatever the memory is: it gives half the data rate."""


def present_device(index: int | None = None) -> Device | None:
    """Return the GPU with that index, else the current one; None if torch sees none.

    Initializes CUDA. Raises RuntimeError in a process that others are forked from.
    """
    if leaves_driver_alone():
        raise RuntimeError("This process leaves the driver alone: ask for the GPU in a run's own process.")
    if not torch.cuda.is_available():
        return None
    return merged(torch.cuda.get_device_properties(torch.cuda.current_device() if index is None else index))


def uses_gpu() -> bool:
    """Whether this process has used a GPU: the engine's threads of its backward are no threads of Python."""
    return bool(torch.cuda.is_available() and torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def merged(properties: Any) -> Device:
    """Make a Device from the result of `torch.cuda.get_device_properties`.

    Rates are always the published ones, because no driver reports them: none for a GPU that is not in the catalog.
    Values that this torch does not report are as published, else as in any device of the same architecture, else 0.
    """
    name = str(properties.name).strip()
    hip = bool(getattr(torch.version, "hip", None))
    arch = f"{properties.major}.{properties.minor}"
    if hip:
        arch = str(getattr(properties, "gcnArchName", "")).partition(":")[0]  # of `gfx942:sramecc+:xnack-`
    known = next((device for device in DEVICES if device.name.lower() == name.lower()), None)
    base = known or _of_arch(name, arch, hip=hip)
    reported = {
        "name": name,
        "arch": arch,
        "multiprocessors": int(properties.multi_processor_count),
        "memory_gb": round(int(properties.total_memory) / _GIB, 1),
        "clock_mhz": _scaled(properties, "clock_rate", 1000, whole=True),
        "bandwidth_gbs": None if hip else _bandwidth(properties),
        "shared_kb": _scaled(properties, "shared_memory_per_block_optin", _KIB, whole=True),
        "shared_sm_kb": _scaled(properties, "shared_memory_per_multiprocessor", _KIB, whole=True),
        "registers": _scaled(properties, "regs_per_multiprocessor", 1, whole=True),
        "threads": _scaled(properties, "max_threads_per_multi_processor", 1, whole=True),
        "l2_mb": _scaled(properties, "L2_cache_size", _MIB),
        "warp": _scaled(properties, "warp_size", 1, whole=True),
    }
    source = f"the driver; rates: {known.source}" if known else "the driver; no rates are published here"
    values = {field: value for field, value in reported.items() if value is not None}
    return dataclasses.replace(base, **values, origin="driver", source=source)


def _of_arch(name: str, arch: str, *, hip: bool) -> Device:
    """The properties that every device of an architecture shares, for one that is not in the catalog."""
    empty = Device(
        key=name,
        name=name,
        backend="hip" if hip else "cuda",
        arch=arch,
        multiprocessors=0,
        warp=64 if hip else 32,
    )
    kin = next((device for device in DEVICES if device.arch == arch), None)
    if kin is None:
        return empty
    shared = ("shared_kb", "shared_sm_kb", "registers", "threads", "blocks", "warp")
    return dataclasses.replace(empty, **{field: getattr(kin, field) for field in shared})


def _scaled(properties: Any, attribute: str, unit: int, *, whole: bool = False) -> Any:
    """Return a property in `unit`s; None where torch has no such property or the driver gives 0."""
    value = getattr(properties, attribute, None)
    if not isinstance(value, int) or value <= 0:
        return None
    return value // unit if whole else round(value / unit, 1)


def _bandwidth(properties: Any) -> float | None:
    """GB/s of the memory clock (kHz) and the width of the bus (bits)."""
    clock, bits = (
        getattr(properties, "memory_clock_rate", None),
        getattr(properties, "memory_bus_width", None),
    )
    if not isinstance(clock, int) or not isinstance(bits, int) or clock <= 0 or bits <= 0:
        return None
    return round(clock * _TRANSFERS * bits / 8 / 1e6, 1)
