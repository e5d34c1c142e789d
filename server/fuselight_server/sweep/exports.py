"""A sweep as JSON and CSV.

Invariant: JSON has every row as it is in the folder, and `--against` reads it. CSV has one line for each row and
configuration, and no cell that a spreadsheet takes for a formula.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fuselight.shared.codec import encode
from fuselight_server.explain.benchmarks.exports import csv_text
from fuselight_server.sweep.comparison import SweepComparison
from fuselight_server.sweep.rows import SCHEMA, SweepAbout, SweepRow

COLUMNS: tuple[str, ...] = (
    "name", "group", "variant", "job", "device", "status", "graphs", "breaks", "recompilations", "operators", "kernels",
    "kernel_us", "kernel_device", "configuration", "us", "low_us", "high_us", "speedup", "first_us", "peak_bytes",
    "accurate", "winner", "gain", "gain_low", "culprit", "kind", "failure", "place", "next_step", "attempts",
    "seconds", "node", "torch", "triton", "python", "machine", "clock", "work", "started", "path", "target",
    "break_causes", "recompilation_causes", "notes", "id",
)  # fmt: skip


def rows_as_json(
    rows: Sequence[SweepRow], about: SweepAbout, comparison: SweepComparison | None = None
) -> str:
    """All rows, and what changed since the sweep that they are compared with."""
    data = {
        "schema": SCHEMA,
        "about": encode(about),
        "rows": [encode(row) for row in rows],
        "comparison": encode(comparison) if comparison is not None else None,
    }
    return json.dumps(data, indent=1) + "\n"


def rows_as_csv(rows: Sequence[SweepRow]) -> str:
    """One line for each row and configuration."""
    return csv_text(COLUMNS, (line for row in rows for line in _lines(row)))


def _lines(row: SweepRow) -> Iterator[dict[str, Any]]:
    shared = {name: getattr(row, name) for name in COLUMNS if hasattr(row, name)}
    shared |= {"job": row.job.value, "status": row.status.value, "notes": "; ".join(row.notes)}
    for name in ("break_causes", "recompilation_causes"):
        shared[name] = "; ".join(f"{cause}: {count}" for cause, count in getattr(row, name).items())
    failed = row.failure
    for configuration in row.configurations or (None,):
        failure = (configuration.failure if configuration is not None else None) or failed
        line = dict(shared)
        if failure is not None:
            line |= {name: getattr(failure, name) for name in ("culprit", "kind", "place", "next_step")}
        line["failure"] = failure.message if failure is not None else None
        if configuration is not None:
            line |= {
                name: getattr(configuration, name)
                for name in ("us", "low_us", "high_us", "speedup", "first_us")
            }
            line |= {
                "configuration": configuration.name,
                "peak_bytes": configuration.peak_bytes,
                "accurate": configuration.is_accurate,
            }
        yield line
