"""Measured times of both sides: of each configuration, and of each line.

Invariant: the sides were measured one after the other in processes of their own, so a change counts only where the
spreads do not overlap, and is a regression only from 5% on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_change
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.history_diff import Pair, compare
from fuselight_server.jobs.comparison.model import ChangeVerdict

_LEAST = 0.05
"""Of the earlier time: two processes of one version can differ by less."""


@dataclass(frozen=True, slots=True)
class TimeDifference:
    """A measured time with both releases."""

    target: str
    """What was called: the target, or what a program compiles."""
    configuration: str
    """`eager`, `default`; of a line that of its profile."""
    place: SourceLine | None
    """None: the whole call."""
    before_us: float
    after_us: float
    part: float | None
    """By which part it changed; None within the spreads."""

    @property
    def verdict(self) -> ChangeVerdict:
        """A longer call is a regression; the time of a line is a part of it."""
        if self.part is None:
            return ChangeVerdict.SAME
        if self.place is not None or abs(self.part) < _LEAST:
            return ChangeVerdict.CHANGE if self.place is not None else ChangeVerdict.SAME
        return ChangeVerdict.REGRESSION if self.part > 0 else ChangeVerdict.IMPROVEMENT

    @property
    def change(self) -> str:
        """`+12%`; empty within the spreads."""
        return format_change(self.part) if self.part is not None else ""


def compare_times(
    before: Sequence[Report], after: Sequence[Report], read_line: Callable[[str, int], str | None]
) -> tuple[TimeDifference, ...]:
    """The times of the benchmarks of both sides, calls first."""
    theirs = {report.target.name: report for report in before}
    return tuple(
        difference
        for report in after
        if report.target.name in theirs
        for difference in _differences(theirs[report.target.name], report, read_line)
    )


def _differences(
    before: Report, after: Report, read_line: Callable[[str, int], str | None]
) -> Iterator[TimeDifference]:
    root = after.roots[0] if after.roots else ""
    runs = run_of(before, root, read_line), run_of(after, root, read_line)
    if runs[0] is None or runs[1] is None:
        return
    comparison = compare(runs[0], runs[1])
    timed: list[tuple[str, SourceLine | None, Pair]] = [
        (name, None, pair) for name, pair in comparison.configurations
    ]
    timed += [("", line.place, line) for line in comparison.lines]
    for name, place, pair in timed:
        if pair.before is not None and pair.after is not None:
            yield TimeDifference(after.target.name, name, place, pair.before.us, pair.after.us, pair.change)
