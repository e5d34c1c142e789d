"""Print rows as they come, and the verdict on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterable


def print_table(rows: Iterable[Row | tuple[str, float, float, str]]) -> int:
    """Print one line a row; returns the exit code: 0 if every promise holds.

    A benchmark that runs as a plain script gives tuples of a Row's first four fields.
    """
    broken = 0
    for given in rows:
        row = given if isinstance(given, Row) else Row(*given)
        verdict = "ok" if row.holds else "NOT MET"
        broken += not row.holds
        bound = "at least" if row.at_least else "at most"
        detail = f"  ({row.detail})" if row.detail else ""
        print(
            f"{verdict:8} {row.measured:9.2f} {row.unit:<3} {bound:>8} {row.limit:g} {row.unit:<3} {row.name}{detail}",
            flush=True,
        )
    return 1 if broken else 0
