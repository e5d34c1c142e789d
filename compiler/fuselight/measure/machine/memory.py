"""Peak memory of one call: by the allocator of tensors, and on a CPU also resident memory of the process.

Invariant: a value that this system cannot give is None.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from fuselight.adapters.torch_api.allocator_history import (
    AllocatorHistoryError,
    between_tensors,
    recorded_history,
)
from fuselight.adapters.torch_api.storages import bytes_of
from fuselight.shared.report import MeasuredMemory

_STATUS = "/proc/self/status"
_RESET_PEAK = "/proc/self/clear_refs"


class CallMemory(NamedTuple):
    """The memory of one call."""

    peak: int | None
    """Bytes at the peak: of the device, or resident memory on a CPU."""
    own: int | None
    """Part of them that the call added."""
    tensors: MeasuredMemory | None = None
    """What the allocator of tensors says."""


def memory_of(
    prepare: Callable[[], Callable[[], object]],
    device: torch.device,
    *,
    replayed: bool = False,
    lasting: Callable[[], Iterable[torch.Tensor]] = tuple,
) -> CallMemory:
    """Measure a call that `prepare` returns; on a CPU two calls, as the profiler of the second needs memory itself.

    A `replayed` CUDA graph allocates nothing: everything in its pool counts as present at the peak, and the added part
    is unknown. `lasting`: the tensors that are there throughout a call, which a CPU's allocator does not count.
    """
    gc.collect()
    call = prepare()
    if device.type == "cuda":
        return _on_device(call, device, replayed=replayed)
    resident = _resident_peak(call)
    return resident._replace(tensors=_of_tensors(prepare(), device, lasting))


def _resident_peak(call: Callable[[], object]) -> CallMemory:
    _give_back()
    try:
        with open(_RESET_PEAK, "w", encoding="ascii") as file:
            file.write("5")  # proc(5): resets the peak of resident memory
    except OSError:
        return CallMemory(None, None)
    before = _resident("VmRSS:")
    call()
    peak = _resident("VmHWM:")
    if before is None or peak is None:
        return CallMemory(None, None)
    return CallMemory(peak, max(0, peak - before))


def _of_tensors(
    call: Callable[[], object], device: torch.device, lasting: Callable[[], Iterable[torch.Tensor]]
) -> MeasuredMemory | None:
    """The peak by the events of the allocator."""
    before = bytes_of(lasting())
    try:
        with recorded_history(device) as history:
            call()
    except AllocatorHistoryError:
        return None
    added = max(itertools.accumulate(event.bytes for event in history.events), default=0)
    return MeasuredMemory(before + max(added, 0), before)


def _give_back() -> None:
    """Make glibc release freed memory, which would otherwise count as present before the call."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _on_device(call: Callable[[], object], device: torch.device, *, replayed: bool) -> CallMemory:
    cuda: Any = torch.cuda
    cuda.synchronize(device)
    cuda.empty_cache()  # or what the compile has reserved would count
    cuda.reset_peak_memory_stats(device)
    before = cuda.memory_allocated(device)
    call()
    cuda.synchronize(device)
    peak, reserved = cuda.max_memory_allocated(device), cuda.max_memory_reserved(device)
    index = device.index if device.index is not None else cuda.current_device()
    segments = cuda.memory_snapshot()
    if replayed:
        pools = _in_pools(segments, index)
        if pools is None:
            return CallMemory(None, None)
        return CallMemory(peak + pools, None, MeasuredMemory(peak + pools, before + pools, reserved=reserved))
    pieces = None
    with contextlib.suppress(KeyError):  # a snapshot of another release
        pieces = between_tensors(segments, index)
    return CallMemory(
        peak,
        max(0, peak - before),
        MeasuredMemory(peak, before, reserved=reserved, between_tensors=pieces),
    )


def _in_pools(segments: Iterable[Any], index: int) -> int | None:
    """Bytes that CUDA graph pools hold and that torch counts as free; None if this torch does not report them."""
    held = 0
    for segment in segments:
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
