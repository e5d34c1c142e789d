"""Compares two sweeps of one suite: another torch, another commit. Regressions come first, the worst of them first.

Invariant: times differ only where their ranges do not overlap (`timing_stats.change`); a row that only one of the two
sweeps has is listed as such, never as a change.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuselight_server.base.formatting import format_change, format_count, format_time
from fuselight_server.explain.benchmarks.timing_stats import Range, change
from fuselight_server.sweep.rows import RowStatus, SweepRow, TimedConfiguration

_STATUS_WEIGHT, _WRONG_WEIGHT, _COUNT_WEIGHT = 1000.0, 900.0, 100.0
"""Rank regressions: no result, wrong results, more breaks, then slower by its part."""


class Direction(str, enum.Enum):
    """Whether a change is for the better."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"


@dataclass(frozen=True)
class RowChange:
    """One difference between two sweeps."""

    id: str
    what: str
    """`status`, `breaks`, `default`, ..."""
    before: str
    after: str
    direction: Direction
    weight: float
    """Larger is worse, or better, within its direction."""
    detail: str = ""


@dataclass(frozen=True)
class SweepComparison:
    """Two sweeps of one suite."""

    changes: tuple[RowChange, ...]
    """Regressions first."""
    compared: int
    """Rows that both have."""
    added: tuple[str, ...] = ()
    """Ids that only the newer sweep has."""
    missing: tuple[str, ...] = ()
    """Ids that only the older sweep has."""

    @property
    def regressions(self) -> tuple[RowChange, ...]:
        """The changes for the worse."""
        return tuple(
            row_change for row_change in self.changes if row_change.direction is Direction.REGRESSION
        )


def compare_sweeps(before: Iterable[SweepRow], after: Iterable[SweepRow]) -> SweepComparison:
    """Compare the rows of two sweeps by their ids."""
    old = {row.id: row for row in before}
    new = {row.id: row for row in after}
    both = [row_id for row_id in new if row_id in old]
    changes = [row_change for row_id in both for row_change in _changes(old[row_id], new[row_id])]
    changes.sort(
        key=lambda row_change: (
            row_change.direction is not Direction.REGRESSION,
            -row_change.weight,
            row_change.id,
            row_change.what,
        )
    )
    return SweepComparison(
        tuple(changes),
        len(both),
        added=tuple(row_id for row_id in new if row_id not in old),
        missing=tuple(row_id for row_id in old if row_id not in new),
    )


def _changes(old: SweepRow, new: SweepRow) -> Iterator[RowChange]:
    if (old.status is RowStatus.DONE) != (new.status is RowStatus.DONE):
        lost = new.status is not RowStatus.DONE
        failure = (new if lost else old).failure
        yield RowChange(
            new.id,
            "status",
            old.status.value,
            new.status.value,
            Direction.REGRESSION if lost else Direction.IMPROVEMENT,
            _STATUS_WEIGHT,
            failure.message if failure is not None else "",
        )
        return
    for what, noun in (("breaks", "break"), ("recompilations", "recompilation"), ("graphs", "graph")):
        yield from _count_change(new.id, noun, getattr(old, what), getattr(new, what))
    yield from _count_change(new.id, "kernel", old.kernels, new.kernels)
    earlier = {timed_configuration.name: timed_configuration for timed_configuration in old.configurations}
    same_clock = old.clock == new.clock and old.machine == new.machine
    for configuration in new.configurations:
        if configuration.name in earlier:
            yield from _time_changes(
                new.id, earlier[configuration.name], configuration, comparable=same_clock
            )


def _count_change(row_id: str, noun: str, old: int | None, new: int | None) -> Iterator[RowChange]:
    if old is None or new is None or old == new:
        return
    direction = Direction.REGRESSION if new > old else Direction.IMPROVEMENT
    yield RowChange(
        row_id,
        f"{noun}s",
        format_count(old, noun),
        format_count(new, noun),
        direction,
        _COUNT_WEIGHT * abs(new - old) / max(old, new, 1),
    )


def _time_changes(
    row_id: str, old: TimedConfiguration, new: TimedConfiguration, *, comparable: bool
) -> Iterator[RowChange]:
    if (old.is_accurate is False) != (new.is_accurate is False):
        wrong = new.is_accurate is False
        direction = Direction.REGRESSION if wrong else Direction.IMPROVEMENT
        words = {True: "wrong results", False: "right results"}
        yield RowChange(
            row_id, f"accuracy of {new.name}", words[not wrong], words[wrong], direction, _WRONG_WEIGHT
        )
    if (old.failure is None) != (new.failure is None):
        failure = new.failure or old.failure
        direction = Direction.REGRESSION if new.failure is not None else Direction.IMPROVEMENT
        words = {True: "failed", False: "measured"}
        yield RowChange(
            row_id,
            new.name,
            words[old.failure is not None],
            words[new.failure is not None],
            direction,
            _STATUS_WEIGHT,
            failure.message if failure is not None else "",
        )
    earlier, later = _range(old), _range(new)
    part = change(earlier, later) if earlier is not None and later is not None and comparable else None
    if part is None or earlier is None or later is None:
        return
    direction = Direction.REGRESSION if part > 0 else Direction.IMPROVEMENT
    yield RowChange(
        row_id,
        new.name,
        format_time(earlier.us),
        format_time(later.us),
        direction,
        min(abs(part), _COUNT_WEIGHT - 1),
        format_change(part),
    )


def _range(configuration: TimedConfiguration) -> Range | None:
    if configuration.us is None or configuration.low_us is None or configuration.high_us is None:
        return None
    return Range(configuration.us, configuration.low_us, configuration.high_us)
