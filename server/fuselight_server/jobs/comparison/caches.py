"""Lookups of caches that ended in another state than in the earlier job, and misses of both jobs whose keys differ.

Invariant: lookups are compared for the same cache, the same compiled function and the same compile of it, and their
number there, never by their position: a hit writes its records in another order than a miss.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fuselight_server.jobs.caches.model import CacheResult, CacheSummary, CauseKind
from fuselight_server.jobs.comparison.functions import PairedFunctions
from fuselight_server.jobs.comparison.model import CacheChange, FunctionChange
from fuselight_server.jobs.trace_log.model import CacheName, CacheState

_ORDER = (CacheState.HIT, CacheState.MISS, CacheState.BYPASS, CacheState.SAVED)


@dataclass(frozen=True)
class _LookupKey:
    """What lookups of both jobs have in common."""

    cache: CacheName
    is_remote: bool
    function: int | None
    """Index of the pair of functions."""
    frame_compile: int | None
    """How often the function had been compiled before."""


@dataclass
class _Lookups:
    """The lookups of a job with one key."""

    counts: Counter[CacheState] = field(default_factory=Counter)
    results: list[CacheResult] = field(default_factory=list)


def compare_caches(
    after: CacheSummary, before: CacheSummary, functions: PairedFunctions, *, is_same_torch: bool
) -> tuple[CacheChange, ...]:
    """The lookups whose state differs, and those that missed again: lost hits first, the most expensive first.

    With another release of torch every key differs, so that no miss has a cause of its own.
    """
    ours = _by_key(after, functions.after)
    theirs = _by_key(before, functions.before)
    changes = [
        change
        for key, lookups in ours.items()
        if key in theirs
        for change in (
            *_changes(key, lookups, theirs[key].counts, functions),
            *(_missed_again(key, lookups, theirs[key].counts, functions) if is_same_torch else ()),
        )
    ]
    return tuple(
        sorted(changes, key=lambda change: (_ORDER.index(change.before), -(change.lost_seconds or 0.0)))
    )


def _by_key(summary: CacheSummary, functions: Mapping[tuple[str, str], int]) -> dict[_LookupKey, _Lookups]:
    lookups: dict[_LookupKey, _Lookups] = defaultdict(_Lookups)
    for result in summary.results:
        compile_id = result.compile_id
        key = _LookupKey(
            result.cache,
            bool(result.is_remote),
            functions.get((result.file, str(compile_id))),
            None if compile_id is None else compile_id.frame_compile,
        )
        lookups[key].counts[result.state] += result.count
        lookups[key].results.append(result)
    return lookups


def _changes(
    key: _LookupKey, lookups: _Lookups, before: Counter[CacheState], functions: PairedFunctions
) -> Iterator[CacheChange]:
    """The states that went and those that came, in pairs; a lookup that only one job did is no change of state."""
    gone, came = ((before - lookups.counts), (lookups.counts - before))
    pairs = Counter(zip(_listed(gone), _listed(came), strict=False))
    function = None if key.function is None else functions.changes[key.function]
    for (old, new), count in pairs.items():
        yield _change(
            key, (old, new), count, [item for item in lookups.results if item.state is new], function
        )


def _missed_again(
    key: _LookupKey, lookups: _Lookups, before: Counter[CacheState], functions: PairedFunctions
) -> Iterator[CacheChange]:
    """The misses of both jobs whose keys differ. With the same key, each job had a cache of its own."""
    missed = [
        item
        for item in lookups.results
        if item.state is CacheState.MISS and any(cause.kind is CauseKind.KEY_CHANGED for cause in item.causes)
    ]
    count = min(sum(item.count for item in missed), before[CacheState.MISS])
    if count:
        function = None if key.function is None else functions.changes[key.function]
        yield _change(key, (CacheState.MISS, CacheState.MISS), count, missed, function)


def _listed(counts: Counter[CacheState]) -> Iterator[CacheState]:
    for state in _ORDER:
        yield from (state for _ in range(counts[state]))


def _change(
    key: _LookupKey,
    states: tuple[CacheState, CacheState],
    count: int,
    results: list[CacheResult],
    function: FunctionChange | None,
) -> CacheChange:
    lost = [item.lost_seconds for item in results[:count] if item.lost_seconds is not None]
    return CacheChange(
        cache=key.cache,
        is_remote=key.is_remote,
        before=states[0],
        after=states[1],
        function=None if function is None else function.name,
        location=None if function is None else function.location,
        count=count,
        lost_seconds=sum(lost) if lost else None,
        causes=tuple(dict.fromkeys(cause for item in results for cause in item.causes)),
    )
