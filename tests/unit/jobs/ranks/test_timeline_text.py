"""The timeline as text: bounded, and equal lanes folded."""

from __future__ import annotations

from fuselight_server.base.formatting import fit_encoding
from fuselight_server.jobs.ranks.model import RankTimeline, TimelineLane, TimelineSpan
from fuselight_server.jobs.ranks.timeline_text import timeline_text


def lane(rank: int, start: float, end: float | None, log_end: float = 10.0) -> TimelineLane:
    spans = (
        TimelineSpan("step", start, end, 0, "0/0"),
        TimelineSpan("backend_compile", start, end, 1, "0/0"),
    )
    return TimelineLane(rank, spans, 0.0, log_end)


def test_equal_ranks_share_a_lane_and_an_open_compile_ends_with_its_log() -> None:
    lanes = (lane(0, 2, 4), lane(1, 2, 4), lane(2, 5, None, 8.0))
    text = timeline_text(RankTimeline(1_000.0, 10.0, lanes), width=11)
    assert text.split("\n") == [
        "ranks 0 and 1  ··███······",
        "rank 2         ·····▓▓▓▓",
        "               0    10.0 s",
        "               █ compiling   ▓ a compile that had not ended when the log ended   · the log goes on",
    ]
    assert "##" in fit_encoding(text, "ascii")


def test_a_thousand_ranks_are_a_few_lines() -> None:
    lanes = tuple(lane(rank, rank / 200, rank / 200 + 1) for rank in range(1_024))
    lines = timeline_text(RankTimeline(0.0, 10.0, lanes), width=200, rows=16).split("\n")
    assert len(lines) == 19
    assert lines[16].strip().endswith("more ranks")


def test_a_timeline_without_duration_is_drawn() -> None:
    assert "rank 0" in timeline_text(RankTimeline(0.0, 0.0, (lane(0, 0.0, 0.0, 0.0),)))
