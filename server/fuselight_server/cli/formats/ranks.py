"""The ranks of an opened job in the terminal: which compiled alike, what each group did, and the timeline.

Invariant: the text has at most a few dozen lines, however many ranks there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import file_name
from fuselight_server.base.formatting import format_count
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.timeline_text import timeline_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight_server.base.terminal import Terminal
    from fuselight_server.jobs.ranks.model import CompileSkew, RankRow, RankTable

_MAX_GROUPS = 8
_MAX_SKEWS = 3
_MAX_LANES = 16


def print_ranks(table: RankTable | None, terminal: Terminal) -> None:
    """Print how the ranks of a job compare; nothing for a job without ranks."""
    if table is None:
        return
    for line in _lines(table):
        terminal.print((line, "dim"))
    if table.timeline is not None:
        for line in timeline_text(table.timeline, rows=_MAX_LANES).split("\n"):
            terminal.print((line, "dim"))


def _lines(table: RankTable) -> Iterator[str]:
    size = f" of {table.world_size:,}" if table.world_size is not None else ""
    yield f"{len(table.rows):,}{size} {'rank' if len(table.rows) == 1 and not size else 'ranks'}:"
    rows = {row.rank: row for row in table.rows}
    for group in table.groups[:_MAX_GROUPS]:
        yield f"  {group.label}: {_numbers([rows[rank] for rank in group.ranks])}"
    if len(table.groups) > _MAX_GROUPS:
        yield f"  and {len(table.groups) - _MAX_GROUPS:,} more groups"
    if table.missing:
        yield f"  without a log: {ranks_in_words(table.missing)}"
    if table.unranked:
        yield f"  {format_count(table.unranked, 'process', 'processes')} recorded no rank: not compared"
    for skew in table.skews[:_MAX_SKEWS]:
        yield f"  {_compile_words(skew)}: {skew.message}"
    for wait in table.waits:
        yield f"  {wait.message}"
    yield from (f"  note: {note}" for note in table.notes)


def _compile_words(skew: CompileSkew) -> str:
    """`train.py:34 forward (0/0)`."""
    place = "" if skew.location is None else f"{file_name(skew.location.path)}:{skew.location.line}"
    return " ".join(filter(None, (place, skew.function, f"({skew.compile_id})")))


def _numbers(rows: Sequence[RankRow]) -> str:
    """What the ranks of a group did: they compiled alike, and took different times."""
    row = rows[0]
    parts = [
        format_count(row.compiles, "compile"),
        format_count(row.recompilations, "recompilation") if row.recompilations else "",
        format_count(row.graph_breaks, "graph break") if row.graph_breaks else "",
        f"{len(row.failed)} failed" if row.failed else "",
        f"{len(row.unfinished)} not ended" if row.unfinished else "",
        _cache(rows),
        _seconds(rows),
    ]
    return ", ".join(part for part in parts if part)


def _cache(rows: Sequence[RankRow]) -> str:
    hits = {row.cache_hits for row in rows}
    misses = {row.cache_misses for row in rows}
    if hits | misses == {0}:
        return ""
    return f"caches: {_range(hits, 'hit')}, {_range(misses, 'miss', 'misses')}"


def _range(values: set[int], noun: str, plural: str = "") -> str:
    """`1 hit`, `2 to 3 hits`."""
    most = format_count(max(values), noun, plural)
    return most if len(values) == 1 else f"{min(values):,} to {most}"


def _seconds(rows: Sequence[RankRow]) -> str:
    seconds = sorted(row.seconds for row in rows if row.seconds is not None)
    if not seconds:
        return ""
    low, high = f"{seconds[0]:.1f}", f"{seconds[-1]:.1f}"
    return f"compile time {low} s" if low == high else f"compile time {low} to {high} s"
