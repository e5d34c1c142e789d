"""The measured GPU as the driver and nvidia-smi report it, which the tests on a CPU can only fake.

Also a script, for a machine that has torch but no pytest: `python tests/gpu/test_machine_on_gpu.py`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

if __name__ == "__main__":  # pytest has its own way to find the package
    sys.path.insert(0, str(Path(__file__).parent.parent.parent / "compiler"))

import torch

from fuselight.measure.machine import nvidia_smi
from fuselight.measure.machine.conditions import DeviceError, choose, look, machine_of


def test_the_gpu_is_chosen_and_no_other() -> None:
    device = choose("")
    assert device == choose("cuda") == torch.device("cuda", torch.cuda.current_device())
    assert choose("cpu").type == "cpu"
    with contextlib.suppress(DeviceError):
        raise AssertionError(choose(f"cuda:{torch.cuda.device_count()}"))


def test_nvidia_smi_knows_the_gpu_by_torchs_uuid() -> None:
    if nvidia_smi.asked() is None:
        assert look(choose("")).silent == "nvidia-smi is not installed"
        return
    seen = look(choose(""))
    assert seen.gpu is not None, seen.silent
    assert seen.gpu.driver
    assert seen.gpu.sm_mhz is not None
    assert seen.gpu.reasons is not None or seen.gpu.slowed_us


def test_the_machine_is_reported_and_this_process_is_not_another() -> None:
    device = choose("")
    before = look(device)
    torch.ones(8, device=device).sum().item()  # from here on this process is on the GPU
    machine = machine_of(before, look(device))
    assert machine.device == torch.cuda.get_device_name(device)
    assert (machine.index, machine.cuda) == (device.index, torch.version.cuda)
    assert machine.uuid
    assert machine.mig == (" MIG " in f"{machine.device} ")
    assert not [
        note for note in machine.notes if note.startswith("other processes") and f"({os.getpid()}" in note
    ]


if __name__ == "__main__":
    test_the_gpu_is_chosen_and_no_other()
    test_nvidia_smi_knows_the_gpu_by_torchs_uuid()
    print(machine_of(look(choose("")), look(choose(""))))  # noqa: T201 - as a script it has no other voice
    test_the_machine_is_reported_and_this_process_is_not_another()
