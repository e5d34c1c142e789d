"""Sections of a job's page: ranks and where they differ, caches, the start, the timeline.

Invariant: lists are cut, and say by how much. A line that is not here keeps its path in the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Location
from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_count
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.job_page_types import (
    JobCacheRow,
    JobCaches,
    JobCacheTotal,
    JobDifference,
    JobPlace,
    JobRankRow,
    JobRanks,
    JobRelatedLine,
    JobSpan,
    JobStage,
    JobStart,
    JobStartLine,
    JobTimeline,
    JobTimelineRow,
    JobWait,
)
from fuselight_server.editor.results.jobs import JobResult
from fuselight_server.explain.benchmarks.page_types import MachineFact, PagePlace
from fuselight_server.jobs.caches.findings import cure_text
from fuselight_server.jobs.caches.model import CacheResult, CacheSummary, LineStart, StageTime, StartPicture
from fuselight_server.jobs.caches.starts import shown_lines
from fuselight_server.jobs.caches.words import work_text
from fuselight_server.jobs.ranks.model import RankDifference, RankRow, RankTable, RankTimeline, TimelineLane

MAX_ROWS = 200
MAX_LINES = 30
MAX_TIMELINES = 64
MAX_SPANS = 4_000
_MAX_GROUPS = 12
_MAX_WAITS = 20


@dataclass(frozen=True)
class JobView:
    """Lines of a job as the page shows them."""

    job: JobResult
    shown: Callable[[str], str]

    def line(self, path: str, line: int) -> JobPlace:
        """A line of a path as `OpenedJob.files` returns it, where the line is now."""
        files = self.job.opened.files
        name = self.shown(path)
        if not files.sources.has(path):
            return JobPlace(None, f"{path}:{line}")
        now = self.job.places.now(Span(path, line))
        text = (files.line(path, line) or "").strip()
        place = PagePlace(convert.uri(path), name, max(now.line - 1, 0), text)
        return JobPlace(place, f"{name}:{now.line}")

    def logged(self, location: Location | None) -> JobPlace | None:
        """A location of the logs."""
        if location is None:
            return None
        here = self.job.opened.files.location(location)
        return self.line(here.path, here.line)


# Ranks


def rank_section(table: RankTable, view: JobView) -> JobRanks:
    """The table of ranks."""
    longest = max((row.seconds or 0.0 for row in table.rows), default=0.0)
    groups = []
    for number, group in enumerate(table.groups[:_MAX_GROUPS]):
        rows = [row for row in table.rows if row.group == number]
        if rows:
            first = max(rows, key=lambda row: row.seconds or 0.0)
            groups.append(_rank_row(first, group.label, len(rows), longest, view))
    shown = table.rows[:MAX_ROWS]
    return JobRanks(
        count=len(table.rows),
        world_size=table.world_size,
        missing=ranks_in_words(table.missing) if table.missing else "",
        groups=tuple(groups),
        rows=tuple(_rank_row(row, f"rank {row.rank}", 1, longest, view) for row in shown),
        more=len(table.rows) - len(shown),
        notes=table.notes,
    )


def _rank_row(row: RankRow, label: str, ranks: int, longest: float, view: JobView) -> JobRankRow:
    slowest = row.slowest
    return JobRankRow(
        label=label,
        ranks=ranks,
        compiles=row.compiles,
        recompilations=row.recompilations,
        graphs=row.graphs,
        graph_breaks=row.graph_breaks,
        cache_hits=row.cache_hits,
        cache_misses=row.cache_misses,
        cache_bypasses=row.cache_bypasses,
        seconds=row.seconds,
        slowest=f"{slowest.function or slowest.id}" if slowest is not None else "",
        slowest_at=view.logged(slowest.location) if slowest is not None else None,
        is_slowest=bool(longest) and row.seconds == longest,
        problems=", ".join(_rank_problems(row)),
    )


def _rank_problems(row: RankRow) -> Iterator[str]:
    if row.unfinished:
        yield f"{format_count(len(row.unfinished), 'compile')} unfinished"
    if row.failed:
        yield f"{format_count(len(row.failed), 'compile')} failed"
    if row.refused:
        yield f"{format_count(row.refused, 'call')} at the recompile limit"
    if row.is_truncated:
        yield "the log is cut off"


def difference_rows(differences: Sequence[RankDifference], view: JobView) -> tuple[JobDifference, ...]:
    """Where ranks differ, in order of time."""
    return tuple(
        JobDifference(
            message=difference.message,
            at=view.logged(difference.location),
            is_exact=difference.is_exact,
            groups=tuple(
                MachineFact(group.label, group.behavior)
                for group in difference.groups[:_MAX_GROUPS]
                if group.behavior
            ),
            seconds=difference.seconds,
            related=tuple(
                JobRelatedLine(at, text)
                for location, text in difference.related[:_MAX_GROUPS]
                if (at := view.logged(location)) is not None
            ),
        )
        for difference in differences
    )


def wait_rows(table: RankTable, view: JobView) -> tuple[JobWait, ...]:
    """The collectives that ranks were in, and compiles that ranks began later than others."""
    waits = [JobWait(wait.message, view.logged(wait.location)) for wait in table.waits]
    skews = [JobWait(skew.message, view.logged(skew.location)) for skew in table.skews]
    return tuple([*waits, *skews][:_MAX_WAITS])


def timeline_section(timeline: RankTimeline) -> JobTimeline:
    """The compiles of ranks over one clock: outermost phases first, as many as a chart can show."""
    shown = timeline.lanes[:MAX_TIMELINES]
    each = max(MAX_SPANS // max(len(shown), 1), 1)
    return JobTimeline(
        seconds=timeline.seconds,
        rows=tuple(_timeline_row(of_rank, each) for of_rank in shown),
        more=len(timeline.lanes) - len(shown),
    )


def _timeline_row(of_rank: TimelineLane, most: int) -> JobTimelineRow:
    spans = sorted((span for span in of_rank.spans if span.depth == 0), key=lambda span: span.start)
    return JobTimelineRow(
        label=f"rank {of_rank.rank}",
        spans=tuple(
            JobSpan(
                name=span.name,
                start=span.start,
                seconds=None if span.end is None else span.end - span.start,
                depth=span.depth,
                compile_id=span.compile_id,
            )
            for span in spans[:most]
        ),
        is_cut=of_rank.is_cut or len(spans) > most,
    )


# Caches


def cache_section(summary: CacheSummary, opened: OpenedJob, view: JobView) -> JobCaches:
    """What the caches did."""
    labels = {process.log.file: process.label for process in opened.processes}
    rows = _cache_rows(summary.lost, labels, view)
    return JobCaches(
        totals=tuple(
            JobCacheTotal(
                cache=_cache_name(total.cache.value, is_remote=total.is_remote),
                hits=total.hits,
                misses=total.misses,
                bypasses=total.bypasses,
                saved=total.saved_seconds,
                lost=total.lost_seconds,
            )
            for total in summary.totals
        ),
        rows=rows[:MAX_ROWS],
        more=max(len(rows) - MAX_ROWS, 0),
        compared_with=summary.compared_with or "",
        notes=summary.notes,
    )


def _cache_name(value: str, *, is_remote: bool) -> str:
    name = value.replace("_", " ")
    return f"{name} (remote)" if is_remote else name


def _cache_rows(
    lost: Sequence[CacheResult], labels: Mapping[str, str], view: JobView
) -> tuple[JobCacheRow, ...]:
    """The lookups that cost a compile: those of several processes that differ in nothing else are one row."""
    rows: dict[tuple[object, ...], list[CacheResult]] = {}
    for row in lost:
        key = (row.cache, row.is_remote, row.state, row.function, row.location, row.causes)
        rows.setdefault(key, []).append(row)
    return tuple(_cache_row(same, labels, view) for same in rows.values())


def _cache_row(same: Sequence[CacheResult], labels: Mapping[str, str], view: JobView) -> JobCacheRow:
    first = same[0]
    at = next((cause.location for cause in first.causes if cause.location is not None), first.location)
    return JobCacheRow(
        cache=_cache_name(first.cache.value, is_remote=bool(first.is_remote)),
        state=first.state.value,
        process=_processes_in_words(same, labels),
        function=first.function or "",
        at=view.logged(at),
        lost=first.lost_seconds,
        causes=tuple(dict.fromkeys(cause.text for cause in first.causes)),
        cures=tuple(dict.fromkeys(filter(None, map(cure_text, first.causes)))),
        count=sum(row.count for row in same),
    )


def _processes_in_words(rows: Sequence[CacheResult], labels: Mapping[str, str]) -> str:
    ranks = {row.rank for row in rows if row.rank is not None}
    others = {labels.get(row.file, row.file) for row in rows if row.rank is None}
    if others:
        return next(iter(others)) if len(others) == 1 else format_count(len(others), "process", "processes")
    return ranks_in_words(ranks)


# The start


def start_section(starts: Sequence[StartPicture], opened: OpenedJob, view: JobView) -> JobStart | None:
    """The start of the process that compiled for longest; None if no log has times."""
    timed = [start for start in starts if start.seconds > 0]
    if not timed:
        return None
    start = max(timed, key=lambda start: start.compile_seconds)
    lines = shown_lines(start)
    labels = {process.log.file: process.label for process in opened.processes}
    return JobStart(
        process=labels.get(start.file, start.file),
        seconds=start.seconds,
        stages=_stages(start.stages),
        lines=tuple(_start_line(line, view) for line in lines[:MAX_LINES]),
        more=max(len(lines) - MAX_LINES, 0),
        saved=start.saved_by_second_start,
        notes=start.notes,
    )


def _start_line(line: LineStart, view: JobView) -> JobStartLine:
    return JobStartLine(
        function=work_text(line) or "outside of compiles",
        at=view.logged(line.location),
        compiles=line.compiles,
        seconds=line.seconds,
        with_nested=line.with_nested if (line.with_nested or 0.0) > line.seconds else None,
        stages=_stages(line.stages),
        saved=line.saved_by_second_start,
    )


def _stages(times: Sequence[StageTime]) -> tuple[JobStage, ...]:
    return tuple(JobStage(time.stage.value.replace("_", " "), time.seconds) for time in times)
