"""What nvidia-smi tells of a GPU while something is measured on it: clocks, what slows it, who else is there.

Invariant: nvidia-smi may be missing, old, slow or forbidden to answer: what it does not tell is None, never a guess,
and it gets a bounded time. The functions that read its text are pure; the fields are those of `nvidia-smi
--help-query-gpu`, of which a driver that lacks one refuses the whole question.
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
"""What slows it now, as bits; drivers before 535 have the second name alone."""
_COUNTERS = {
    "clocks_event_reasons_counters.sw_power_cap": "its power limit",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "heat",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "heat, by the hardware itself",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "its power supply",
    "clocks_event_reasons_counters.sync_boost": "other GPUs that it is kept in step with",
}
"""Microseconds since the driver was loaded, for each reason: newer drivers alone have them."""
_BITS = {
    0x2: "a setting of its clocks",
    0x4: "its power limit",
    0x8: "heat or power, by the hardware itself",
    0x10: "other GPUs that it is kept in step with",
    0x20: "heat",
    0x40: "heat, by the hardware itself",
    0x80: "its power supply",
}
"""Of the reasons that are active (nvml.h); 0x1 is that it is idle, 0x100 a display's clocks."""
_GPU_LINE = re.compile(r"^GPU \d+: .*\(UUID: (?P<uuid>[^)]+)\)")
_MIG_LINE = re.compile(r"^\s+MIG .*\(UUID: (?P<uuid>[^)]+)\)")

Ask = Callable[[Sequence[str]], "str | None"]
"""Runs nvidia-smi with these arguments; None where it gives no answer."""


@dataclass(frozen=True)
class Process:
    """One that computes on a GPU."""

    pid: int
    gpu: str
    """UUID."""
    mib: int | None
    name: str


@dataclass(frozen=True)
class GpuState:
    """What nvidia-smi told at one time of the GPU that is measured on."""

    driver: str = ""
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    highest_mhz: int | None = None
    """SM clock at the most."""
    reasons: int | None = None
    """Bits of what holds its clocks down now."""
    slowed_us: Mapping[str, int] = field(default_factory=dict)
    """Reason to microseconds since the driver was loaded; empty where the driver does not count them."""
    processes: tuple[Process, ...] | None = None


def asked() -> Ask | None:
    """How to ask nvidia-smi; None where there is none."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    hangs = False

    def ask(arguments: Sequence[str]) -> str | None:
        nonlocal hangs
        if hangs:
            return None  # it would again, as with a GPU that is lost
        try:
            told = subprocess.run(  # noqa: S603 - the driver's own tool, found on the user's PATH
                [path, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
            hangs = isinstance(error, subprocess.TimeoutExpired)
            return None
        return told.stdout if told.returncode == 0 else None

    return ask


def state_of(uuid: str, ask: Ask) -> GpuState | None:
    """What it tells of the GPU with this UUID, or of the one that has this MIG slice; None where it knows of none.

    An empty `uuid` (a torch that tells none) means the only GPU there is.
    """
    whose = _whole_gpu(uuid, ask)
    base = _row(ask, _FIELDS, whose)
    if base is None:
        return None
    active = next((row for name in _ACTIVE if (row := _row(ask, ("uuid", name), whose))), None)
    counted = _row(ask, ("uuid", *_COUNTERS), whose)
    told = ask(("--query-compute-apps=pid,gpu_uuid,used_memory,process_name", _FORMAT))
    there = None if told is None else tuple(
        one for one in processes(told) if bare(one.gpu) in {bare(base["uuid"] or ""), bare(uuid)}
    )  # fmt: skip
    return GpuState(
        driver=base["driver_version"] or "",
        sm_mhz=_number(base["clocks.sm"]),
        memory_mhz=_number(base["clocks.mem"]),
        highest_mhz=_number(base["clocks.max.sm"]),
        reasons=_bits(next(reversed(active.values()), None)) if active else None,
        slowed_us=_counts(counted or {}),
        processes=there,
    )


def rows(text: str, fields: Sequence[str]) -> list[dict[str, str | None]]:
    """Read an answer in CSV: one GPU a line. What it does not tell (`[N/A]`, `[Not Supported]`) is None."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            told = (None if value.startswith("[") or value == "N/A" else value for value in values)
            found.append(dict(zip(fields, told, strict=True)))
    return found


def slices(text: str) -> dict[str, str]:
    """Read `nvidia-smi -L`: the UUID of each MIG slice, with that of its GPU."""
    found, gpu = {}, ""
    for line in text.splitlines():
        whole, part = _GPU_LINE.match(line), _MIG_LINE.match(line)
        if whole is not None:
            gpu = whole["uuid"]
        elif part is not None and gpu:
            found[part["uuid"]] = gpu
    return found


def processes(text: str) -> list[Process]:
    """Read the answer to what computes where: `pid, gpu_uuid, used_memory, process_name`; names may have commas."""
    found = []
    for line in text.splitlines():
        pid, *more = (value.strip() for value in line.split(",", 3))
        if pid.isdigit() and len(more) == len(("gpu", "memory", "name")):
            found.append(Process(int(pid), more[0], _number(more[1]), more[2]))
    return found


def bare(uuid: str) -> str:
    """A UUID without `GPU-` or `MIG-`, as torch tells it."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def clocks(before: GpuState | None, behind: GpuState | None) -> str:
    """SM and memory clock before and behind, in words; empty where they are not known."""
    found = []
    for name, pair in (
        ("SM", (before and before.sm_mhz, behind and behind.sm_mhz)),
        ("memory", (before and before.memory_mhz, behind and behind.memory_mhz)),
    ):
        first, last = pair
        if first is not None and last is not None:
            found.append(f"{name} {first} MHz before, {last} MHz after")
    highest = behind and behind.highest_mhz
    return "; ".join(found) + (f"; SM {highest} MHz at the most" if found and highest else "")


def slowed(before: GpuState | None, behind: GpuState | None) -> list[str]:
    """What held the GPU's clocks down meanwhile, in words."""
    if before is None or behind is None:
        return []
    if before.slowed_us and behind.slowed_us:
        spent = {name: us - before.slowed_us.get(name, us) for name, us in behind.slowed_us.items()}
        return [f"{name} held its clocks down for {us / 1e6:.3g} s" for name, us in spent.items() if us > 0]
    if before.reasons is None or behind.reasons is None:
        return [
            "whether heat or its power limit held its clocks down is not known: this driver does not tell"
        ]
    bits = before.reasons | behind.reasons
    return [f"{name} held its clocks down before or behind" for bit, name in _BITS.items() if bits & bit]


def _row(ask: Ask, fields: Sequence[str], uuid: str) -> dict[str, str | None] | None:
    told = ask((f"--query-gpu={','.join(fields)}", _FORMAT))
    found = rows(told or "", fields)
    if not uuid:
        return found[0] if len(found) == 1 else None
    return next((row for row in found if bare(row["uuid"] or "") == bare(uuid)), None)


def _whole_gpu(uuid: str, ask: Ask) -> str:
    """The UUID of the GPU that a MIG slice is of; any other as it is."""
    of_slices = {bare(part): whole for part, whole in slices(ask(("-L",)) or "").items()}
    return of_slices.get(bare(uuid), uuid)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(float(text))
    except ValueError:
        return None


def _bits(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None


def _counts(row: Mapping[str, str | None]) -> dict[str, int]:
    told = ((words, _number(row.get(name))) for name, words in _COUNTERS.items())
    return {words: us for words, us in told if us is not None}
