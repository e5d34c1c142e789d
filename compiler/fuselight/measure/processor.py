"""The processor while something is measured: which it is, who else keeps it busy, what holds it back.

Invariant: what this system does not tell is None. All files are read below `root`, so that tests can give others.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_OTHERS = 0.1
"""Part of all cores that other programs may keep busy before it is worth a word."""
_STOLEN = 0.01
_SECONDS = 5.0
_STEADY = "performance"
"""The governor that leaves the clock where it is."""


@dataclass(frozen=True)
class ProcessorState:
    """The processor at one time. Seconds are of processor time, all cores together, since the system began."""

    at: float
    """By `time.monotonic`."""
    cores: int
    """All of them."""
    usable: int
    """Those that this process may run on."""
    load: float | None = None
    """Mean number of programs that ran or waited, in the last minute."""
    busy: float | None = None
    stolen: float | None = None
    """What a hypervisor gave to others."""
    own: float | None = None
    """What this process, its group and its children took."""
    held_back: float | None = None
    """Seconds for which the control group held its processes back."""
    quota: float | None = None
    """Cores that the control group gives at the most."""
    mhz: float | None = None
    """Mean over the cores."""
    governor: str = ""
    battery: bool = False
    """Whether it runs on one."""
    hot: int | None = None
    """How often a core was slowed by heat."""


def state(root: Path = ROOT) -> ProcessorState:
    """How the processor is now."""
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


def name(root: Path = ROOT) -> str:
    """The processor's name, as its maker or the system has it."""
    told = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    if told is not None:
        return told[1].strip()
    if sys.platform == "darwin":
        try:
            asked = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True, text=True, timeout=_SECONDS, check=True,
            )  # fmt: skip
            return asked.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return platform.processor() or platform.machine()


def clocks(before: ProcessorState, behind: ProcessorState) -> str:
    """Its clock before and behind, in words; empty where that is not known."""
    if before.mhz is None or behind.mhz is None:
        return ""
    return f"{before.mhz:.0f} MHz before, {behind.mhz:.0f} MHz after, mean of the cores"


def doubts(before: ProcessorState, behind: ProcessorState) -> Iterator[str]:
    """What makes times that were taken between these two doubtful, in words."""
    yield from _busy(before, behind)
    span = (behind.at - before.at) * behind.cores
    stolen = _between(before.stolen, behind.stolen)
    if stolen is not None and span > 0 and stolen / span > _STOLEN:
        yield f"the hypervisor gave {stolen / span:.0%} of the processor's time to others"
    held_back = _between(before.held_back, behind.held_back)
    if held_back:
        yield f"the control group held its processes back for {held_back:.3g} s"
    if behind.quota is not None and behind.quota < behind.usable:
        yield f"the control group gives the time of {behind.quota:g} cores at the most"
    hot = _between(before.hot, behind.hot)
    if hot:
        yield f"heat slowed a core down {hot:g} times"
    if behind.governor and behind.governor != _STEADY:
        yield f"the processor's clock follows its load (governor {behind.governor})"
    if behind.battery:
        yield "it runs on battery"


def _busy(before: ProcessorState, behind: ProcessorState) -> Iterator[str]:
    cores, span = behind.cores, behind.at - before.at
    all_of_it, own = _between(before.busy, behind.busy), _between(before.own, behind.own)
    if all_of_it is not None and own is not None and span > 0:
        others = (all_of_it - own) / span
        if others > _OTHERS * cores:
            yield f"other programs kept {others:.1f} of {cores} cores busy meanwhile"
    if before.load is not None and before.load > cores:
        yield f"the load average was {before.load:.1f} on {cores} cores before it began"


def _between(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else max(0.0, last - first)


def _times(text: str) -> tuple[float | None, float | None]:
    """Of /proc/stat: seconds that all cores were busy, and that were stolen (proc(5))."""
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
    """Of itself, and of the children that it waited for."""


def _process(text: str) -> _Process | None:
    """Of /proc/PID/stat; the name in brackets may have brackets and blanks itself."""
    words = text.rpartition(")")[2].split()
    try:
        ticks = sum(int(word) for word in words[11:15])
        return _Process(int(words[1]), int(words[2]), ticks / os.sysconf("SC_CLK_TCK"))
    except (ValueError, IndexError):
        return None


def _own(root: Path) -> float | None:
    found: dict[int, _Process] = {}
    try:
        folders = [entry for entry in os.listdir(root / "proc") if entry.isdigit()]
    except OSError:
        return None
    for folder in folders:
        process = _process(_read(root / "proc" / folder / "stat"))
        if process is not None:
            found[int(folder)] = process
    if os.getpid() not in found:
        return None
    return sum(one.seconds for pid, one in found.items() if _is_own(pid, found))


def is_own(pid: int, root: Path = ROOT) -> bool | None:
    """Whether a process belongs to this one: its group or its children; None where there is no such process here."""
    found: dict[int, _Process] = {}
    at = pid
    while at and at not in found:
        process = _process(_read(root / "proc" / str(at) / "stat"))
        if process is None:
            break
        found[at] = process
        at = process.parent
    return _is_own(pid, found) if pid in found else None


def _is_own(pid: int, processes: dict[int, _Process]) -> bool:
    me, group = os.getpid(), os.getpgrp()
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        if pid == me or processes[pid].group == group:
            return True
        seen.add(pid)
        pid = processes[pid].parent
    return False


def _control_group(root: Path) -> tuple[float | None, float | None]:
    """Cores that the groups of this process give, the fewest of them, and for how long its own held it back."""
    line = next(
        (line for line in _read(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), ""
    )
    folder = root / "sys/fs/cgroup" / line[3:].strip().lstrip("/")
    quotas, held_back = [], None
    for one in (folder, *folder.parents):
        told = re.match(r"(\d+) (\d+)", _read(one / "cpu.max"))
        if told is not None:
            quotas.append(int(told[1]) / int(told[2]))
        counted = re.search(r"^throttled_usec (\d+)", _read(one / "cpu.stat"), re.MULTILINE)
        if counted is not None and held_back is None:
            held_back = int(counted[1]) / 1e6
        if one == root / "sys/fs/cgroup":
            break
    return min(quotas, default=None), held_back


def _mhz(text: str) -> float | None:
    told = [float(value) for value in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
    return sum(told) / len(told) if told else None


def _on_battery(root: Path) -> bool:
    supplies = list((root / "sys/class/power_supply").glob("*"))
    return any(
        _read(one / "type").strip() == "Battery" and _read(one / "status").strip() == "Discharging"
        for one in supplies
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
