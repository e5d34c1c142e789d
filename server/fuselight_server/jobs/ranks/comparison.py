"""Compares the ranks of a job.

Invariant: the comparison needs the digests of the ranks, and the logs only where groups of ranks differ. It never fails
for what a log lacks: that is a note.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from fuselight_server.jobs.ranks.alignment import divergences
from fuselight_server.jobs.ranks.cache_states import cache_differences
from fuselight_server.jobs.ranks.digests import RankDigest, SharedParts, digest
from fuselight_server.jobs.ranks.explanation import Explainer
from fuselight_server.jobs.ranks.flight_recorder import DumpPlace, read_dumps, waits_of
from fuselight_server.jobs.ranks.graph_difference import SourceLines
from fuselight_server.jobs.ranks.model import RankTable
from fuselight_server.jobs.ranks.rows import groups_of, missing_ranks, rows_of, world_size
from fuselight_server.jobs.ranks.timeline import skews_of, timeline_of
from fuselight_server.jobs.trace_log.model import LoggedJob

_MAX_DIFFERENCES = 50


def compare_ranks(
    job: LoggedJob,
    *,
    lines: SourceLines | None = None,
    parts: SharedParts | None = None,
    dumps: DumpPlace | None = None,
) -> RankTable | None:
    """The ranks of a job, compared; None if it is not a job of ranks.

    `lines`: the source of a file of the job. `parts`: what was read before of a job that grows. `dumps`: where dumps of
    the flight recorder are besides the folder of the logs.
    """
    parts = SharedParts() if parts is None else parts
    digests = [digest(process, parts) for process in job.processes]
    return compare_digests(digests, lines=lines, dumps=dumps)


def compare_digests(
    digests: Sequence[RankDigest], *, lines: SourceLines | None = None, dumps: DumpPlace | None = None
) -> RankTable | None:
    """The same for logs of which only digests are kept."""
    ranks: dict[int, RankDigest] = {}
    for item in digests:
        if item.log.rank is not None:
            ranks[item.log.rank] = _joined(ranks[item.log.rank], item) if item.log.rank in ranks else item
    size = world_size(digests)
    if not ranks or (len(ranks) == 1 and (size or 1) == 1):
        return None
    ranks = dict(sorted(ranks.items()))
    explainer = Explainer(lines)
    differences = []
    for divergence in divergences(ranks, explainer.is_real):
        differences.append(explainer.explain(divergence))
        if len(differences) == _MAX_DIFFERENCES:
            break
    order = explainer.order_of_collectives(ranks)
    if order is not None:
        differences.append(order)
    differences += cache_differences(ranks)
    groups = groups_of(ranks)
    return RankTable(
        world_size=size,
        rows=tuple(rows_of(ranks, groups, digests)),
        missing=missing_ranks(ranks, size),
        unranked=sum(item.log.rank is None for item in digests),
        groups=groups,
        differences=tuple(differences),
        skews=skews_of(ranks),
        timeline=timeline_of(ranks),
        waits=waits_of(read_dumps(sorted({str(Path(item.log.file).parent) for item in digests}), dumps)),
        notes=tuple(_notes(ranks, explainer)),
    )


def _joined(first: RankDigest, second: RankDigest) -> RankDigest:
    """Two logs of one rank as one."""
    return dataclasses.replace(
        second,
        compiles=first.compiles + second.compiles,
        phases=first.phases + second.phases,
        is_cut=first.is_cut or second.is_cut,
        hits=first.hits + second.hits,
        misses=first.misses + second.misses,
        bypasses=first.bypasses + second.bypasses,
        unread=first.unread + second.unread,
        log=dataclasses.replace(second.log, started=first.log.started),
    )


def _notes(ranks: dict[int, RankDigest], explainer: Explainer) -> list[str]:
    notes = []
    unread = sum(item.unread for item in ranks.values())
    if unread:
        notes.append(
            f"{unread:,} compiles are not compared: their logs name no function, or cannot be read again."
        )
    if explainer.unread:
        notes.append("Some graphs cannot be read again: the logs have changed. Open the job again.")
    cut = [rank for rank, item in ranks.items() if item.log.not_kept]
    if cut:
        notes.append(f"{len(cut):,} ranks have more compiles than are kept: only the first are compared.")
    return notes
