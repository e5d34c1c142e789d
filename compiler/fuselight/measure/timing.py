"""Times calls: by the host's clock, and on a GPU by events on its stream.

Invariant: what a call needs beforehand (fresh inputs, a cleared cache) is done outside of what is timed, and on a GPU
between its events as well.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.report import Clock

Prepare = Callable[[], Callable[[], object]]
"""Makes what one call needs, and returns the call."""

now = time.perf_counter
"""As it is before any user code runs, which may put a clock of its own in its place."""
_BENCHMARK = "torch.utils.benchmark"
_FEW = 10
"""Calls of a round, under which each is timed by itself: torch's timer makes some more beforehand."""
_EMPTIED = 256 * 2**20
"""Bytes written to clear the cache, as Triton's own benchmark does; more where the L2 is larger than half of it."""


def load(asked: str) -> None:
    """Import what times calls on a CPU, if the device that was asked for may be one: it takes its clock with it.

    That comes before any user code, and only where it is needed: it brings setuptools along, some tenths of a second.
    """
    if asked.strip().lower() == "cpu" or not torch.cuda.is_available():
        importlib.import_module(_BENCHMARK)


def once(prepare: Prepare, device: torch.device) -> float:
    """One call by the host's clock, waited for: microseconds."""
    call = prepare()
    wait(device)
    start = now()
    call()
    wait(device)
    return (now() - start) * 1e6


@dataclass(frozen=True)
class Taken:
    """Times of one round by one clock, microseconds."""

    us: list[float]
    calls: int
    """How many calls these times are of: more than there are times, where one is a mean."""


def round_of(
    prepare: Prepare, calls: int, device: torch.device, *, cold_cache: bool, fresh: bool
) -> dict[Clock, Taken]:
    """Time `calls` calls, by each clock there is.

    On a CPU through torch's own benchmark timer: one number a round, the mean of its calls; one by one where they are
    few, or each needs inputs of its own (`fresh`). On a GPU each call has two: between its events, with the calls
    behind each other as in a program, and by the host's clock, each waited for.
    """
    if device.type != "cuda":
        if fresh or calls < _FEW:
            return {Clock.WALL: Taken([once(prepare, device) for _ in range(calls)], calls)}
        timer = importlib.import_module(_BENCHMARK).Timer(
            "call()", globals={"call": prepare()}, num_threads=torch.get_num_threads()
        )
        return {Clock.WALL: Taken([timer.timeit(calls).mean * 1e6], calls)}
    waited = max(1, calls // 4)
    wall = [once(prepare, device) for _ in range(waited)]
    between = _between_events(prepare, calls, device, cold_cache=cold_cache)
    return {Clock.DEVICE: Taken(between, calls), Clock.WALL: Taken(wall, waited)}


def _between_events(prepare: Prepare, calls: int, device: torch.device, *, cold_cache: bool) -> list[float]:
    cuda: Any = torch.cuda
    emptied = torch.empty(_cache_bytes(device), dtype=torch.int8, device=device) if cold_cache else None
    pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(calls)]
    wait(device)
    for start, end in pairs:
        call = prepare()
        if emptied is not None:
            emptied.zero_()
        stream = cuda.current_stream(device)  # of this device, whichever is the current one
        start.record(stream)
        call()
        end.record(stream)
    wait(device)
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]


def _cache_bytes(device: torch.device) -> int:
    properties = torch.cuda.get_device_properties(device)
    return max(2 * int(getattr(properties, "L2_cache_size", 0)), _EMPTIED)


def wait(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
