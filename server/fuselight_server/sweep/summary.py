"""A sweep in numbers: how many rows have a result, the speed-ups, and the causes of breaks and failures.

Invariant: a mean is of measured speed-ups with right results alone, and says of how many rows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuselight_server.sweep.rows import RowStatus, SweepRow

EDGES = (0.5, 0.8, 0.95, 1.05, 1.25, 1.5, 2.0, 3.0, 5.0)
"""Edges of the histogram of speed-ups; 0.95 to 1.05 is as fast as eager."""


@dataclass(frozen=True)
class CauseCount:
    """A cause, how often it came up, and in how many rows."""

    cause: str
    count: int
    rows: tuple[str, ...]
    """Names of the models."""


@dataclass(frozen=True)
class SpeedupGroup:
    """The speed-ups of one configuration over eager."""

    name: str
    mean: float
    """Geometric."""
    least: float
    most: float
    counts: tuple[int, ...]
    """Rows between the EDGES, from below the first to above the last."""

    @property
    def rows(self) -> int:
        """How many rows have a speed-up."""
        return sum(self.counts)


@dataclass(frozen=True)
class SweepSummary:
    """A sweep in numbers."""

    statuses: dict[str, int]
    breaks: tuple[CauseCount, ...]
    recompilations: tuple[CauseCount, ...]
    failures: tuple[CauseCount, ...]
    speedups: tuple[SpeedupGroup, ...]
    gain: SpeedupGroup | None
    """The gain of searches over `default`."""
    torches: dict[str, int]
    """Rows by version of torch."""


def summarize(rows: Sequence[SweepRow]) -> SweepSummary:
    """Count the rows of a sweep."""
    speedups: dict[str, list[float]] = defaultdict(list)
    gains = []
    for row in rows:
        for configuration in row.configurations:
            if (
                configuration.speedup is not None
                and configuration.name != "eager"
                and configuration.is_accurate is not False
            ):
                speedups["winner" if row.winner == configuration.name else configuration.name].append(
                    configuration.speedup
                )
        if row.gain is not None:
            gains.append(row.gain)
    counted = Counter(row.status.value for row in rows)
    return SweepSummary(
        statuses={status.value: counted[status.value] for status in RowStatus if counted[status.value]},
        breaks=_causes((row, row.break_causes) for row in rows),
        recompilations=_causes((row, row.recompilation_causes) for row in rows),
        failures=_causes((row, _failures(row)) for row in rows if row.status is not RowStatus.ABSENT),
        speedups=tuple(_group(name, speedup) for name, speedup in speedups.items()),
        gain=_group("gain over default", gains) if gains else None,
        torches=dict(Counter(row.torch for row in rows if row.torch).most_common()),
    )


def _failures(row: SweepRow) -> dict[str, int]:
    failures = [
        configuration.failure for configuration in row.configurations if configuration.failure is not None
    ]
    if row.failure is not None:
        failures = [row.failure, *(failure for failure in failures if failure.message != row.failure.message)]
    return dict(Counter(failure.cause for failure in failures))


def _causes(actual_rows: Iterable[tuple[SweepRow, dict[str, int]]]) -> tuple[CauseCount, ...]:
    counts: Counter[str] = Counter()
    rows: dict[str, dict[str, None]] = defaultdict(dict)
    for row, causes in actual_rows:
        for cause, count in causes.items():
            counts[cause] += count
            rows[cause][row.name] = None
    cause_counts = (CauseCount(cause, count, tuple(rows[cause])) for cause, count in counts.items())
    return tuple(
        sorted(
            cause_counts,
            key=lambda cause_count: (-len(cause_count.rows), -cause_count.count, cause_count.cause),
        )
    )


def _group(name: str, values: Sequence[float]) -> SpeedupGroup:
    counts = [0] * (len(EDGES) + 1)
    for value in values:
        counts[sum(value >= edge for edge in EDGES)] += 1
    mean = math.exp(sum(map(math.log, values)) / len(values))
    return SpeedupGroup(name, mean, min(values), max(values), tuple(counts))
