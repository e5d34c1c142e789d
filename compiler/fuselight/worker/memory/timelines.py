"""The memory of a step over its operators, by kind.

Invariant: the moment with most bytes is one of the points.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from fuselight.adapters.torch_api.storages import Moment, Storage
from fuselight.shared.report import MemoryCurve, MemoryTimeline, MemoryUse, StepPhase

_MAX_POINTS = 120


def timeline_of(moments: Sequence[Moment], storages: Iterable[Storage[Any]]) -> MemoryTimeline | None:
    """The timeline of a step; None if no operator ran."""
    if not moments:
        return None
    points = _points(moments)
    changes = {use.value: [0] * (len(points) + 1) for use in MemoryUse}
    for storage in storages:
        first = bisect.bisect_left(points, storage.born)
        end = len(points) if storage.died is None else bisect.bisect_left(points, storage.died)
        change = changes[storage.use or MemoryUse.TEMPORARY.value]
        change[first] += storage.bytes
        change[end] -= storage.bytes
    curves = {use: list(accumulate(change[:-1])) for use, change in changes.items()}
    curves[MemoryUse.INSIDE.value] = [moments[point].inside for point in points]
    largest = max(range(len(points)), key=lambda index: moments[points[index]].bytes)
    return MemoryTimeline(
        tuple(StepPhase(moments[point].phase or StepPhase.FORWARD) for point in points),
        tuple(MemoryCurve(MemoryUse(use), tuple(sizes)) for use, sizes in curves.items() if any(sizes)),
        largest,
    )


def _points(moments: Sequence[Moment]) -> list[int]:
    """Indices of the first moment with most bytes of each of at most `_MAX_POINTS` equal parts."""
    count = min(len(moments), _MAX_POINTS)
    bounds = [len(moments) * index // count for index in range(count + 1)]
    return [max(range(first, end), key=lambda index: moments[index].bytes) for first, end in pairwise(bounds)]
