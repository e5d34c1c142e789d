"""One line of the table that `make bench` prints.

Invariant: a limit is a ratio within one run, or a size; a time alone would only describe the machine.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Row:
    """A promise and what was measured, both in `unit`."""

    name: str
    measured: float
    limit: float
    unit: str = "x"
    at_least: bool = False
    """Whether `limit` is a lower bound."""
    detail: str = ""
    """The raw numbers of a ratio, for the reader."""

    @property
    def holds(self) -> bool:
        """Whether the promise holds."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def times_faster(name: str, ours: float, theirs: float, limit: float) -> Row:
    """The promise that `theirs` takes `limit` times as many seconds as `ours`."""
    return Row(name, theirs / ours, limit, at_least=True, detail=f"{ours:.2f} s against {theirs:.2f} s")


def median(values: Sequence[float]) -> float:
    """The middle value: one preempted round must not decide."""
    return statistics.median(values)
