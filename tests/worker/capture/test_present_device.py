"""A present GPU as a Device, from properties as torch reports them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.devices import leave_driver_alone, use_driver
from fuselight.capture.calls.present_device import merged, present_device
from fuselight.shared.codec import decode, encode
from fuselight.shared.devices import estimate, find
from fuselight.shared.report import Device

H200 = {
    "name": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "total_memory": 150109880320,
    "L2_cache_size": 62914560,
    "clock_rate": 1980000,
    "gcnArchName": "NVIDIA H200",
    "max_threads_per_multi_processor": 2048,
    "memory_bus_width": 6016,
    "memory_clock_rate": 3201000,
    "regs_per_multiprocessor": 65536,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "warp_size": 32,
}
"""As torch 2.11 gave them on one."""


def properties(*without: str, **changes: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: value for name, value in {**H200, **changes}.items() if name not in without}
    )


def test_the_drivers_figures_override_the_published_ones() -> None:
    device, published = merged(properties(multi_processor_count=100)), find("h200")
    assert (device.key, device.name, device.arch, device.backend) == ("h200", "NVIDIA H200", "9.0", "cuda")
    assert (device.multiprocessors, device.clock_mhz, device.l2_mb) == (100, 1980, 60.0)
    assert device.memory_gb == 139.8
    assert (device.shared_kb, device.shared_sm_kb) == (227, 228)
    assert device.bandwidth_gbs == pytest.approx(published.bandwidth_gbs, rel=0.01)
    assert device.tflops == published.tflops
    assert device.origin == "driver"
    assert published.source in device.source
    assert decode(Device, encode(device)) == device


def test_the_drivers_figures_of_an_h200_equal_the_published_ones() -> None:
    device, published = merged(properties()), find("h200")
    for field in (
        "multiprocessors",
        "clock_mhz",
        "shared_kb",
        "shared_sm_kb",
        "registers",
        "threads",
        "l2_mb",
        "warp",
    ):
        assert getattr(device, field) == getattr(published, field), field


@pytest.mark.parametrize(
    ("missing", "field"),
    [
        ("memory_clock_rate", "bandwidth_gbs"),
        ("memory_bus_width", "bandwidth_gbs"),
        ("clock_rate", "clock_mhz"),
        ("shared_memory_per_block_optin", "shared_kb"),
        ("L2_cache_size", "l2_mb"),
    ],
)
def test_figures_missing_in_torch_are_the_published_ones(missing: str, field: str) -> None:
    published = getattr(find("h200"), field)
    assert getattr(merged(properties(missing)), field) == published
    assert getattr(merged(properties(**{missing: 0})), field) == published


def test_a_gpu_outside_the_catalog_has_limits_but_no_rates() -> None:
    device = merged(properties("shared_memory_per_block_optin", "memory_clock_rate", name="NVIDIA H100 NVL"))
    assert (device.key, device.name, device.tflops) == ("NVIDIA H100 NVL", "NVIDIA H100 NVL", {})
    assert (device.shared_kb, device.blocks, device.bandwidth_gbs) == (227, 32, 0.0)
    assert estimate(device, 10**9, 10**9, "bf16") is None


def test_a_mig_slice_is_not_the_entire_gpu() -> None:
    device = merged(properties(name="NVIDIA H200 MIG 1g.18gb", multi_processor_count=16))
    assert (device.multiprocessors, device.tflops) == (16, {})


def test_an_architecture_that_is_new() -> None:
    device = merged(properties(name="NVIDIA R100", major=13))
    assert (device.arch, device.shared_kb, device.blocks) == ("13.0", 227, 32)


def test_amd_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "7.0")
    device = merged(
        properties(
            "shared_memory_per_block_optin",
            name="AMD Instinct MI300X",
            gcnArchName="gfx942:sramecc+:xnack-",
            warp_size=64,
            multi_processor_count=304,
            shared_memory_per_multiprocessor=65536,
        )
    )
    assert (device.key, device.backend, device.arch, device.warp) == ("mi300x", "hip", "gfx942", 64)
    assert device.bandwidth_gbs == find("mi300x").bandwidth_gbs
    assert (device.shared_kb, device.multiprocessors) == (64, 304)


def test_without_a_gpu_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert present_device() is None


def test_the_present_gpu_is_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(index: int) -> SimpleNamespace:
        asked.append(index)
        return properties()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", answer)
    assert [device and device.key for device in (present_device(), present_device(3))] == ["h200", "h200"]
    assert asked == [1, 3]


def test_the_fork_server_does_not_query_the_driver() -> None:
    leave_driver_alone()
    try:
        with pytest.raises(RuntimeError, match="leaves the driver alone"):
            present_device()
    finally:
        use_driver()
