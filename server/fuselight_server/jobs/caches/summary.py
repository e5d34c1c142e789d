"""What the caches did for each compile of a job.

Invariant: every lookup that the logs record is a result; totals are sums of results.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fuselight_server.jobs.caches.bypasses import ReadLine
from fuselight_server.jobs.caches.causes import HOW_TO_RECORD, SAME_SOURCE, CauseFinder
from fuselight_server.jobs.caches.def_lines import shown_function, shown_place
from fuselight_server.jobs.caches.lookups import Lookup, PayloadMemory, lookups_of
from fuselight_server.jobs.caches.losses import Losses
from fuselight_server.jobs.caches.metric_results import results_of_metrics
from fuselight_server.jobs.caches.model import CacheCause, CacheResult, CacheSummary, CacheTotal, CauseKind
from fuselight_server.jobs.caches.pairing import EarlierJob, start_to_compare
from fuselight_server.jobs.trace_log.model import CacheName, CacheState, LoggedJob, ProcessLog


def summarize(
    job: LoggedJob, earlier: LoggedJob | None = None, *, read_line: ReadLine | None = None
) -> CacheSummary:
    """Each lookup of a job with its cause, compared with an earlier job, or with earlier starts in the same job.

    `read_line` reads a line of the source that the job ran, where it is available: path as logged, 1-based line. Raises
    LogError where a log is gone.
    """
    memory = PayloadMemory()
    compared = None if earlier is None else EarlierJob(earlier, memory)
    results: list[CacheResult] = []
    names: dict[str, None] = {}
    for process in job.processes:
        start = start_to_compare(process, job, compared, memory)
        if start is not None:
            names[start.name] = None
        results += _results(process, CauseFinder(memory, start, read_line))
    return CacheSummary(
        results=tuple(results),
        totals=tuple(_totals(results)),
        compared_with=", ".join(names) or None,
        notes=tuple(_notes(job, results)),
    )


def _results(process: ProcessLog, finder: CauseFinder) -> list[CacheResult]:
    losses = Losses(process)
    rows = [_result(lookup, finder, losses) for lookup in lookups_of(process)]
    rows = [_with_causes_of_other_cache(row, rows) for row in rows]
    return [*rows, *results_of_metrics(process)]


def _result(lookup: Lookup, finder: CauseFinder, losses: Losses) -> CacheResult:
    event, compiled = lookup.event, lookup.compile
    return CacheResult(
        cache=event.cache,
        state=event.state,
        compile_id=event.compile_id,
        rank=lookup.process.rank,
        file=lookup.process.file,
        function=None if compiled is None else shown_function(compiled),
        location=None if compiled is None else shown_place(compiled, finder.read_line),
        key=event.key,
        is_remote=event.is_remote,
        count=1,
        saved_seconds=event.time_saved,
        lost_seconds=losses.seconds(lookup),
        causes=finder.causes(lookup),
    )


def _with_causes_of_other_cache(row: CacheResult, rows: Sequence[CacheResult]) -> CacheResult:
    """The causes that the key of the other cache shows for the same compile, where those of this key are unknown.

    Both keys have the settings, and AOTAutograd's key has what its graph follows from.
    """
    if row.cache is CacheName.AOTAUTOGRAD and [cause.kind for cause in row.causes] == [
        CauseKind.NOT_RECORDED
    ]:
        other = CacheName.FX_GRAPH
    elif row.cache is CacheName.FX_GRAPH and any(map(_follows_from_aot, row.causes)):
        other = CacheName.AOTAUTOGRAD
    else:
        return row
    causes = [
        cause
        for candidate in rows
        if candidate.cache is other and candidate.compile_id == row.compile_id
        for cause in candidate.causes
        if cause.kind is CauseKind.KEY_CHANGED
    ]
    return replace(row, causes=(causes[0],)) if causes else row


def _follows_from_aot(cause: CacheCause) -> bool:
    return any(change.subject == SAME_SOURCE for change in cause.changes)


def _totals(results: Sequence[CacheResult]) -> Iterator[CacheTotal]:
    for cache, is_remote in itertools.product(CacheName, (False, True)):
        rows = [row for row in results if row.cache is cache and bool(row.is_remote) is is_remote]
        if not rows:
            continue
        counts: Counter[CacheState] = Counter()
        for row in rows:
            counts[row.state] += row.count
        yield CacheTotal(
            cache,
            is_remote,
            counts[CacheState.HIT],
            counts[CacheState.MISS],
            counts[CacheState.BYPASS],
            _sum(row.saved_seconds for row in rows),
            _sum(row.lost_seconds for row in rows),
        )


def _sum(seconds: Iterable[float | None]) -> float | None:
    known = [value for value in seconds if value is not None]
    return sum(known) if known else None


def _notes(job: LoggedJob, results: Sequence[CacheResult]) -> Iterator[str]:
    kinds = {cause.kind for row in results for cause in row.causes}
    is_unclear = any(_follows_from_aot(cause) for row in results for cause in row.causes)
    if CauseKind.NOT_RECORDED in kinds or is_unclear:
        yield f"The log does not list the components of some keys. {HOW_TO_RECORD}"
    if CauseKind.NOT_COMPARED in kinds:
        yield (
            "There is no earlier start to compare keys with, so a miss can mean an empty cache or a new key. "
            "Open the trace of an earlier start with it to see which."
        )
    compiled = any(process.compiles for process in job.processes)
    if compiled and not results:
        yield "The logs have no record of a cache: the caches were off, or the backend is not Inductor."
