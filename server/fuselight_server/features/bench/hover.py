"""The table of what was measured of a line's kernels, in its hover.

Invariant: times are those of whole kernels in one call, with their quartiles; a launch that matches no kernel has the
profiler's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.features.bench.lens import line_words, standing
from fuselight_server.features.markdown import code_span, name_cell, plain
from fuselight_server.formatting import format_estimate, format_percent, format_spread, format_time
from fuselight_server.measured.profile import rates

if TYPE_CHECKING:
    from fuselight.report import Kernel, MeasuredLaunch
    from fuselight_server.results.benchmarks import MeasuredResult, MeasuredRow
    from fuselight_server.session.state import Snapshot

LISTED = 20
"""Kernels of a line that a hover lists."""
_COLUMNS = (
    ("measured", "--:"),
    ("estimate", "--:"),
    ("of its limit", "--:"),
    ("count", "--:"),
    ("kind", ":--"),
    ("kernel", ":--"),
)
"""With how they are aligned; one without an entry is left out."""


def measured(snapshot: Snapshot, line: int) -> list[str]:
    """Make the table of what was measured on `line`, one for each target."""
    found = []
    for result in standing(snapshot):
        row = next((one for one in result.rows(snapshot.path) if one.place.line == line), None)
        if row is not None:
            found.append(_table(result, row))
    return found


def _table(result: MeasuredResult, row: MeasuredRow) -> str:
    name, one = result.key.name or "__main__", result.configuration
    shown = f" as {code_span(one.name)}" if one is not None else ""
    head = f"{code_span(name)}{shown}: {plain(line_words(result, [row]))}"
    launches = sorted(row.line.launches, key=lambda item: -item[0].us)
    rows = [_cells(result, launch, kernel) for launch, kernel in launches[:LISTED]]
    known = [index for index in range(len(_COLUMNS)) if any(cells[index] for cells in rows)]
    lines = [[one[index] for index in known] for one in (*zip(*_COLUMNS, strict=True), *rows)]
    parts = [head, "\n".join(f"| {' | '.join(cells)} |" for cells in lines)]
    if len(launches) > LISTED:
        parts.append(f"and {len(launches) - LISTED} more")
    source = one.profile.source if one is not None and one.profile is not None else ""
    by = f" by torch's profiler ({plain(source)})" if source else ""
    parts.append(
        f"*The times are of one call, measured{by}. A kernel that several lines share is listed with its whole time.*"
    )
    return "\n\n".join(parts)


def _cells(result: MeasuredResult, launch: MeasuredLaunch, kernel: Kernel | None) -> list[str]:
    achieved = rates(launch, kernel, result.report.target_device)
    half = (launch.high_us - launch.low_us) / 2 / launch.us if launch.us > 0 else 0.0
    estimate = kernel.estimate_us if kernel is not None else None
    limit = f"{format_percent(achieved.of_limit)} ({achieved.bound})" if achieved.of_limit is not None else ""
    kind = kernel.kind.value.replace("_", " ") if kernel is not None else launch.kind.value
    name = kernel.name if kernel is not None else launch.name
    return [
        plain(f"{format_time(launch.us)} {format_spread(half)}"),
        "" if estimate is None else plain(format_estimate(estimate)),
        limit,
        f"{launch.count:g}",
        kind,
        name_cell(name),
    ]
