"""The measured device, and the description of the machine: on the CPU here, with GPUs that torch is made to see."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.inductor import toolchain
from fuselight.measure.machine import nvidia_smi, processor
from fuselight.measure.machine.conditions import DeviceError, Look, choose, look, machine_of, others
from fuselight.measure.machine.nvidia_smi import GpuProcess, GpuState
from fuselight.shared.report import Culprit, Failure

pytestmark = pytest.mark.torch
UUID = "fcf41002-68b6-5900-d7d1-74026173bb44"


def _properties(name: str = "NVIDIA H200", major: int = 9) -> Any:
    return types.SimpleNamespace(name=name, major=major, minor=0, uuid=UUID)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A torch built with CUDA, and its driver's answers, set by the test."""
    namespace = types.SimpleNamespace(count=0, current=0, driver=None, built="12.6", properties=_properties())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: namespace.count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: namespace.count)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: namespace.current)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: namespace.properties)
    monkeypatch.setattr(toolchain, "driver_version", lambda: namespace.driver)
    monkeypatch.setattr(torch.version, "cuda", namespace.built)
    return namespace


def test_without_a_gpu_the_cpu_is_taken(gpus: types.SimpleNamespace) -> None:
    assert choose("") == choose("cpu") == choose(" CPU ") == torch.device("cpu")
    gpus.count, gpus.current = 2, 1
    assert choose("") == choose("cuda") == torch.device("cuda", 1)
    assert choose("cuda:0") == torch.device("cuda", 0)
    assert choose("cpu") == torch.device("cpu")


@pytest.mark.parametrize("asked", ["gpu", "mps", "cuda:", "cuda:x", "cuda:-1", "1"])
def test_a_device_that_cannot_be_read(asked: str) -> None:
    with pytest.raises(DeviceError, match="There is no device") as raised:
        choose(asked)
    assert "cuda:1" in raised.value.failure.next_step


def test_a_number_out_of_range(gpus: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.count = 1
    with pytest.raises(DeviceError, match="torch sees one GPU, cuda:0"):
        choose("cuda:1")
    gpus.count = 4
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    with pytest.raises(DeviceError, match=r"4 GPUs, cuda:0 to cuda:3 \(CUDA_VISIBLE_DEVICES=0,1,2,3\)"):
        choose("cuda:4")


def _refused() -> Failure:
    with pytest.raises(DeviceError) as raised:
        choose("cuda")
    failure = raised.value.failure
    assert (failure.culprit, failure.kind) == (Culprit.ENVIRONMENT, "device")
    assert failure.message == str(raised.value)
    assert "device cpu" in failure.next_step
    return failure


def test_why_there_is_no_gpu(gpus: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cause has its message and its next step."""
    assert "No GPU driver" in _refused().message
    gpus.driver = "11.8"
    failure = _refused()
    assert "too old: it supports CUDA 11.8, and torch was built with CUDA 12.6" in failure.message
    assert "Update the driver" in failure.next_step
    gpus.driver = "12.2"
    assert _refused().message == "torch sees no GPU"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    failure = _refused()
    assert "(CUDA_VISIBLE_DEVICES=)" in failure.message
    assert "Unset" in failure.next_step
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "built for the CPU" in _refused().message


def test_the_cpu_is_reported_with_its_threads() -> None:
    cpu = choose("cpu")
    machine = machine_of(look(cpu), look(cpu))
    assert machine.device == processor.name()
    assert machine.threads == torch.get_num_threads()
    assert (machine.index, machine.uuid, machine.mig, machine.driver) == (None, "", False, "")


def test_more_threads_than_cores_are_reported() -> None:
    here = look(choose("cpu"))
    usable = torch.get_num_threads() - 1
    machine = machine_of(here, replace(here, processor=replace(here.processor, usable=usable)))
    assert f"torch runs {usable + 1} threads on {usable} cores" in machine.notes


def test_a_gpu_that_is_ignored_is_reported(
    gpus: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "asked", lambda: lambda _: "")
    gpus.driver = "11.8"
    here = look(choose(""))
    assert any(
        "nvidia-smi is installed" in note and "too old" in note for note in machine_of(here, here).notes
    )


def _looks(before: GpuState | None, behind: GpuState | None, silent: str = "") -> tuple[Look, Look]:
    device, state = torch.device("cuda", 1), processor.state()
    quiet = replace(state, load=0.0, governor="", quota=None)
    return Look(device, quiet, before, silent), Look(device, quiet, behind, silent)


def test_a_gpu_is_reported(gpus: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.count = 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    before = GpuState("570.86.15", 345, 2619, 1980, 1, {}, ())
    machine = machine_of(*_looks(before, replace(before, sm_mhz=1755, reasons=0x4)))
    assert (machine.device, machine.index, machine.visible, machine.uuid) == ("NVIDIA H200", 1, "3,4", UUID)
    assert (machine.mig, machine.driver, machine.cuda) == (False, "570.86.15", "12.6")
    assert machine.clocks.startswith("SM 345 MHz before, 1755 MHz after")
    assert machine.notes[0] == "the power limit throttled the clocks before or after the measurement"


def test_a_mig_slice_is_reported_as_a_slice(gpus: types.SimpleNamespace) -> None:
    gpus.properties = _properties("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 8)
    assert machine_of(*_looks(None, None, "nvidia-smi is not installed")).mig


def test_missing_values_of_nvidia_smi_are_reported_once(gpus: types.SimpleNamespace) -> None:
    gpus.properties = _properties("Tesla P100", 6)
    machine = machine_of(*_looks(None, None, "nvidia-smi is not installed"))
    assert machine.clocks == ""
    assert [note for note in machine.notes if "nvidia-smi is not installed" in note] == [
        "nvidia-smi is not installed: clocks, throttling and other processes on the GPU are unknown"
    ]
    assert any("capability 7.0" in note for note in machine.notes)
    machine = machine_of(*_looks(GpuState(reasons=0), GpuState(reasons=0)))
    assert "other processes on the GPU are unknown" in machine.notes


def test_other_processes_are_distinguished_from_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {11: True, 12: False, 13: None, 14: False, 15: False, 16: False, 17: False}
    monkeypatch.setattr(processor, "is_own", own.get)
    processes = [GpuProcess(pid, UUID, 7 if pid != 14 else None, f"/usr/bin/p{pid}") for pid in own]
    assert list(others(processes[:1])) == []
    foreign, unknown = others(processes)
    assert foreign == (
        "other processes are on the GPU: p12 (12, 7 MiB), p14 (14), p15 (15, 7 MiB), p16 (16, 7 MiB) and 1 more"
    )
    assert "a process on the GPU not visible here" in unknown


def test_nvidia_smi_is_queried_by_uuid(gpus: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.count = 1
    asked: list[str] = []

    def state_of(uuid: str, _: object) -> GpuState | None:
        asked.append(uuid)
        return None

    monkeypatch.setattr(nvidia_smi, "asked", lambda: None)
    assert look(choose("")).silent == "nvidia-smi is not installed"
    monkeypatch.setattr(nvidia_smi, "asked", lambda: lambda _: "")
    monkeypatch.setattr(nvidia_smi, "state_of", state_of)
    assert look(choose("")).silent == "nvidia-smi does not report this GPU"
    assert asked == [UUID]
