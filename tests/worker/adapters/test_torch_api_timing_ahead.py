"""Inductor's own timings, on a simulated GPU whose host is slow: with a head start they are those of the kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.choices.timing_ahead import timing_ahead

pytestmark = pytest.mark.torch
LAUNCH_US = 90.0
"""What the host takes where it copies an argument before each launch."""
CLEAR_US = 10.0
"""The GPU clears its cache in this time, and the host takes as long to ask for it: it never gets ahead."""
CYCLES_PER_US = 2000


@dataclass
class Gpu:
    """A GPU that works through a queue, and the host that fills it. Times are microseconds."""

    host: float = 0.0
    gpu: float = 0.0
    slept: float = 0.0

    def enqueue(self, host_us: float, gpu_us: float) -> float:
        """The time at which the GPU is done with a piece of work that the host asks for now."""
        self.host += host_us
        self.gpu = max(self.gpu, self.host) + gpu_us
        return self.gpu

    def synchronize(self, *_: object) -> None:
        self.host = self.gpu = max(self.host, self.gpu)

    def sleep(self, cycles: int) -> None:
        self.slept += cycles / CYCLES_PER_US
        self.enqueue(5.0, cycles / CYCLES_PER_US)

    def event(self, **_: object) -> Event:
        return Event(self)

    def empty(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(zero_=lambda: self.enqueue(CLEAR_US, CLEAR_US))


@dataclass
class Event:
    gpu: Gpu
    at: float = 0.0

    def record(self, *_: object) -> None:
        self.at = self.gpu.enqueue(1.0, 0.0)

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) / 1000


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Have Inductor's benchmarker time kernels of this GPU."""
    gpu = Gpu()
    module: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
    interface = SimpleNamespace(
        Event=gpu.event,
        synchronize=gpu.synchronize,
        current_device=lambda: 0,
        get_device_properties=lambda _device: SimpleNamespace(L2_cache_size=1 << 20),
    )
    monkeypatch.setattr(module, "get_interface_for_device", lambda _kind: interface, raising=False)
    monkeypatch.setattr(module, "_normalize_gpu_device_type", lambda _kind: "cuda", raising=False)
    monkeypatch.setattr(torch, "empty", gpu.empty)
    for name, value in (
        ("Event", gpu.event), ("synchronize", gpu.synchronize), ("_sleep", gpu.sleep),
        ("is_available", lambda: True), ("current_device", lambda: 0),
        ("get_device_properties", interface.get_device_properties),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    return gpu


def timed_us(gpu: Gpu, kernel_us: float) -> float:
    """What Inductor reads of a kernel."""
    module: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
    launch: Callable[[], Any] = lambda: gpu.enqueue(LAUNCH_US, kernel_us)  # noqa: E731 - one line
    return float(module.InductorBenchmarker().benchmark_gpu(launch)) * 1000


def test_without_a_head_start_kernels_that_are_shorter_than_a_launch_read_the_same(gpu: Gpu) -> None:
    """Which is why it is needed: the events are as far apart as the host's calls, whatever the GPU does meanwhile."""
    assert timed_us(gpu, 24.0) == pytest.approx(timed_us(gpu, 73.0), abs=1.0)
    assert timed_us(gpu, 24.0) == pytest.approx(LAUNCH_US, abs=5.0)
    assert not gpu.slept


@pytest.mark.parametrize("kernel_us", [3.0, 24.0, 100.0, 400.0])
def test_with_a_head_start_a_timing_is_that_of_the_kernel(gpu: Gpu, kernel_us: float) -> None:
    with timing_ahead():
        assert timed_us(gpu, kernel_us) == pytest.approx(kernel_us, abs=2.0)
    assert gpu.slept <= 7000


def test_the_head_start_ends_with_the_block(gpu: Gpu) -> None:
    with timing_ahead():
        timed_us(gpu, 24.0)
    slept = gpu.slept
    assert slept
    timed_us(gpu, 24.0)
    assert gpu.slept == slept


def test_a_torch_without_cuda_is_timed_as_before(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with timing_ahead():
        timed_us(gpu, 24.0)
    assert not gpu.slept
