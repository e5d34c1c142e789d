"""What is said of a kernel without a GPU is what the driver says of it once it is loaded on one.

Also a script, for a machine that has torch but no pytest: `python tests/gpu/test_resources_on_gpu.py`.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # pytest has its own way to find the package
    sys.path.insert(0, str(Path(__file__).parent.parent.parent / "compiler"))

import torch

from fuselight.adapters.triton_api import assemble, names
from fuselight.adapters.triton_api.driver import virtual_driver
from fuselight.adapters.triton_api.source import KernelSource
from fuselight.capture.calls.present_device import present_device
from fuselight.shared.report import Device

KERNELS = Path(__file__).parent.parent / "recordings" / "kernels"


def on_the_gpu(text: str, device: Device) -> tuple[int, int, int]:
    """Registers, spilled bytes and resident blocks of the kernel, as the driver has them."""
    target = names.gpu_target(device.backend, int(device.arch.replace(".", "")), device.warp)
    with tempfile.TemporaryDirectory() as folder:
        with virtual_driver(target, folder):
            source = KernelSource(text, device)
            request = source.compile_request(source.default)
            kernel = names.compile_(**request)
        kernel._init_handles()
    blocks = ctypes.c_int()
    status = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(blocks),
        ctypes.c_void_p(kernel.function),
        kernel.metadata.num_warps * device.warp,
        ctypes.c_size_t(kernel.metadata.shared),
    )
    assert status == 0
    return kernel.n_regs, kernel.n_spills * 4, blocks.value


def spilling(text: str) -> str:
    """The template with tiles that its two warps have no registers for."""
    for name, was, size in (("M", 32, 128), ("N", 32, 64)):
        text = text.replace(f"BLOCK_{name} : tl.constexpr = {was}", f"BLOCK_{name} : tl.constexpr = {size}")
    return text


def test_registers_spills_and_occupancy_are_the_drivers() -> None:
    torch.zeros(1, device="cuda")  # makes the context that kernels are loaded into
    device = present_device()
    assert device is not None
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(KERNELS.glob("*.txt"))}
    assert len(texts) == 4
    texts["spilling"] = spilling(texts["template"])
    for name, text in texts.items():
        assembled = assemble(text, device)
        assert assembled.failure is None, name
        assert assembled.occupancy is not None, name
        entry = (assembled.registers, assembled.spills, assembled.occupancy.blocks)
        assert entry == on_the_gpu(text, device), name


if __name__ == "__main__":
    test_registers_spills_and_occupancy_are_the_drivers()
