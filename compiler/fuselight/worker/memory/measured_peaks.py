"""The peak of a step that ran on a present device: the allocator's own bytes, with the tensors of the step.

Invariant: the rows of a peak add up to it, and its bytes are the allocator's. A tensor is matched with an allocation by
its address and size; what no tensor of the program matches is memory inside an operator.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fuselight.adapters.torch_api.allocator_history import AllocatorAction, AllocatorHistory
from fuselight.adapters.torch_api.storages import Storage
from fuselight.shared.report import HeldMemory, Location, MeasuredMemory, MemoryUse
from fuselight.worker.memory.origins import StorageOrigin
from fuselight.worker.memory.peaks import summed

Line = Callable[[Sequence[tuple[str, int]]], "Location | None"]
"""The user's line of a stack."""


@dataclass
class _Peak:
    """The moment with most bytes."""

    bytes: int
    reserved: int
    alive: list[AllocatorAction]
    before: set[int]
    """Addresses of what existed before the step and is alive."""


def measured_peak(
    history: AllocatorHistory, storages: Iterable[Storage[StorageOrigin]], line_of: Line
) -> MeasuredMemory:
    """`storages`: of the step, in the order of their allocation, those before it included."""
    before, during = (
        [],
        collections.defaultdict[int, collections.deque[Storage[StorageOrigin]]](collections.deque),
    )
    for storage in storages:
        if storage.is_before:
            before.append(storage)
        else:
            during[storage.address].append(storage)
    known = {storage.address: storage for storage in before}
    noted = sum(storage.bytes for storage in before)
    start = history.allocated if history.allocated is not None else noted
    matched = _matched(history.events, during)
    peak = _peak(history, known, start)
    rows = [HeldMemory(MemoryUse(known[at].use), known[at].bytes, 1, None) for at in peak.before]
    for event in peak.alive:
        owner = matched.get(id(event))
        if owner is None:
            rows.append(HeldMemory(MemoryUse.INSIDE, event.bytes, 1, line_of(event.frames)))
        else:
            place = owner.place.line if owner.place is not None else line_of(event.frames)
            rows.append(HeldMemory(MemoryUse(owner.use or MemoryUse.TEMPORARY), event.bytes, 1, place))
    most = history.peak if history.peak is not None else peak.bytes
    rows.append(HeldMemory(MemoryUse.OTHER, most - sum(row.bytes for row in rows), 1, None))
    return MeasuredMemory(
        most,
        start,
        summed((rows, 1)),
        reserved=peak.reserved if history.reserved is not None else None,
        between_tensors=history.between_tensors,
    )


def _matched(
    events: Iterable[AllocatorAction], during: dict[int, collections.deque[Storage[StorageOrigin]]]
) -> dict[int, Storage[StorageOrigin]]:
    """The storage of each allocation that has one, by the `id` of the event: those of an address keep their order."""
    matched = {}
    for event in events:
        waiting = during.get(event.address) if event.bytes > 0 and not event.is_reserve else None
        if waiting and waiting[0].bytes <= event.bytes:
            matched[id(event)] = waiting.popleft()
    return matched


def _peak(history: AllocatorHistory, known: Iterable[int], start: int) -> _Peak:
    """Replay the events; what existed before and is unknown stays in `start`, and its end is taken off."""
    now, most, at = start, start, 0
    for number, event in enumerate(history.events, 1):
        now += 0 if event.is_reserve else event.bytes
        if now > most:
            most, at = now, number
    reserved, before = history.reserved or 0, set(known)
    alive: dict[int, AllocatorAction] = {}
    for event in history.events[:at]:
        if event.is_reserve:
            reserved += event.bytes
        elif event.bytes > 0:
            alive[event.address] = event
        elif alive.pop(event.address, None) is None:
            before.discard(event.address)
    return _Peak(most, reserved, list(alive.values()), before)
