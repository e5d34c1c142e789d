"""Timing of calls: by the host's clock, and on a GPU by events on its stream.

Invariant: preparation of a call (fresh inputs, a cleared cache) is outside of the timed region, and on a GPU outside of
its events.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.shared.report import Clock

Prepare = Callable[[], Callable[[], object]]
"""Prepares one call, and returns it."""

now = time.perf_counter
"""Bound before any user code runs, which may replace the clock."""
_BENCHMARK = "torch.utils.benchmark"
_FEW = 10
"""Rounds with fewer calls time each call separately: torch's timer makes extra calls beforehand."""
_EMPTIED = 256 * 2**20
"""Bytes written to clear the cache, as in Triton's own benchmark; more if the L2 is larger than half of it."""


def load(asked: str) -> None:
    """Import the CPU timer if the requested device may be a CPU; the timer binds the clock at import.

    Import it before any user code, and only if needed: it also imports setuptools, which takes some tenths of a second.
    """
    if asked.strip().lower() == "cpu" or not torch.cuda.is_available():
        importlib.import_module(_BENCHMARK)


def once(prepare: Prepare, device: torch.device) -> float:
    """Microseconds of one call by the host's clock, including the wait."""
    call = prepare()
    wait(device)
    start = now()
    call()
    wait(device)
    return (now() - start) * 1e6


@dataclass(frozen=True)
class Taken:
    """Times of one round by one clock, in microseconds."""

    us: list[float]
    calls: int
    """Number of calls that these times cover: more than the number of times if a time is a mean."""


def round_of(
    prepare: Prepare, calls: int, device: torch.device, *, cold_cache: bool, fresh: bool
) -> dict[Clock, Taken]:
    """Time `calls` calls by each available clock.

    On a CPU, torch's benchmark timer gives one number per round, the mean of its calls; calls are timed separately if
    there are few or each needs its own inputs (`fresh`). On a GPU each call has two times: between its events, with
    calls queued back to back as in a program, and by the host's clock, with a wait after each call.
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
        stream = cuda.current_stream(device)  # the stream of this device, whichever device is current
        start.record(stream)
        call()
        end.record(stream)
    wait(device)
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]


def _cache_bytes(device: torch.device) -> int:
    properties = torch.cuda.get_device_properties(device)
    return max(2 * int(getattr(properties, "L2_cache_size", 0)), _EMPTIED)


def wait(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
