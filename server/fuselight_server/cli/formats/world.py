"""The ranks of a target in the terminal: which ran, what they compiled, and their collectives by line.

Invariant: every time of a collective is marked as an estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import encode
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_list,
    format_size,
    format_target,
)
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.explain.findings.ranks import report_of
from fuselight_server.explain.ranks.collective_lines import CollectiveRow, collective_rows
from fuselight_server.explain.ranks.link import RankLink, estimated_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.shared.report import EqualRanks, Report, World
    from fuselight_server.base.terminal import Part, Terminal
    from fuselight_server.commands.outcome import CheckOutcome

_MAX_ROWS = 40


def print_worlds(outcome: CheckOutcome, terminal: Terminal, link: RankLink) -> None:
    """Print the ranks of each target that ran as several."""
    for report in outcome.reports:
        if report.world is not None:
            for line in _lines(report, report.world, link):
                terminal.print(line)


def _lines(report: Report, world: World, link: RankLink) -> Iterator[Part | str]:
    name = f"{format_target(report.target.name)} ({shown_path(report.target.path)})"
    seconds = sorted(world.seconds.values())
    took = f"{_range(seconds)} s each, on the CPU, without a network" if seconds else "none ended"
    which = "" if len(world.ran) == world.size else f" ({ranks_in_words(world.ran)})"
    yield (
        f"{name} as {len(world.ran)} of {format_count(world.size, 'rank')}{which}: {took}.",
        "bold",
    )
    for group in world.groups:
        numbers = counts(report_of(report, group))
        failed = ", failed" if group.failures else ""
        count = format_count(group.collective_count, "collective")
        collectives = "collectives are not recorded on fake tensors" if _is_fake(report) else count
        yield f"  {ranks_in_words(group.ranks)}: {numbers}, {collectives}{failed}"
        yield from _collectives(group, report, world, link)
    if any(group.collectives for group in world.groups):
        yield (
            (
                f"  Times are estimates for {link.text} between two ranks, {link.latency_us:g} µs latency, in a ring. "
                "Results of collectives are not real here, so a branch on such a value may go another way in a job."
            ),
            "dim",
        )


def _range(seconds: Sequence[float]) -> str:
    """`1.2 to 3.4`; one number if both are shown alike."""
    return " to ".join(dict.fromkeys(f"{value:.1f}" for value in (seconds[0], seconds[-1])))


def _is_fake(report: Report) -> bool:
    """Whether tensors had no data, so that no collective was called."""
    return report.inputs is not None and report.inputs.fake


def _collectives(group: EqualRanks, report: Report, world: World, link: RankLink) -> Iterator[Part | str]:
    rows = collective_rows(group.collectives, report.roots, world.mesh, link)
    cells = [_cells(row) for row in rows[:_MAX_ROWS]]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(len(_COLUMNS))]
    for row in cells:
        padded = (
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(row, widths, _COLUMNS, strict=True)
        )
        yield f"    {'  '.join(padded).rstrip()}"
    if len(rows) > _MAX_ROWS:
        yield f"    and {format_count(len(rows) - _MAX_ROWS, 'more line')} (--format json lists all)", "dim"


_COLUMNS = (False, False, True, False, False, True, True, False)
"""Whether each column has numbers."""


def _cells(row: CollectiveRow) -> tuple[str, ...]:
    place = (
        "no line known" if row.location is None else f"{shown_path(row.location.path)}:{row.location.line}"
    )
    ranks = format_count(row.group_size, "rank") + (f" ({row.dimension})" if row.dimension else "")
    overlap = f"{row.overlapping} can overlap" if row.overlapping else ""
    return (
        place,
        row.phase,
        f"{row.count:,} ×",
        row.kind,
        " ".join((ranks, format_list(row.dtypes))).strip(),
        format_size(row.bytes),
        format_estimate(row.estimate_us),
        overlap,
    )


def world_as_json(report: Report, link: RankLink) -> dict[str, Any] | None:
    """The ranks of a target; None if it did not run as several."""
    world = report.world
    if world is None:
        return None
    return {
        "size": world.size,
        "mesh": {dimension.name: dimension.size for dimension in world.mesh},
        "ran": list(world.ran),
        "seconds": world.seconds,
        "link": {"bytes_per_second": link.bytes_per_second, "latency_us": link.latency_us},
        "groups": [_group_as_json(group, report, link) for group in world.groups],
    }


def _group_as_json(group: EqualRanks, report: Report, link: RankLink) -> dict[str, Any]:
    numbers = counts(report_of(report, group))
    return {
        "ranks": list(group.ranks),
        "graphs": numbers.graphs,
        "breaks": numbers.breaks,
        "recompilations": numbers.recompilations,
        "failures": [failure.message for failure in group.failures],
        "collective_count": None if _is_fake(report) else group.collective_count,
        "collectives": [
            {**encode(call), "estimate_us": round(estimated_us(call, link), 3)} for call in group.collectives
        ],
    }
