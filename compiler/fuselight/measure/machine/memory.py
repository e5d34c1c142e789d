"""Peak memory of one call: device memory, or resident memory of the process on a CPU.

Invariant: a value that this system cannot give is None.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable
from typing import Any

import torch

_STATUS = "/proc/self/status"
_RESET_PEAK = "/proc/self/clear_refs"


def peak_of(
    call: Callable[[], object], device: torch.device, *, replayed: bool = False
) -> tuple[int | None, int | None]:
    """Bytes at the peak of one call, and the part of them that the call added.

    A `replayed` CUDA graph allocates nothing: everything in its pool counts as present at the peak, and the added part
    is unknown.
    """
    gc.collect()
    if device.type == "cuda":
        return _on_device(call, device, replayed=replayed)
    _give_back()
    try:
        with open(_RESET_PEAK, "w", encoding="ascii") as file:
            file.write("5")  # proc(5): resets the peak of resident memory
    except OSError:
        return None, None
    before = _resident("VmRSS:")
    call()
    peak = _resident("VmHWM:")
    return (None, None) if before is None or peak is None else (peak, max(0, peak - before))


def _give_back() -> None:
    """Make glibc release freed memory, which would otherwise count as present before the call."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _on_device(
    call: Callable[[], object], device: torch.device, *, replayed: bool
) -> tuple[int | None, int | None]:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    if not replayed:
        return peak, max(0, peak - before)
    pools = _in_pools(device)
    return (None if pools is None else peak + pools), None


def _in_pools(device: torch.device) -> int | None:
    """Bytes that CUDA graph pools hold and that torch counts as free; None if this torch does not report them."""
    index = device.index if device.index is not None else torch.cuda.current_device()
    held = 0
    cuda: Any = torch.cuda
    for segment in cuda.memory_snapshot():
        pool = segment.get("segment_pool_id")
        if pool is None:
            return None
        if segment.get("device") == index and tuple(pool) != (0, 0):
            held += int(segment["total_size"]) - int(segment["allocated_size"])
    return held


def _resident(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open(_STATUS, encoding="ascii") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None
