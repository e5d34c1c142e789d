"""How much memory one call needs at its peak: the device's, or on a CPU what is resident in the process.

Invariant: a figure that this system cannot give is None.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable

import torch

_STATUS = "/proc/self/status"
_RESET_PEAK = "/proc/self/clear_refs"


def peak_of(call: Callable[[], object], device: torch.device) -> tuple[int | None, int | None]:
    """Bytes at the peak of one call, and those of it that were not there before."""
    gc.collect()
    if device.type == "cuda":
        return _on_device(call, device)
    try:
        with open(_RESET_PEAK, "w", encoding="ascii") as file:
            file.write("5")  # proc(5): the peak of resident memory begins anew
    except OSError:
        return None, None
    before = _resident("VmRSS:")
    call()
    peak = _resident("VmHWM:")
    return (None, None) if before is None or peak is None else (peak, max(0, peak - before))


def _on_device(call: Callable[[], object], device: torch.device) -> tuple[int | None, int | None]:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    return peak, max(0, peak - before)


def _resident(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open(_STATUS, encoding="ascii") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None
