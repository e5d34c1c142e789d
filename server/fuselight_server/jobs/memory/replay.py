"""The events of an allocator, replayed: what is allocated at each moment, and what is alive at some.

Invariant: the bytes of a moment are those of what is alive then: the tensors of the events, and those that were there
before the first event.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from fuselight_server.jobs.memory.lines import StackLine, StackLines, rows
from fuselight_server.jobs.memory.model import MemoryMoment, TensorOrigin
from fuselight_server.jobs.memory.snapshot import AllocatorEvent, Segment

_ROUNDING = 512
"""Bytes of which a block of the allocator is a multiple."""
_BEFORE = StackLine(TensorOrigin.BEFORE, None, is_compiled=False, inside=None, mark="")
_ALIVE = -1
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class Replay:
    """The life of each tensor of a recording of one device."""

    def __init__(
        self, events: Sequence[AllocatorEvent], segments: Sequence[Segment], lines: StackLines
    ) -> None:
        self.events, self.lines = events, lines
        self.ends = array("q", [_ALIVE]) * len(events)
        """By the number of an `alloc`: the event that freed it, or -1."""
        self.failures: list[int] = []
        """Events in which the memory ran out."""
        self.peak_at = -1
        self.allocated = array("q", [0]) * len(events)
        """After each event, more than at the start."""
        self.reserved = array("q", [0]) * len(events)
        self._freed_before: list[tuple[int, int]] = []
        """Event and bytes of tensors that were there before the first event, and that an event has freed."""
        self._sizes: dict[int, int] = {}
        """By the number of an `alloc`: the bytes of its block, where the end of the recording shows it."""
        alive = self._run()
        self._left_before: list[tuple[StackLine, int]] = []
        """What was there before, and still is."""
        self._match_blocks(alive, segments)
        self.start_allocated = sum(size for _, size in (*self._freed_before, *self._left_before))
        at_end = sum(segment.total for segment in segments)
        self.start_reserved = max(at_end - (self.reserved[-1] if events else 0), 0)

    def size(self, event: int) -> int:
        """The bytes of the block of an `alloc`."""
        return self._sizes.get(event) or _rounded(self.events[event].size)

    def unfreed(self) -> Iterator[int]:
        """The numbers of the `alloc` events whose tensors are alive at the end."""
        return (
            number
            for number, event in enumerate(self.events)
            if event.action == "alloc" and self.ends[number] == _ALIVE
        )

    def moment(self, event: int) -> MemoryMoment:
        """The state after an event; -1 for the start."""
        seconds = None
        if self.events:
            time_us = self.events[max(event, 0)].time_us
            seconds = time_us / 1e6 if time_us is not None else None
        held = rows(self._alive_at(event))
        return MemoryMoment(
            sum(row.bytes for row in held),
            self.start_reserved + (self.reserved[event] if event >= 0 else 0),
            event,
            seconds,
            held,
        )

    def _alive_at(self, event: int) -> Iterator[tuple[StackLine, int]]:
        line, ends, events = self.lines.line, self.ends, self.events
        for number in range(event + 1):
            allocated = events[number]
            if allocated.action == "alloc" and not 0 <= ends[number] <= event:
                yield line(allocated.stack), self.size(number)
        yield from self._left_before
        yield from ((_BEFORE, size) for freed, size in self._freed_before if freed > event)

    def _run(self) -> dict[int, int]:
        """Note the end of each tensor, and the peak; returns the events of what is alive at the end, by address."""
        alive: dict[int, int] = {}
        now = reserved = peak = 0
        ends, allocated, kept = self.ends, self.allocated, self.reserved
        for number, event in enumerate(self.events):
            action, address = event.action, event.address
            if action == "alloc":
                earlier = alive.get(address)
                if earlier is not None:  # its end was not recorded
                    ends[earlier] = number
                    now -= _rounded(self.events[earlier].size)
                alive[address] = number
                now += _rounded(event.size)
                if now > peak:
                    peak, self.peak_at = now, number
            elif action in {"free_requested", "free_completed"}:
                allocation = alive.pop(address, None)
                if allocation is not None:
                    ends[allocation] = number
                    now -= _rounded(self.events[allocation].size)
                elif action == "free_requested":
                    self._freed_before.append((number, _rounded(event.size)))
                    now -= _rounded(event.size)
            elif action == "oom":
                self.failures.append(number)
            else:
                reserved += _RESERVES.get(action, 0) * event.size
            allocated[number], kept[number] = now, reserved
        return alive

    def _match_blocks(self, alive: dict[int, int], segments: Sequence[Segment]) -> None:
        for segment in segments:
            address = segment.address
            for block in segment.blocks:
                place = block.address if block.address is not None else address
                address += block.size
                if not block.is_allocated:
                    continue
                allocation = alive.get(place)
                if allocation is not None:
                    self._sizes[allocation] = block.size
                else:
                    line = self.lines.line(block.stack)
                    known = line if block.stack.frames else _BEFORE
                    self._left_before.append((known, block.size))


def _rounded(size: int) -> int:
    return -(-size // _ROUNDING) * _ROUNDING
