"""The processor's state, read from Linux's files, and causes of unreliable times."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.measure.machine import processor
from fuselight.measure.machine.processor import ProcessorState, doubts, is_own

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
QUIET = ProcessorState(at=0.0, cores=4, usable=4, load=0.5, busy=100.0, stolen=1.0, own=10.0)
LATER = replace(QUIET, at=10.0, busy=110.0, own=20.0)


def _write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def _stat(pid: int, name: str, parent: int, group: int, ticks: tuple[int, int, int, int]) -> str:
    times = " ".join(map(str, ticks))
    return f"{pid} ({name}) S {parent} {group} 1 0 -1 4194304 1 0 0 0 {times} 20 0 1 0 5 6 7\n"


def test_a_quiet_machine_has_no_notes() -> None:
    assert list(doubts(QUIET, LATER)) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"busy": 125.0}, "other programs kept 1.5 of 4 cores busy"),
        ({"load": 9.0}, {}, "load average was 9.0 on 4 cores before"),
        ({}, {"stolen": 3.0}, "hypervisor gave 5% of the processor's time"),
        ({"held_back": 1.0}, {"held_back": 2.5}, "control group throttled its processes for 1.5 s"),
        ({}, {"quota": 1.5}, "at most 1.5 cores"),
        ({"hot": 2}, {"hot": 5}, "heat slowed a core 3 times"),
        ({}, {"governor": "powersave"}, "follows its load (governor powersave)"),
        ({}, {"battery": True}, "on battery"),
    ],
)
def test_each_cause_of_unreliable_numbers_is_reported(
    before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    (note,) = doubts(replace(QUIET, **before), replace(LATER, **after))
    assert words in note


def test_unknown_values_cause_no_notes() -> None:
    nothing = ProcessorState(at=0.0, cores=4, usable=4)
    assert list(doubts(nothing, replace(nothing, at=10.0))) == []
    assert processor.clocks(nothing, nothing) == ""
    assert processor.clocks(replace(nothing, mhz=800.0), replace(nothing, mhz=3100.4)) == (
        "800 MHz before, 3100 MHz after, mean of the cores"
    )


@pytest.mark.skipif(not hasattr(os, "getpgrp"), reason="no process groups here")
def test_a_linux_is_read(tmp_path: Path) -> None:
    me, group = os.getpid(), os.getpgrp()
    strange = max(me, group) + 1000
    root = _write(
        tmp_path,
        proc__stat=f"cpu  {3 * TICKS} {TICKS} {2 * TICKS} 900 50 {TICKS} {TICKS} {TICKS // 2} 0 0\ncpu0 1 2 3\n",
        proc__cpuinfo="model name\t: A Processor\ncpu MHz\t\t: 1000.5\n\ncpu MHz\t\t: 2000.5\n",
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="schedutil\n",
        sys__devices__system__cpu__cpu0__thermal_throttle__core_throttle_count="2\n",
        sys__devices__system__cpu__cpu1__thermal_throttle__core_throttle_count="3\n",
        sys__class__power_supply__BAT0__type="Battery\n",
        sys__class__power_supply__BAT0__status="Discharging\n",
        sys__class__power_supply__AC__type="Mains\n",
        **{
            f"proc__{me}__stat": _stat(me, "python (3) x", 1, strange, (TICKS, 0, 0, TICKS)),
            f"proc__{strange}__stat": _stat(strange, "child", me, strange + 1, (0, TICKS, 0, 0)),
            f"proc__{strange + 1}__stat": _stat(strange + 1, "in group", 1, group, (TICKS, TICKS, TICKS, 0)),
            f"proc__{strange + 2}__stat": _stat(strange + 2, "other", 1, 1, (90 * TICKS, 0, 0, 0)),
            f"proc__{strange + 3}__stat": "gone",
        },
    )
    state = processor.state(root)
    assert (state.busy, state.stolen, state.own) == (8.0, TICKS // 2 / TICKS, 6.0)
    assert (state.mhz, state.governor, state.hot, state.battery) == (1500.5, "schedutil", 5, True)
    assert processor.name(root) == "A Processor"
    assert [is_own(pid, root) for pid in (me, strange, strange + 1, strange + 2, strange + 3, strange + 4)] == [
        True, True, True, False, None, None,
    ]  # fmt: skip


def test_control_groups_limit_with_all_above_them(tmp_path: Path) -> None:
    root = _write(
        tmp_path,
        proc__self__cgroup="0::/user/job\n",
        **{
            "sys__fs__cgroup__user__job__cpu.max": "max 100000\n",
            "sys__fs__cgroup__user__job__cpu.stat": "usage_usec 5\nthrottled_usec 2500000\n",
            "sys__fs__cgroup__user__cpu.max": "150000 100000\n",
            "sys__fs__cgroup__user__cpu.stat": "throttled_usec 9\n",
        },
    )
    state = processor.state(root)
    assert (state.quota, state.held_back) == (1.5, 2.5)


def test_a_system_without_these_files_reports_little(tmp_path: Path) -> None:
    state = processor.state(tmp_path)
    assert (state.busy, state.own, state.mhz, state.quota, state.hot) == (None, None, None, None, None)
    assert (state.governor, state.battery) == ("", False)
    assert state.cores >= state.usable >= 1
    assert processor.name(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_this_process_and_its_children_do_not_count_as_others() -> None:
    first = processor.state()
    assert first.own is not None
    assert first.busy is not None
    assert first.own <= first.busy
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    assert is_own(child.pid) is True
    child.communicate(b"\n")
    assert is_own(child.pid) is None
    assert is_own(1) is False
