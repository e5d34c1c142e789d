"""Ranks that found their compiled code in a cache, and ranks that did not.

Invariant: which rank compiles first is chance where ranks share a cache, so that a difference is reported only if it
cost the ranks that missed at least `LEAST_SECONDS` more than the others, all compiles together.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.alignment import aligned_compiles
from fuselight_server.jobs.ranks.digests import CompileDigest, RankDigest
from fuselight_server.jobs.ranks.model import DifferenceKind, RankDifference, RankGroup
from fuselight_server.jobs.ranks.sides import others_in_words
from fuselight_server.jobs.trace_log.model import CacheName, CacheState

LEAST_SECONDS = 1.0
_CODE_CACHES = frozenset({CacheName.FX_GRAPH, CacheName.AOTAUTOGRAD})


@dataclass
class _Misses:
    """The compiles that the same ranks missed, with the seconds that each took longer."""

    hits: tuple[int, ...]
    compiles: list[tuple[float, CompileDigest]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(seconds for seconds, _ in self.compiles)


def cache_differences(ranks: Mapping[int, RankDigest]) -> list[RankDifference]:
    """One difference for all compiles that the same ranks missed."""
    groups: dict[tuple[int, ...], _Misses] = {}
    for compiles in aligned_compiles(ranks):
        hits = {rank: compiled for rank, compiled in compiles.items() if _has_hit(compiled) is True}
        misses = {rank: compiled for rank, compiled in compiles.items() if _has_hit(compiled) is False}
        longer = _longer(misses, hits)
        if longer is not None:
            group = groups.setdefault(tuple(sorted(misses)), _Misses(tuple(sorted(hits))))
            group.compiles.append((longer, misses[min(misses)]))
    return [_difference(ranks, group) for ranks, group in groups.items() if group.seconds >= LEAST_SECONDS]


def _has_hit(compiled: CompileDigest) -> bool | None:
    """Whether the code came from a cache; None if no cache was asked."""
    states = {state for cache, state in compiled.caches if cache in _CODE_CACHES}
    if CacheState.HIT in states:
        return True
    return False if CacheState.MISS in states else None


def _longer(misses: Mapping[int, CompileDigest], hits: Mapping[int, CompileDigest]) -> float | None:
    """How much longer the ranks that missed took, at the median; None if they differ in more or have no times."""
    contents = {compiled.content for compiled in (*misses.values(), *hits.values())}
    times = [
        [compiled.seconds for compiled in side.values() if compiled.seconds is not None]
        for side in (misses, hits)
    ]
    if len(contents) != 1 or not times[0] or not times[1]:
        return None
    return statistics.median(times[0]) - statistics.median(times[1])


def _difference(ranks: tuple[int, ...], group: _Misses) -> RankDifference:
    _, slowest = max(group.compiles, key=lambda item: item[0])
    count = len(group.compiles)
    more = f" and {count - 1:,} more compiles" if count > 2 else " and 1 more compile" if count == 2 else ""  # noqa: PLR2004
    verb = "hits" if len(group.hits) == 1 else "hit"
    message = (
        f"{ranks_in_words(ranks)} missed the compile cache here{more}, which {others_in_words(group.hits)} {verb}: "
        f"{group.seconds:.1f} s longer"
    )
    return RankDifference(
        kind=DifferenceKind.CACHE,
        message=message,
        location=slowest.user_line,
        is_exact=True,
        function=slowest.name,
        compile_ids=(slowest.id, ""),
        groups=(RankGroup(ranks, "miss"), RankGroup(group.hits, "hit")),
        seconds=group.seconds,
        time=slowest.started,
    )
