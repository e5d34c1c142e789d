"""GPU state from nvidia-smi during a measurement: clocks, throttling, and other processes.

Invariant: nvidia-smi may be missing, old, slow or not permitted. A value that it does not report is None, never a
guess, and each query has a time limit. The functions that parse its text are pure. The fields are those of `nvidia-smi
--help-query-gpu`; a driver that lacks one of them refuses the whole query.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_SECONDS = 10.0
_FORMAT = "--format=csv,noheader,nounits"
_FIELDS = ("uuid", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm")
_ACTIVE = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""Current throttle reasons as bits; drivers before 535 know only the second name."""
_COUNTERS = {
    "clocks_event_reasons_counters.sw_power_cap": "the power limit",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "heat",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "heat (hardware protection)",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "the power supply",
    "clocks_event_reasons_counters.sync_boost": "synchronization with other GPUs",
}
"""Throttled microseconds since the driver was loaded, per reason: newer drivers only."""
_BITS = {
    0x2: "a clock setting",
    0x4: "the power limit",
    0x8: "heat or power (hardware protection)",
    0x10: "synchronization with other GPUs",
    0x20: "heat",
    0x40: "heat (hardware protection)",
    0x80: "the power supply",
}
"""Bits of active throttle reasons (nvml.h); 0x1 means idle, 0x100 display clocks."""
_GPU_LINE = re.compile(r"^GPU \d+: .*\(UUID: (?P<uuid>[^)]+)\)")
_MIG_LINE = re.compile(r"^\s+MIG .*\(UUID: (?P<uuid>[^)]+)\)")

Ask = Callable[[Sequence[str]], "str | None"]
"""Runs nvidia-smi with these arguments; None if it gives no answer."""


@dataclass(frozen=True)
class GpuProcess:
    """A compute process on a GPU."""

    pid: int
    gpu: str
    """UUID."""
    mib: int | None
    name: str


@dataclass(frozen=True)
class GpuState:
    """The state of the measured GPU at one time, from nvidia-smi."""

    driver: str = ""
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    highest_mhz: int | None = None
    """Maximum SM clock."""
    reasons: int | None = None
    """Bits of the active throttle reasons."""
    slowed_us: Mapping[str, int] = field(default_factory=dict)
    """Throttled microseconds since the driver was loaded, by reason; empty if the driver does not count them."""
    processes: tuple[GpuProcess, ...] | None = None


def asked() -> Ask | None:
    """Return a function that queries nvidia-smi; None if it is not installed."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    hangs = False

    def ask(arguments: Sequence[str]) -> str | None:
        nonlocal hangs
        if hangs:
            return None  # a later query would fail too, as with a GPU that is lost
        try:
            reported = subprocess.run(  # noqa: S603 - the driver's own tool, found on the user's PATH
                [path, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
            hangs = isinstance(error, subprocess.TimeoutExpired)
            return None
        return reported.stdout if reported.returncode == 0 else None

    return ask


def state_of(uuid: str, ask: Ask) -> GpuState | None:
    """State of the GPU with this UUID, or of the GPU that holds this MIG slice; None if nvidia-smi does not list it.

    An empty `uuid` (torch before 2.5) means the only GPU.
    """
    whose = _whole_gpu(uuid, ask)
    base = _row(ask, _FIELDS, whose)
    if base is None:
        return None
    active = next((row for name in _ACTIVE if (row := _row(ask, ("uuid", name), whose))), None)
    counted = _row(ask, ("uuid", *_COUNTERS), whose) or {}
    slowed_us = {words: _number(counted.get(name)) for name, words in _COUNTERS.items()}
    reported = ask(("--query-compute-apps=pid,gpu_uuid,used_memory,process_name", _FORMAT))
    there = None if reported is None else tuple(
        process for process in processes(reported) if bare(process.gpu) in {bare(base["uuid"] or ""), bare(uuid)}
    )  # fmt: skip
    return GpuState(
        driver=base["driver_version"] or "",
        sm_mhz=_number(base["clocks.sm"]),
        memory_mhz=_number(base["clocks.mem"]),
        highest_mhz=_number(base["clocks.max.sm"]),
        reasons=_number(next(reversed(active.values())), lambda bits: int(bits, 16)) if active else None,
        slowed_us={words: us for words, us in slowed_us.items() if us is not None},
        processes=there,
    )


def rows(text: str, fields: Sequence[str]) -> list[dict[str, str | None]]:
    """Parse a CSV answer: one GPU per line. Values that are not reported (`[N/A]`, `[Not Supported]`) are None."""
    rows = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            reported = (None if value.startswith("[") or value == "N/A" else value for value in values)
            rows.append(dict(zip(fields, reported, strict=True)))
    return rows


def slices(text: str) -> dict[str, str]:
    """Parse `nvidia-smi -L`: maps the UUID of each MIG slice to that of its GPU."""
    entries, gpu = {}, ""
    for line in text.splitlines():
        whole, part = _GPU_LINE.match(line), _MIG_LINE.match(line)
        if whole is not None:
            gpu = whole["uuid"]
        elif part is not None and gpu:
            entries[part["uuid"]] = gpu
    return entries


def processes(text: str) -> list[GpuProcess]:
    """Parse the compute processes: `pid, gpu_uuid, used_memory, process_name`; names may contain commas."""
    gpu_processes = []
    for line in text.splitlines():
        pid, *more = (value.strip() for value in line.split(",", 3))
        if pid.isdigit() and len(more) == len(("gpu", "memory", "name")):
            gpu_processes.append(GpuProcess(int(pid), more[0], _number(more[1]), more[2]))
    return gpu_processes


def bare(uuid: str) -> str:
    """The UUID without `GPU-` or `MIG-`, as torch reports it."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def clocks(before: GpuState | None, after: GpuState | None) -> str:
    """Describe the SM and memory clocks before and after; empty if they are unknown."""
    limits = []
    for name, pair in (
        ("SM", (before and before.sm_mhz, after and after.sm_mhz)),
        ("memory", (before and before.memory_mhz, after and after.memory_mhz)),
    ):
        first, last = pair
        if first is not None and last is not None:
            limits.append(f"{name} {first} MHz before, {last} MHz after")
    highest = after and after.highest_mhz
    return "; ".join(limits) + (f"; SM at most {highest} MHz" if limits and highest else "")


def slowed(before: GpuState | None, after: GpuState | None) -> list[str]:
    """Describe what throttled the GPU's clocks during the measurement."""
    if before is None or after is None:
        return []
    if before.slowed_us and after.slowed_us:
        spent = {name: us - before.slowed_us.get(name, us) for name, us in after.slowed_us.items()}
        return [f"{name} throttled the clocks for {us / 1e6:.3g} s" for name, us in spent.items() if us > 0]
    if before.reasons is None or after.reasons is None:
        return ["throttling by heat or the power limit is unknown: this driver does not report it"]
    bits = before.reasons | after.reasons
    return [
        f"{name} throttled the clocks before or after the measurement"
        for bit, name in _BITS.items()
        if bits & bit
    ]


def _row(ask: Ask, fields: Sequence[str], uuid: str) -> dict[str, str | None] | None:
    reported = ask((f"--query-gpu={','.join(fields)}", _FORMAT))
    gpu_rows = rows(reported or "", fields)
    if not uuid:
        return gpu_rows[0] if len(gpu_rows) == 1 else None
    return next((row for row in gpu_rows if bare(row["uuid"] or "") == bare(uuid)), None)


def _whole_gpu(uuid: str, ask: Ask) -> str:
    """The UUID of the GPU that holds a MIG slice; any other UUID unchanged."""
    of_slices = {bare(part): whole for part, whole in slices(ask(("-L",)) or "").items()}
    return of_slices.get(bare(uuid), uuid)


def _number(text: str | None, read: Callable[[str], float] = float) -> int | None:
    try:
        return None if text is None else int(read(text))
    except ValueError:
        return None
