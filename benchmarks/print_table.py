"""Print rows as they come, and the verdict on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterable


_COLUMNS = "{:8} {:>9} {:12} {:>9} {:>6}  {}"


def print_header() -> None:
    """Print the names of the columns."""
    print(_COLUMNS.format("verdict", "measured", "", "limit", "", "what"), flush=True)


def print_table(rows: Iterable[Row | tuple[str, float, float, str]]) -> int:
    """Print one line a row; returns the exit code: 0 if every promise holds.

    A benchmark that runs as a plain script gives tuples of a Row's first four fields.
    """
    broken = 0
    for given in rows:
        row = given if isinstance(given, Row) else Row(*given)
        broken += not row.holds
        verdict = "ok" if row.holds else "NOT MET"
        bound = "at least" if row.at_least else "at most"
        what = f"{row.name} ({row.detail})" if row.detail else row.name
        print(
            _COLUMNS.format(verdict, f"{row.measured:.2f}", row.unit, bound, f"{row.limit:g}", what),
            flush=True,
        )
    return 1 if broken else 0
