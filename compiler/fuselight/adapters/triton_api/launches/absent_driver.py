"""Triton's driver for a GPU that is not there: answers what kernels, libraries and torch ask before a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuselight.adapters.triton_api.driver import CompileOnlyDriver
from fuselight.shared.report import Device

_BUS_BITS = 4096


class AbsentDriver(CompileOnlyDriver):
    """The driver of `device`. Launches never reach it."""

    def __init__(self, device: Device, target: Any) -> None:
        super().__init__(target)
        self._capability = device.capability
        self.utils = _DriverUtilities(device)
        self.launcher_cls = None

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """As `torch.cuda` gives it."""
        del device
        return self._capability

    def get_active_torch_device(self) -> torch.device:
        """Where tensors are here: programs make theirs there."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """The module whose functions answer for the device."""
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """A benchmark that takes no time: of configurations that are equally fast, the first one wins."""
        return lambda *_, **__: [0.0, 0.0, 0.0]

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """A buffer to clear the L2 with, which is not there."""
        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Clear it."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Only a launcher asks that."""
        return ty


class _DriverUtilities:
    def __init__(self, device: Device) -> None:
        self._properties = {
            "max_shared_mem": device.shared_kb * 1024,
            "multiprocessor_count": device.multiprocessors,
            "max_num_regs": device.registers,
            "warpSize": device.warp,
            "sm_clock_rate": (device.clock_mhz or 0) * 1000,
            # Of the bandwidth only the product of both is known, which is what `triton.testing` takes.
            "mem_clock_rate": round(device.bandwidth_gbs * 1e6 * 8 / 2 / _BUS_BITS),
            "mem_bus_width": _BUS_BITS,
            "arch": device.arch,
        }

    def get_device_properties(self, device: int = 0) -> dict[str, Any]:
        """As the drivers of Triton give them."""
        del device
        return dict(self._properties)
