"""Choice of the device, and the conditions during a measurement.

Invariant: reading the machine's state does not affect timings: it happens before the first and after the last timed
call. Unknown values are omitted or reported. A missing device raises DeviceError; no other device is used instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor import toolchain
from fuselight.measure.machine import nvidia_smi, processor
from fuselight.measure.machine.nvidia_smi import GpuProcess, GpuState
from fuselight.measure.machine.processor import ProcessorState
from fuselight.shared.devices.drivers import SMALLEST_CAPABILITY, limited, serves, update_driver
from fuselight.shared.report import Culprit, Failure, Machine

_ON_CPU = "measure on the CPU: device cpu"
_NAMED = 4
"""Maximum other processes that are named; the rest are counted."""


class DeviceError(RuntimeError):
    """The requested device is not available."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.failure = Failure(Culprit.ENVIRONMENT, "device", message, next_step)


@dataclass(frozen=True)
class Look:
    """The machine's state at one time."""

    device: torch.device
    processor: ProcessorState
    gpu: GpuState | None = None
    """nvidia-smi's answer; None on a CPU, and if nvidia-smi gave no answer."""
    silent: str = ""
    """Why `gpu` is None on a GPU."""


def choose(asked: str) -> torch.device:
    """The device for `MeasurePlan.device`: the requested one, else the GPU that torch uses, else the CPU.

    Raises DeviceError. Initializes CUDA if a GPU is chosen.
    """
    wanted = asked.strip().lower()
    if wanted == "cpu":
        return torch.device("cpu")
    kind, colon, index = wanted.partition(":")
    if not wanted:
        if not torch.cuda.is_available():
            return torch.device("cpu")
    elif kind != "cuda" or (colon and not index.isdecimal()):
        raise DeviceError(
            f"There is no device {asked!r}", "Ask for cpu, cuda, or a GPU by its number: cuda:1"
        )
    elif not torch.cuda.is_available():
        raise _no_gpu()
    number = int(index) if index else torch.cuda.current_device()
    count = torch.cuda.device_count()
    if number >= count:
        visible = limited(os.environ.get("CUDA_VISIBLE_DEVICES"))
        there = "one GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise DeviceError(
            f"There is no cuda:{number}: torch sees {there}{visible}", "Ask for one that it sees, or cpu"
        )
    return torch.device("cuda", number)


def _no_gpu() -> DeviceError:
    built, served = torch.version.cuda, toolchain.driver_version()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if getattr(torch.version, "hip", None):
        return DeviceError("torch sees no GPU", f"Run fuselight doctor, or {_ON_CPU}")
    if built is None:
        return DeviceError(
            "This torch was built for the CPU",
            f"Install a torch that was built with CUDA, or {_ON_CPU}",
        )
    if served is None:
        return DeviceError(
            "No GPU driver for CUDA answers", f"Run fuselight doctor, which looks for the cause, or {_ON_CPU}"
        )
    if not serves(served, built):
        return DeviceError(
            f"The GPU driver is too old: it supports CUDA {served}, and torch was built with CUDA {built}",
            f"{update_driver(served, built)}; or {_ON_CPU}",
        )
    if visible is not None:
        return DeviceError(
            f"torch sees no GPU{limited(visible)}", f"Unset CUDA_VISIBLE_DEVICES, or {_ON_CPU}"
        )
    return DeviceError("torch sees no GPU", f"Run fuselight doctor, or {_ON_CPU}")


def look(device: torch.device) -> Look:
    """Read the machine's state: takes some tenths of a second with a GPU, else some milliseconds."""
    if device.type != "cuda":
        return Look(device, processor.state())
    ask = nvidia_smi.asked()
    gpu = nvidia_smi.state_of(_uuid(device), ask) if ask is not None else None
    silent = ""
    if gpu is None:
        silent = "nvidia-smi is not installed" if ask is None else "nvidia-smi does not report this GPU"
    return Look(device, processor.state(), gpu, silent)


def machine_of(before: Look, after: Look) -> Machine:
    """Describe the machine between these two states, and what makes the timings doubtful."""
    device, host = before.device, (before.processor, after.processor)
    notes = tuple(dict.fromkeys(_doubts(before, after)))
    if device.type != "cuda":
        return Machine(
            processor.name(), threads=torch.get_num_threads(), clocks=processor.clocks(*host),
            visible=os.environ.get("CUDA_VISIBLE_DEVICES"), notes=notes,
        )  # fmt: skip
    properties: Any = torch.cuda.get_device_properties(device)
    name = str(properties.name).strip()
    return Machine(
        name,
        index=device.index,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        uuid=_uuid(device),
        mig=" MIG " in f"{name} ",
        driver=after.gpu.driver if after.gpu is not None else "",
        cuda=str(torch.version.cuda or ""),
        threads=torch.get_num_threads(),
        clocks=nvidia_smi.clocks(before.gpu, after.gpu),
        notes=notes,
    )


def _uuid(device: torch.device) -> str:
    """UUID of the GPU or MIG slice as CUDA reports it; torch before 2.5 does not report it."""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))


def _doubts(before: Look, after: Look) -> Iterator[str]:
    """Describe what makes timings between these two states doubtful."""
    device = before.device
    if device.type == "cuda":
        yield from _gpu_doubts(before, after)
    yield from processor.doubts(before.processor, after.processor)
    threads, usable = torch.get_num_threads(), after.processor.usable
    if threads > usable:
        yield f"torch runs {threads} threads on {usable} cores"
    if device.type == "cuda":
        properties: Any = torch.cuda.get_device_properties(device)
        capability = (properties.major, properties.minor)
        if not getattr(torch.version, "hip", None) and capability < SMALLEST_CAPABILITY:
            yield f"Triton compiles for capability 7.0 and newer, and this GPU has {capability[0]}.{capability[1]}"
    elif nvidia_smi.asked() is not None and not torch.cuda.is_available():
        yield f"nvidia-smi is installed, but torch sees no GPU: {_no_gpu()}"


def _gpu_doubts(before: Look, after: Look) -> Iterator[str]:
    silent = before.silent or after.silent
    if silent:
        yield f"{silent}: clocks, throttling and other processes on the GPU are unknown"
        return
    yield from nvidia_smi.slowed(before.gpu, after.gpu)
    reported = [
        machine_state.gpu.processes for machine_state in (before, after) if machine_state.gpu is not None
    ]
    if any(processes is None for processes in reported):
        yield "other processes on the GPU are unknown"
    there = {process.pid: process for processes in reported for process in processes or ()}
    yield from others(there.values())


def others(processes: Iterable[GpuProcess]) -> Iterator[str]:
    """Describe the processes on the GPU that do not belong to this benchmark."""
    foreign, unknown = [], 0
    for process in sorted(processes, key=lambda gpu_process: gpu_process.pid):
        own = processor.is_own(process.pid)
        if own is None:
            unknown += 1
        elif not own:
            memory = f", {process.mib} MiB" if process.mib is not None else ""
            foreign.append(f"{os.path.basename(process.name)} ({process.pid}{memory})")
    if foreign:
        more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        yield f"other processes are on the GPU: {', '.join(foreign[:_NAMED])}{more}"
    if unknown:
        many = "a process" if unknown == 1 else f"{unknown} processes"
        yield (
            f"nvidia-smi lists {many} on the GPU not visible here, for example in a container:"
            " this benchmark may be among them"
        )
