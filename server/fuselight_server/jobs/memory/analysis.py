"""From the snapshot of a process to its peak, its growth and what is reserved and not used, by line."""

from __future__ import annotations

from collections.abc import Sequence

from fuselight_server.jobs.memory.growth import growth_of
from fuselight_server.jobs.memory.lines import StackLines, callers, rows
from fuselight_server.jobs.memory.model import DeviceMemory, FreeMemory, OutOfMemory
from fuselight_server.jobs.memory.replay import Replay
from fuselight_server.jobs.memory.snapshot import AllocatorSnapshot, Segment

_MAX_DEVICES = 64
_MAX_PINNING = 20


def analyze(snapshot: AllocatorSnapshot) -> tuple[DeviceMemory, ...]:
    """Each device that the process used, in order."""
    used = {segment.device for segment in snapshot.segments}
    used |= {number for number, trace in enumerate(snapshot.traces) if trace}
    lines = StackLines()
    return tuple(_device(snapshot, device, lines) for device in sorted(used)[:_MAX_DEVICES])


def last_time(snapshot: AllocatorSnapshot) -> float | None:
    """Seconds since the epoch of the last event; None without one."""
    times = [trace[-1].time_us for trace in snapshot.traces if trace and trace[-1].time_us]
    return max(time for time in times if time is not None) / 1e6 if times else None


def _device(snapshot: AllocatorSnapshot, device: int, lines: StackLines) -> DeviceMemory:
    segments = [segment for segment in snapshot.segments if segment.device == device]
    events = snapshot.traces[device] if device < len(snapshot.traces) else ()
    replay = Replay(events, segments, lines)
    end = replay.moment(len(events) - 1)
    failures = replay.failures if len(replay.failures) < 2 else [replay.failures[0], replay.failures[-1]]  # noqa: PLR2004 - the first and the last
    settings = ",".join(f"{key}:{value}" for key, value in snapshot.settings.items()).lower()
    return DeviceMemory(
        device,
        len(events),
        replay.moment(replay.peak_at),
        end,
        _free(segments, lines),
        replay.start_reserved + max(replay.reserved, default=0),
        tuple(_failure(replay, number) for number in failures),
        len(replay.failures),
        growth_of(replay),
        any(segment.is_expandable for segment in segments) or "expandable_segments:true" in settings,
    )


def _failure(replay: Replay, number: int) -> OutOfMemory:
    event = replay.events[number]
    return OutOfMemory(
        event.size,
        event.address,
        replay.moment(number),
        replay.lines.line(event.stack).location,
        callers(event.stack),
    )


def _free(segments: Sequence[Segment], lines: StackLines) -> FreeMemory:
    """What is reserved and not allocated, and the lines whose tensors keep it from being given back."""
    whole = between = largest = 0
    pinned = []
    for segment in segments:
        pieces = [block.size for block in segment.blocks if block.is_free]
        tensors = [block for block in segment.blocks if block.is_allocated]
        free = sum(pieces)
        largest = max([largest, *pieces])
        if free and len(pieces) == len(segment.blocks):
            whole += free
            continue
        between += free
        share = sum(block.size for block in tensors) or 1
        pinned += [(lines.line(block.stack), free * block.size // share) for block in tensors if free]
    return FreeMemory(whole + between, whole, between, largest, rows(pinned)[:_MAX_PINNING])
