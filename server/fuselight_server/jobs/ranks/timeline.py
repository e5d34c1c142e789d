"""All ranks over one clock: their phases, and how much later than others a rank began a compile.

Invariant: a start is a fact of the log, a wait is not: nothing here says that a rank waited. Clocks of machines differ
by an unknown amount, so that a skew below `LEAST_SKEW` is not reported.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from fuselight.shared.report import file_name
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.alignment import aligned_compiles
from fuselight_server.jobs.ranks.digests import CompileDigest, RankDigest
from fuselight_server.jobs.ranks.model import CompileSkew, RankTimeline, TimelineLane, TimelineSpan

LEAST_SKEW = 0.2
"""Seconds."""
_NEAR_LATEST = 0.8
"""Part of the largest skew from which on a rank counts as late."""
_MAX_SKEWS = 20


def timeline_of(ranks: Mapping[int, RankDigest]) -> RankTimeline | None:
    """The phases of every rank; None if no log has times."""
    starts = [item.phases[0].start for item in ranks.values() if item.phases]
    if not starts:
        return None
    start = min(starts)
    ends = [phase.end or phase.start for item in ranks.values() for phase in item.phases]
    ends += [item.log.ended for item in ranks.values() if item.log.ended is not None]
    lanes = tuple(_lane(rank, item, start) for rank, item in ranks.items())
    return RankTimeline(start, max(max(ends) - start, 0.0), lanes)


def _lane(rank: int, item: RankDigest, start: float) -> TimelineLane:
    functions = {compiled.id: _label(compiled) for compiled in item.compiles}
    spans = []
    for phase in item.phases:
        compile_id = None if phase.compile_id is None else str(phase.compile_id)
        name = functions.get(compile_id or "", phase.name) if phase.depth == 0 else phase.name
        end = None if phase.end is None else phase.end - start
        spans.append(TimelineSpan(name, phase.start - start, end, phase.depth, compile_id))
    log = item.log
    return TimelineLane(
        rank,
        tuple(spans),
        None if log.started is None else log.started - start,
        None if log.ended is None else log.ended - start,
        item.is_cut,
    )


def _label(compiled: CompileDigest) -> str:
    """The function of a compile, or the line that led to it."""
    place = compiled.user_line
    return compiled.name or ("" if place is None else f"{file_name(place.path)}:{place.line}")


def skews_of(ranks: Mapping[int, RankDigest]) -> tuple[CompileSkew, ...]:
    """The compiles that some ranks began later than the others, the largest skew first."""
    skews = [skew for group in aligned_compiles(ranks) for skew in [_skew(group)] if skew is not None]
    return tuple(sorted(skews, key=lambda skew: -skew.seconds)[:_MAX_SKEWS])


def _skew(group: Mapping[int, CompileDigest]) -> CompileSkew | None:
    starts = {rank: compiled.started for rank, compiled in group.items() if compiled.started is not None}
    if len(starts) < 2:  # noqa: PLR2004 - nothing to compare with
        return None
    middle = statistics.median_low(starts.values())
    seconds = max(starts.values()) - middle
    if seconds < LEAST_SKEW:
        return None
    late = tuple(rank for rank, start in starts.items() if start - middle >= seconds * _NEAR_LATEST)
    shown = min(starts[rank] for rank in late) - middle
    compiled = group[late[0]]
    others = "the others" if len(starts) - len(late) > 1 else ranks_in_words(set(starts) - set(late))
    message = f"{ranks_in_words(late)} began this compile {shown:.1f} s after {others}"
    return CompileSkew(compiled.name, compiled.user_line, compiled.id, late, shown, message)
