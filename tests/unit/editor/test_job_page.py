"""The page of a job and its place among open jobs: bounded for many ranks, lines where they are now."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from fuselight.shared.report import Location
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.editor.handlers.protocol import written_page
from fuselight_server.editor.presenters.job_page import page_of
from fuselight_server.editor.presenters.job_sections import MAX_ROWS, MAX_TIMELINES
from fuselight_server.editor.results.jobs import MAX_JOBS, OpenJobs, job_result_of
from fuselight_server.jobs.ranks.model import (
    DifferenceKind,
    RankDifference,
    RankGroup,
    RankRow,
    RankTable,
    RankTimeline,
    TimelineLane,
    TimelineSpan,
)
from fuselight_server.source.document import SourceDocument
from tests.support.trace_logs import compiled

SOURCE = "import torch\n\ndef f(x):\n    return x + 1\n"
RANKS = 1_024


@pytest.fixture
def opened(tmp_path: Path) -> OpenedJob:
    """A job of one process whose source is here."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "dedicated_log_torch_trace_x.log").write_bytes(compiled() + compiled("0/1/0", start=1_002.0))
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.py").write_text(SOURCE, encoding="utf-8")
    (job,) = asyncio.run(open_jobs(OpenRequest((logs,), (source,)), lambda _words: None, CancelToken()))
    return job


def row(rank: int, group: int) -> RankRow:
    return RankRow(
        rank=rank,
        files=(f"rank_{rank}.log",),
        compiles=2 + group,
        recompilations=group,
        graphs=2,
        graph_breaks=0,
        cache_hits=0,
        cache_misses=2,
        cache_bypasses=0,
        seconds=float(rank),
        slowest=None,
        unfinished=(),
        failed=(),
        refused=0,
        started=None,
        ended=None,
        is_truncated=False,
        group=group,
    )


def table() -> RankTable:
    """Ranks of which each fourth compiled again."""
    span = TimelineSpan("f", 0.0, 1.0, 0, "0/0")
    inner = dataclasses.replace(span, depth=1)
    ranks = [tuple(rank for rank in range(RANKS) if (rank % 4 == 3) is again) for again in (False, True)]
    return RankTable(
        world_size=RANKS + 2,
        rows=tuple(row(rank, int(rank % 4 == 3)) for rank in range(RANKS)),
        missing=(RANKS, RANKS + 1),
        unranked=0,
        groups=(RankGroup(ranks[0]), RankGroup(ranks[1])),
        differences=(
            RankDifference(
                kind=DifferenceKind.RECOMPILATION,
                message="compiled again here",
                location=Location("/job/a.py", 4),
                is_exact=True,
                function="f",
                compile_ids=("0/1", ""),
                groups=(RankGroup(ranks[1], "compiled again"), RankGroup(ranks[0], "did not compile again")),
                seconds=1.5,
                time=None,
            ),
        ),
        skews=(),
        timeline=RankTimeline(
            0.0, 9.0, tuple(TimelineLane(rank, (span, inner) * 200, None, None) for rank in range(RANKS))
        ),
    )


def test_a_page_of_1024_ranks_is_small_and_says_what_it_leaves_out(opened: OpenedJob) -> None:
    result = job_result_of(0, "file:///logs", dataclasses.replace(opened, ranks=table()))
    page = page_of(result, None, (), lambda path: Path(path).name)
    assert page.ranks is not None
    assert page.timeline is not None
    assert (page.ranks.count, len(page.ranks.rows), page.ranks.more) == (RANKS, MAX_ROWS, RANKS - MAX_ROWS)
    assert [(group.ranks, group.recompilations) for group in page.ranks.groups] == [(768, 0), (256, 1)]
    assert [group.is_slowest for group in page.ranks.groups] == [False, True]
    assert page.ranks.missing == "ranks 1024 and 1025"
    assert (len(page.timeline.rows), page.timeline.more) == (MAX_TIMELINES, RANKS - MAX_TIMELINES)
    assert {span.depth for each in page.timeline.rows for span in each.spans} == {0}
    assert all(each.is_cut for each in page.timeline.rows)
    assert len(written_page(page)) < 1_000_000
    (difference,) = page.differences
    assert difference.at is not None
    assert difference.at.shown == "a.py:4"
    assert [group.value for group in difference.groups] == ["compiled again", "did not compile again"]


def test_the_lines_of_a_page_are_where_they_are_now(opened: OpenedJob) -> None:
    result = job_result_of(0, "file:///logs", opened)
    (path,) = result.places.paths()

    def shown() -> list[str]:
        page = page_of(result, None, (), lambda path: Path(path).name)
        assert page.start is not None
        return [line.at.shown for line in page.start.lines if line.at is not None]

    assert [function.words for function in result.functions] == ["2 compiles, 2 graphs"]
    assert shown() == ["a.py:3"]
    result.follow(path, f"# above\r\n{SOURCE}")
    assert shown() == ["a.py:4"]
    result.mark_current(path, SourceDocument(path, SOURCE))
    assert shown() == ["a.py:3"]
    result.follow(path, None)
    assert [function.place.is_deleted for function in result.functions] == [True]


def test_the_oldest_job_is_closed_for_one_too_many(opened: OpenedJob) -> None:
    jobs = OpenJobs()
    for number in range(MAX_JOBS + 2):
        source = f"file:///logs/{number}"
        jobs.accept_jobs([job_result_of(0, source, opened)], source)
    assert [job.source for job in jobs.values()] == [f"file:///logs/{n}" for n in range(2, MAX_JOBS + 2)]
    assert jobs.accept_jobs([], f"file:///logs/{MAX_JOBS}") == jobs.paths()
    assert len(jobs) == MAX_JOBS - 1
