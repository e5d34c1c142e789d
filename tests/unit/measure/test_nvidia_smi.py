"""Output of nvidia-smi in its documented form; a driver that lacks a field rejects the query."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from fuselight.measure.machine import nvidia_smi
from fuselight.measure.machine.nvidia_smi import (
    GpuProcess,
    GpuState,
    bare,
    clocks,
    processes,
    rows,
    slices,
    slowed,
    state_of,
)

FIRST, SECOND = "GPU-fcf41002-68b6-5900-d7d1-74026173bb44", "GPU-950792bf-a01c-3f1a-e122-3473e67f54b2"
SLICE = "MIG-e07a497d-1bb6-5a42-b670-1c33bf55ab6e"
LISTED = f"""GPU 0: NVIDIA A100-SXM4-40GB (UUID: {FIRST})
  MIG 3g.20gb     Device  0: (UUID: {SLICE})
  MIG 1g.5gb      Device  1: (UUID: MIG-fe9bc608-60f5-5479-8cc4-1827021d27a9)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: {SECOND})
"""


class Smi:
    """A fake nvidia-smi that knows these fields."""

    def __init__(self, **values: Sequence[str]) -> None:
        self.values = {name.replace("__", "."): value for name, value in values.items()}
        self.apps = ""
        self.listed = LISTED

    def __call__(self, arguments: Sequence[str]) -> str | None:
        first = arguments[0]
        if first == "-L":
            return self.listed
        if first.startswith("--query-compute-apps="):
            return self.apps
        fields = first.partition("=")[2].split(",")
        if not all(field in self.values for field in fields):
            return None  # "Field ... is not a valid field to query."
        columns = [self.values[field] for field in fields]
        return "".join(", ".join(row) + "\n" for row in zip(*columns, strict=True))


def _smi(**more: Sequence[str]) -> Smi:
    return Smi(
        uuid=(FIRST, SECOND), driver_version=("570.86.15",) * 2, clocks__sm=("345", "1980"),
        clocks__mem=("1215", "2619"), clocks__max__sm=("1410", "1980"), **more,
    )  # fmt: skip


def test_the_gpu_is_found_by_its_uuid() -> None:
    state = state_of(SECOND.removeprefix("GPU-"), _smi())
    assert state is not None
    assert (state.driver, state.sm_mhz, state.memory_mhz, state.highest_mhz) == (
        "570.86.15",
        1980,
        2619,
        1980,
    )
    assert state.reasons is None
    assert state.slowed_us == {}


def test_a_slice_is_of_its_gpu() -> None:
    state = state_of(bare(SLICE), _smi())
    assert state is not None
    assert state.sm_mhz == 345


def test_without_a_uuid_only_a_single_gpu_is_identified() -> None:
    assert state_of("", _smi()) is None
    smi = Smi(
        uuid=[FIRST], driver_version=["535.1"], clocks__sm=["[N/A]"], clocks__mem=["[Not Supported]"],
        clocks__max__sm=["N/A"],
    )  # fmt: skip
    assert state_of("", smi) == GpuState("535.1", processes=())


def test_an_unknown_gpu_gives_nothing() -> None:
    assert state_of("GPU-0", _smi()) is None
    assert state_of(FIRST, lambda _: None) is None


@pytest.mark.parametrize("name", ["clocks_event_reasons__active", "clocks_throttle_reasons__active"])
def test_old_and_new_drivers_report_throttle_reasons(name: str) -> None:
    smi = _smi(**{name: ("0x0000000000000001", "0x0000000000000024")})
    state = state_of(SECOND, smi)
    assert state is not None
    assert state.reasons == 0x24
    assert slowed(GpuState(reasons=1), state) == [
        "the power limit throttled the clocks before or after the measurement",
        "heat throttled the clocks before or after the measurement",
    ]  # fmt: skip
    assert slowed(GpuState(reasons=1), GpuState(reasons=0)) == []


def test_drivers_that_count_report_the_duration() -> None:
    counted = {
        "clocks_event_reasons_counters__sw_power_cap": ("5", "1000000"),
        "clocks_event_reasons_counters__sw_thermal_slowdown": ("0", "7"),
        "clocks_event_reasons_counters__hw_thermal_slowdown": ("0", "[N/A]"),
        "clocks_event_reasons_counters__hw_power_brake_slowdown": ("0", "0"),
        "clocks_event_reasons_counters__sync_boost": ("0", "0"),
    }
    before = state_of(SECOND, _smi(**counted))
    behind = state_of(
        SECOND, _smi(**{**counted, "clocks_event_reasons_counters__sw_power_cap": ("5", "1250000")})
    )
    assert slowed(before, behind) == ["the power limit throttled the clocks for 0.25 s"]
    assert slowed(before, before) == []


def test_throttling_is_unknown_without_reasons_from_the_driver() -> None:
    (words,) = slowed(GpuState(), GpuState())
    assert "is unknown" in words
    assert slowed(None, GpuState()) == []


def test_clocks_in_words() -> None:
    before, behind = (
        GpuState(sm_mhz=345, memory_mhz=2619),
        GpuState(sm_mhz=1980, memory_mhz=2619, highest_mhz=1980),
    )
    assert clocks(before, behind) == (
        "SM 345 MHz before, 1980 MHz after; memory 2619 MHz before, 2619 MHz after; SM at most 1980 MHz"
    )
    assert clocks(before, GpuState(highest_mhz=1980)) == ""
    assert clocks(None, behind) == ""


def test_processes_of_this_gpu_alone() -> None:
    smi = _smi()
    smi.apps = f"12, {SECOND}, 512, /usr/bin/python3\n13, {FIRST}, 4, other\n14, {SECOND}, [N/A], a, b\n"
    state = state_of(SECOND, smi)
    assert state is not None
    assert state.processes == (
        GpuProcess(12, SECOND, 512, "/usr/bin/python3"),
        GpuProcess(14, SECOND, None, "a, b"),
    )


def test_unreadable_files_are_ignored() -> None:
    assert processes("No running processes found\n\n, , , \n") == []
    assert rows("[Insufficient Permissions], 1\nno commas\n\n", ("a", "b")) == [{"a": None, "b": "1"}]
    assert slices("  MIG 1g.5gb      Device  0: (UUID: MIG-1)\nNo devices found.\n") == {}


def _program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_program_is_asked_and_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it hangs, it is not asked again."""
    _program(tmp_path, monkeypatch, 'if [ "$1" = -L ]; then echo listed; else exec sleep 60; fi')
    ask = nvidia_smi.asked()
    assert ask is not None
    assert ask(["-L"]) == "listed\n"
    monkeypatch.setattr(nvidia_smi, "_SECONDS", 0.1)
    assert ask(["--query"]) is None
    assert ask(["-L"]) is None


def test_a_failing_or_missing_program_gives_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path, monkeypatch, "echo 'Field \"x\" is not a valid field to query.'; exit 2")
    ask = nvidia_smi.asked()
    assert ask is not None
    assert ask(["--query-gpu=x"]) is None
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert nvidia_smi.asked() is None
