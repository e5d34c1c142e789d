"""The memory of ranks, compared: which line holds more on one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fuselight.shared.report import Location
from fuselight_server.jobs.memory.model import MemoryDifference, MemoryMoment, ProcessMemory, TensorOrigin

_LEAST_PART = 0.05
"""Of the higher peak: a smaller difference between ranks is none."""
_LEAST_BYTES = 1 << 20
_MAX_SHOWN = 20


def differences_of(processes: Iterable[ProcessMemory]) -> tuple[MemoryDifference, ...]:
    """Between the rank with the highest peak and the one with the lowest, the last snapshot of each."""
    peaks: dict[int, MemoryMoment] = {}
    for process in processes:
        if process.rank is not None and process.devices:
            peaks[process.rank] = max(
                (device.peak for device in process.devices), key=lambda peak: peak.allocated
            )
    if len(peaks) < 2:  # noqa: PLR2004 - a pair
        return ()
    most = max(peaks, key=lambda rank: peaks[rank].allocated)
    least = min(peaks, key=lambda rank: peaks[rank].allocated)
    difference = peaks[most].allocated - peaks[least].allocated
    if difference < max(_LEAST_BYTES, _LEAST_PART * peaks[most].allocated):
        return ()
    high, low = _by_line(peaks[most]), _by_line(peaks[least])
    lines = [
        MemoryDifference(key[1], key[0], high[key], most, low[key], least)
        for key in high
        if high[key] - low[key] >= _LEAST_BYTES
    ]
    return tuple(sorted(lines, key=lambda line: line.least - line.most)[:_MAX_SHOWN])


def _by_line(moment: MemoryMoment) -> Counter[tuple[TensorOrigin, Location | None]]:
    sizes: Counter[tuple[TensorOrigin, Location | None]] = Counter()
    for row in moment.held:
        sizes[row.origin, row.location] += row.bytes
    return sizes
