"""What `torch.cuda.get_device_properties` would return for a device of the catalog."""

from __future__ import annotations

import types

from fuselight.shared.report import Device


class CudaProperties(types.SimpleNamespace):
    """The properties of a GPU, as a type of their own: Dynamo takes values of torch's as constants."""


def cuda_properties(device: Device) -> CudaProperties:
    """The properties of `device`, which may be absent."""
    major, minor = device.capability
    return CudaProperties(
        name=device.name,
        major=major,
        minor=minor,
        gcnArchName=device.arch if device.backend == "hip" else "",
        multi_processor_count=device.multiprocessors,
        warp_size=device.warp,
        regs_per_multiprocessor=device.registers,
        max_threads_per_multi_processor=device.threads,
        max_threads_per_block=1024,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=device.shared_kb * 1024,
        shared_memory_per_multiprocessor=device.shared_sm_kb * 1024,
        total_memory=int(device.memory_gb * 1e9),
        L2_cache_size=int(device.l2_mb * 1024 * 1024),
        clock_rate=(device.clock_mhz or 0) * 1000,
    )
