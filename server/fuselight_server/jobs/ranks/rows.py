"""The table of ranks: what each did, in numbers."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from fuselight_server.jobs.ranks.alignment import compared
from fuselight_server.jobs.ranks.digests import CompileDigest, RankDigest
from fuselight_server.jobs.ranks.model import RankCompile, RankGroup, RankRow
from fuselight_server.jobs.trace_log.model import AttemptState

_MAX_RANKS = 1_000_000


def world_size(digests: Sequence[RankDigest]) -> int | None:
    """The number of ranks, as the environment that the logs record has it; None if none does."""
    sizes = [item.log.environment.get("WORLD_SIZE", "") for item in digests]
    numbers = [int(size) for size in sizes if size.isdecimal() and len(size) < 8]  # noqa: PLR2004
    return max((number for number in numbers if 0 < number <= _MAX_RANKS), default=None)


def missing_ranks(ranks: Mapping[int, RankDigest], size: int | None) -> tuple[int, ...]:
    """Ranks without a log."""
    last = max(max(ranks) + 1, size or 0)
    return () if last > _MAX_RANKS else tuple(rank for rank in range(last) if rank not in ranks)


def groups_of(ranks: Mapping[int, RankDigest]) -> tuple[RankGroup, ...]:
    """Ranks with equal compiles, the largest group first."""
    groups: dict[object, list[int]] = collections.defaultdict(list)
    for rank, item in ranks.items():
        compiled = tuple((compiled.key, compiled.content) for _, compiled in compared(item))
        end = item.end.compile
        groups[compiled, end and (end.function, end.is_backward)].append(rank)
    ordered = sorted(groups.values(), key=lambda group: (-len(group), group[0]))
    return tuple(RankGroup(tuple(group)) for group in ordered)


def rows_of(
    ranks: Mapping[int, RankDigest], groups: Sequence[RankGroup], digests: Sequence[RankDigest]
) -> Iterator[RankRow]:
    """One row for each rank."""
    group_of = {rank: index for index, group in enumerate(groups) for rank in group.ranks}
    files: dict[int, list[str]] = collections.defaultdict(list)
    for item in digests:
        if item.log.rank is not None:
            files[item.log.rank].append(item.log.file)
    for rank, item in ranks.items():
        yield _row(rank, item, tuple(files[rank]), group_of[rank])


def _row(rank: int, item: RankDigest, files: tuple[str, ...], group: int) -> RankRow:
    states = collections.Counter(compiled.content.state for compiled in item.compiles)
    refused = states[AttemptState.REFUSED]
    timed = [compiled for compiled in item.compiles if compiled.seconds is not None]
    slowest = max(timed, key=lambda compiled: compiled.seconds or 0.0, default=None)
    return RankRow(
        rank=rank,
        files=files,
        compiles=len(item.compiles) - refused,
        recompilations=sum(compiled.content.reasons is not None for compiled in item.compiles) - refused,
        graphs=sum(len(compiled.graphs) for compiled in item.compiles),
        graph_breaks=len({place for compiled in item.compiles for place in compiled.content.breaks}),
        cache_hits=item.hits,
        cache_misses=item.misses,
        cache_bypasses=item.bypasses,
        seconds=sum(compiled.seconds or 0.0 for compiled in timed) if timed else None,
        slowest=None if slowest is None else row_compile(slowest),
        unfinished=_unfinished(item),
        failed=_in_state(item, AttemptState.FAILED),
        refused=refused,
        started=item.log.started,
        ended=item.log.ended,
        is_truncated=item.log.is_truncated,
        group=group,
    )


def _unfinished(item: RankDigest) -> tuple[RankCompile, ...]:
    """The compile in which the log ends."""
    compiled = item.end.compile
    if compiled is None:
        return ()
    return (RankCompile(str(compiled.id), compiled.function, compiled.location, compiled.started, None),)


def _in_state(item: RankDigest, state: AttemptState) -> tuple[RankCompile, ...]:
    return tuple(row_compile(compiled) for compiled in item.compiles if compiled.content.state is state)


def row_compile(compiled: CompileDigest) -> RankCompile:
    """A compile as the table names it."""
    return RankCompile(compiled.id, compiled.name, compiled.user_line, compiled.started, compiled.seconds)
