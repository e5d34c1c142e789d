"""How hot each line of a file is: by its share of the time, or of what is kept for the backward.

Invariant: a line below the first bound has no mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.memory import MemoryResult, saved_lines

LEVELS = (0.02, 0.15, 0.4)
"""Shares from which on a line is marked as level 1, 2 or 3."""


def line_levels(
    path: str, timed: Sequence[MeasuredResult | KernelResult], estimates: Iterable[MemoryResult]
) -> dict[int, int]:
    """The level of each marked line of a file; `timed` in the order of their importance.

    An estimate of memory that is newer than every time marks lines by what they keep for the backward.
    """
    newest = max((result.generation for result in timed), default=-1)
    kept = [
        (number, line.saved / result.saved_bytes)
        for number, (result, line) in saved_lines(estimates, path).items()
        if result.generation > newest
    ]
    shares = kept or [
        (row.place.line, row.us / result.us) for result in timed if result.us for row in result.rows(path)
    ]
    levels: dict[int, int] = {}
    for number, share in shares:
        level = sum(share >= bound for bound in LEVELS)
        if level:
            levels.setdefault(number, level)
    return dict(sorted(levels.items()))
