"""A collective that some ranks call and others do not, although the calls after it hide that for a while.

Two calls of the same kind and size fit together wherever they are made. So ranks that call one collective more can go
on, each with results of another call, until two calls do not fit; the cause is the call before, not that one.

Invariant: a call is extra only if the lines of the calls after it are again those of the other ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fuselight.shared.report import Collective, CollectiveMismatch, Location, World, innermost_user_frame

_POINT_TO_POINT = frozenset({"send", "recv"})
_MAX_EXTRA = 8
"""Calls in a row that some ranks make alone."""
_COMPARED = 3
"""Calls after them whose lines must be the same."""


@dataclass(frozen=True)
class ExtraCall:
    """The first call that a rank makes and another one does not."""

    rank: int
    call: Collective
    location: Location
    met: Collective
    """What the other rank calls when the process group gets to it."""


def extra_call(
    world: World, mismatch: CollectiveMismatch, ranks: tuple[int, int], roots: Sequence[str]
) -> ExtraCall | None:
    """The extra call of one of two ranks before their mismatch; None if there is none."""
    name = next((call.group_name for call in mismatch.calls if call is not None), "")
    calls = [_calls(world, rank, mismatch.group, name) for rank in ranks]
    lines = [[_line(call, roots) for call in side] for side in calls]
    before = zip(range(mismatch.index), *lines, strict=False)
    at = next((index for index, first, second in before if first != second), None)
    if at is None:
        return None
    for count in range(1, _MAX_EXTRA + 1):
        for longer, shorter in ((0, 1), (1, 0)):
            location = innermost_user_frame(calls[longer][at].stack, roots)
            if location is not None and _goes_on(lines[longer][at + count :], lines[shorter][at:]):
                return ExtraCall(ranks[longer], calls[longer][at], location, calls[shorter][at])
    return None


def _calls(world: World, rank: int, group: tuple[int, ...], name: str) -> list[Collective]:
    """The calls of a rank in a process group; empty if they were kept of another process group alone."""
    equal = next((ranks for ranks in world.groups if rank in ranks.ranks), None)
    return [
        call
        for call in (equal.collectives if equal is not None else ())
        if (call.group, call.group_name) == (group, name) and call.kind not in _POINT_TO_POINT
    ]


def _line(call: Collective, roots: Sequence[str]) -> tuple[str, str | None, int]:
    place = innermost_user_frame(call.stack, roots)
    return (call.kind, None, 0) if place is None else (call.kind, place.path, place.line)


def _goes_on(longer: Sequence[object], shorter: Sequence[object]) -> bool:
    return list(longer[:_COMPARED]) == list(shorter[:_COMPARED]) and bool(longer)
