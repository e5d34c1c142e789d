"""The GPU that is there as a Device: what the driver says agrees with what is published of its kind.

Also a script, for a machine that has torch but no pytest: `python tests/gpu/test_present_device_on_gpu.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # pytest has its own way to find the package
    sys.path.insert(0, str(Path(__file__).parent.parent.parent / "compiler"))

import torch

from fuselight.capture.calls.present_device import present_device
from fuselight.shared.devices import DEVICES


def test_the_driver_is_asked() -> None:
    device = present_device()
    assert device is not None
    assert device.origin == "driver"
    assert device.name == torch.cuda.get_device_name()
    assert device.multiprocessors > 0
    assert 0 < device.shared_kb <= device.shared_sm_kb


def test_it_agrees_with_the_catalogue() -> None:
    device = present_device()
    assert device is not None
    published = next((other_device for other_device in DEVICES if other_device.name == device.name), None)
    if published is None:  # not in the catalogue: nothing to agree with
        assert device.tflops == {}
        return
    exact = (
        "key",
        "backend",
        "arch",
        "multiprocessors",
        "shared_kb",
        "shared_sm_kb",
        "registers",
        "threads",
        "warp",
    )
    assert {name: getattr(device, name) for name in exact} == {
        name: getattr(published, name) for name in exact
    }
    assert abs(device.l2_mb - published.l2_mb) <= 0.05 * published.l2_mb
    assert abs(device.bandwidth_gbs - published.bandwidth_gbs) <= 0.05 * published.bandwidth_gbs
    assert abs((device.clock_mhz or 0) - (published.clock_mhz or 0)) <= 0.15 * (published.clock_mhz or 0)


if __name__ == "__main__":
    print(present_device())  # noqa: T201 - as a script it has no other voice
    test_the_driver_is_asked()
    test_it_agrees_with_the_catalogue()
