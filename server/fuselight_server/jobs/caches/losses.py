"""The seconds that a compile spent on what a cache would have given it.

Invariant: a second counts for one cache alone: what Inductor did for the FX graph cache, what AOTAutograd did around it
for AOTAutograd's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fuselight_server.jobs.caches.lookups import Lookup
from fuselight_server.jobs.trace_log.model import (
    CacheEvent,
    CacheName,
    CacheState,
    CompileId,
    ProcessLog,
    TimelinePhase,
)

_INDUCTOR = "inductor_compile"
_AOT = "create_aot_dispatcher_function"


class Losses:
    """Durations of the phases of one process, by compile."""

    def __init__(self, process: ProcessLog) -> None:
        self._phases: dict[tuple[str, CompileId | None], list[TimelinePhase]] = defaultdict(list)
        for phase in process.phases:
            if phase.name in {_INDUCTOR, _AOT}:
                self._phases[phase.name, phase.compile_id].append(phase)

    def seconds(self, lookup: Lookup) -> float | None:
        """What a hit would have saved, an estimate; None for a hit, and where the log has no times."""
        event = lookup.event
        if event.state not in {CacheState.MISS, CacheState.BYPASS}:
            return None
        if event.cache is CacheName.FX_GRAPH:
            return self._inductor_seconds(lookup)
        if event.cache is CacheName.AOTAUTOGRAD:
            return self._aot_seconds(event)
        return None

    def _inductor_seconds(self, lookup: Lookup) -> float | None:
        phases = self._phases[_INDUCTOR, lookup.event.compile_id]
        around = _around(phases, lookup.event.time)
        if around is not None:
            return around
        if len(phases) == 1:
            return _duration(phases[0])
        metrics = None if lookup.compile is None else lookup.compile.metrics
        return None if metrics is None or phases else metrics.inductor_seconds

    def _aot_seconds(self, event: CacheEvent) -> float | None:
        """All of AOTAutograd in the forward's compile, without Inductor inside of it."""
        whole = [phase for phase in self._phases[_AOT, event.compile_id] if phase.end is not None]
        if not whole:
            return None
        inner = [
            phase
            for phase in self._phases[_INDUCTOR, event.compile_id]
            if any(_is_inside(phase, outer) for outer in whole)
        ]
        return max(0.0, _total(whole) - _total(inner))


def _around(phases: Iterable[TimelinePhase], time: float | None) -> float | None:
    """The duration of the phase in which the lookup happened."""
    if time is None:
        return None
    for phase in phases:
        if phase.end is not None and phase.start - _CLOCK <= time <= phase.end + _CLOCK:
            return _duration(phase)
    return None


_CLOCK = 1e-3
"""Seconds by which the time of a record may differ from that of the phase around it."""


def _is_inside(phase: TimelinePhase, outer: TimelinePhase) -> bool:
    return outer.end is not None and outer.start <= phase.start <= outer.end


def _total(phases: Iterable[TimelinePhase]) -> float:
    return sum(_duration(phase) or 0.0 for phase in phases)


def _duration(phase: TimelinePhase) -> float | None:
    return None if phase.end is None else phase.end - phase.start
