"""The timeline of ranks as text.

Invariant: at most `rows` lanes are printed, whatever the number of ranks; ranks that look equal share a lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.rank_words import ranks_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.jobs.ranks.model import RankTimeline, TimelineLane

_MARKS = {"compile": "█", "open": "▓", "log": "·"}


def timeline_text(timeline: RankTimeline, *, width: int = 80, rows: int = 32) -> str:
    """One line for each group of ranks with the same bar, above a scale of seconds."""
    bars: dict[str, list[int]] = {}
    for lane in timeline.lanes:
        bars.setdefault(_bar(lane, timeline.seconds, width), []).append(lane.rank)
    labels = {bar: ranks_in_words(ranks) for bar, ranks in bars.items()}
    margin = max((len(label) for label in labels.values()), default=0)
    lines = [f"{label:<{margin}}  {bar}" for bar, label in list(labels.items())[:rows]]
    if len(labels) > rows:
        hidden = sum(len(ranks) for ranks in list(bars.values())[rows:])
        lines.append(f"{'':<{margin}}  and {hidden:,} more ranks")
    end = f"{timeline.seconds:.1f} s"
    lines.append(f"{'':<{margin}}  0{end:>{max(width - 1, len(end))}}")
    lines.extend(f"{'':<{margin}}  {text}" for text in _legend())
    return "\n".join(lines)


def _legend() -> Iterator[str]:
    compiled, unfinished, log = (_MARKS[name] for name in ("compile", "open", "log"))
    yield f"{compiled} compiling   {unfinished} a compile that had not ended when the log ended   {log} the log goes on"


def _bar(lane: TimelineLane, seconds: float, width: int) -> str:
    cells = [" "] * width
    scale = (width - 1) / seconds if seconds > 0 else 0.0

    def fill(start: float, end: float, mark: str) -> None:
        first = max(0, min(width - 1, int(start * scale)))
        for cell in range(first, max(first, min(width - 1, int(end * scale))) + 1):
            cells[cell] = mark

    if lane.log_start is not None and lane.log_end is not None:
        fill(lane.log_start, lane.log_end, _MARKS["log"])
    for span in lane.spans:
        if span.depth == 0:
            end = span.end if span.end is not None else max(lane.log_end or span.start, span.start)
            fill(span.start, end, _MARKS["compile" if span.end is not None else "open"])
    return "".join(cells).rstrip()
