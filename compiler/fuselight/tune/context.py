"""What the steps of a search share: its plan, its processes, its rounds and its budget.

Invariant: the time of the confirming race and of the decision is never given to candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fuselight.shared.measurement_plans import TunePlan
from fuselight.tune import race
from fuselight.tune.pool import TrialPool
from fuselight.tune.schedule import Budget
from fuselight.tune.timed_rounds import TimedRounds

_RESERVED = 3.0
"""Seconds kept for the decision, besides the confirming race; less of a short budget."""
_RESERVED_PART = 0.15


@dataclass(frozen=True)
class SearchContext:
    """What the steps of one search share."""

    plan: TunePlan
    pool: TrialPool
    rounds: TimedRounds
    budget: Budget
    tell: Callable[[str], None]
    """Reports the current step."""
    keep: Callable[[], None]
    """Called when more is known."""
    notes: dict[str, None] = field(default_factory=dict)
    """What the report says of the search."""

    def seconds_left(self) -> float:
        """Seconds until the decision must begin."""
        reserved = min(_RESERVED, _RESERVED_PART * self.plan.budget_seconds)
        return self.budget.left(self.confirming_seconds + reserved)

    @property
    def confirming_seconds(self) -> float:
        """Seconds for the confirming race."""
        us = max((trial.us for trial in self.pool.trials.values()), default=0.0)
        return 2 * max(self.plan.seconds, race.LEAST_ROUNDS * us / 1e6)
