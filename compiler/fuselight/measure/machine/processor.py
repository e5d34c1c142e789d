"""Processor state during a measurement: model, other load, and throttling.

Invariant: a value that this system does not report is None. All files are read below `root`, so that tests can supply
their own.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuselight.replay.processor_name import processor_name

ROOT = Path("/")
_OTHERS = 0.1
"""Fraction of all cores that other programs may use before it is reported."""
_STOLEN = 0.01
_STEADY = "performance"
"""The governor that keeps the clock constant."""


@dataclass(frozen=True)
class ProcessorState:
    """Processor state at one time. Seconds are processor time of all cores together since boot."""

    at: float
    """From `time.monotonic`."""
    cores: int
    """All cores."""
    usable: int
    """Cores that this process may use."""
    load: float | None = None
    """Mean number of running or waiting programs in the last minute."""
    busy: float | None = None
    stolen: float | None = None
    """Time that a hypervisor gave to other machines."""
    own: float | None = None
    """Time used by this process, its group and its children."""
    held_back: float | None = None
    """Seconds for which the control group throttled its processes."""
    quota: float | None = None
    """Maximum cores that the control group allows."""
    mhz: float | None = None
    """Mean over the cores."""
    governor: str = ""
    battery: bool = False
    """Whether the machine runs on battery."""
    hot: int | None = None
    """How often heat slowed a core."""


def state(root: Path = ROOT) -> ProcessorState:
    """Read the processor's state."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy, stolen = _times(_read(root / "proc/stat"))
    quota, held_back = _control_group(root)
    return ProcessorState(
        at=time.monotonic(),
        cores=os.cpu_count() or usable,
        usable=usable,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        busy=busy,
        stolen=stolen,
        own=_own(root),
        held_back=held_back,
        quota=quota,
        mhz=_mhz(_read(root / "proc/cpuinfo")),
        governor=_read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip(),
        battery=_on_battery(root),
        hot=_hot(root),
    )


def available_bytes(root: Path = ROOT) -> int | None:
    """Memory that programs can use without swapping; None where the system does not report it."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def name(root: Path = ROOT) -> str:
    """The processor's name as the manufacturer or the system reports it."""
    return processor_name(root)


def clocks(before: ProcessorState, after: ProcessorState) -> str:
    """Describe the processor's clock before and after; empty if it is unknown."""
    if before.mhz is None or after.mhz is None:
        return ""
    return f"{before.mhz:.0f} MHz before, {after.mhz:.0f} MHz after, mean of the cores"


def doubts(before: ProcessorState, after: ProcessorState) -> Iterator[str]:
    """Describe what makes timings between these two states doubtful."""
    yield from _busy(before, after)
    span = (after.at - before.at) * after.cores
    stolen = _between(before.stolen, after.stolen)
    if stolen is not None and span > 0 and stolen / span > _STOLEN:
        yield f"the hypervisor gave {stolen / span:.0%} of the processor's time to other machines"
    held_back = _between(before.held_back, after.held_back)
    if held_back:
        yield f"the control group throttled its processes for {held_back:.3g} s"
    if after.quota is not None and after.quota < after.usable:
        yield f"the control group allows at most {after.quota:g} cores"
    hot = _between(before.hot, after.hot)
    if hot:
        yield f"heat slowed a core {hot:g} times"
    if after.governor and after.governor != _STEADY:
        yield f"the processor's clock follows its load (governor {after.governor})"
    if after.battery:
        yield "the machine runs on battery"


def _busy(before: ProcessorState, after: ProcessorState) -> Iterator[str]:
    cores, span = after.cores, after.at - before.at
    all_of_it, own = _between(before.busy, after.busy), _between(before.own, after.own)
    if all_of_it is not None and own is not None and span > 0:
        others = (all_of_it - own) / span
        if others > _OTHERS * cores:
            yield f"other programs kept {others:.1f} of {cores} cores busy during the measurement"
    if before.load is not None and before.load > cores:
        yield f"the load average was {before.load:.1f} on {cores} cores before the measurement"


def _between(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else max(0.0, last - first)


def _times(text: str) -> tuple[float | None, float | None]:
    """From /proc/stat: seconds that all cores were busy, and seconds stolen by the hypervisor (proc(5))."""
    line = next((line for line in text.splitlines() if line.startswith("cpu ")), "")
    numbers = [int(word) for word in line.split()[1:]]
    if len(numbers) < len(("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")):
        return None, None
    user, nice, system, _, _, irq, softirq, steal = numbers[:8]
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / ticks, steal / ticks


@dataclass(frozen=True)
class _Process:
    parent: int
    group: int
    seconds: float
    """Processor time of the process and of the children that it has waited for."""


def _process(text: str) -> _Process | None:
    """Parse /proc/PID/stat; the name in parentheses may contain parentheses and blanks."""
    words = text.rpartition(")")[2].split()
    try:
        ticks = sum(int(word) for word in words[11:15])
        return _Process(int(words[1]), int(words[2]), ticks / os.sysconf("SC_CLK_TCK"))
    except (ValueError, IndexError):
        return None


def _own(root: Path) -> float | None:
    try:
        pids = [int(entry) for entry in os.listdir(root / "proc") if entry.isdigit()]
    except OSError:
        return None
    read: dict[int, _Process | None] = {}
    own = [read[pid] for pid in pids if is_own(pid, root, read)]
    return sum(process.seconds for process in own if process) if is_own(os.getpid(), root, read) else None


def is_own(pid: int, root: Path = ROOT, read: dict[int, _Process | None] | None = None) -> bool | None:
    """Whether a process is in this process's group or below it; None if the process is not visible here.

    `read` keeps the processes that were read for the next call.
    """
    read = {} if read is None else read
    me, group = os.getpid(), os.getpgrp()
    seen: set[int] = set()
    while pid and pid not in seen:
        if pid not in read:
            read[pid] = _process(_read(root / "proc" / str(pid) / "stat"))
        process = read[pid]
        if process is None:
            break
        if pid == me or process.group == group:
            return True
        seen.add(pid)
        pid = process.parent
    return False if seen else None


def _control_group(root: Path) -> tuple[float | None, float | None]:
    """The fewest cores that this process's control groups allow, and seconds that its own group throttled it."""
    line = next(
        (line for line in _read(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), ""
    )
    folder = root / "sys/fs/cgroup" / line[3:].strip().lstrip("/")
    quotas, held_back = [], None
    for parent in (folder, *folder.parents):
        reported = re.match(r"(\d+) (\d+)", _read(parent / "cpu.max"))
        if reported is not None:
            quotas.append(int(reported[1]) / int(reported[2]))
        counted = re.search(r"^throttled_usec (\d+)", _read(parent / "cpu.stat"), re.MULTILINE)
        if counted is not None and held_back is None:
            held_back = int(counted[1]) / 1e6
        if parent == root / "sys/fs/cgroup":
            break
    return min(quotas, default=None), held_back


def _mhz(text: str) -> float | None:
    reported = [float(value) for value in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
    return sum(reported) / len(reported) if reported else None


def _on_battery(root: Path) -> bool:
    supplies = list((root / "sys/class/power_supply").glob("*"))
    return any(
        _read(supply / "type").strip() == "Battery" and _read(supply / "status").strip() == "Discharging"
        for supply in supplies
    )


def _hot(root: Path) -> int | None:
    counts = [
        int(text)
        for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
        if (text := _read(path).strip()).isdigit()
    ]
    return sum(counts) if counts else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
