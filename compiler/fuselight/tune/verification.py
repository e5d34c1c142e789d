"""Compares the results of a search's candidates with those of eager and of the reference.

Invariant: each candidate is compared once, and a candidate whose results differ is ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.measure.orders import Order
from fuselight.shared.report import TuneOutcome
from fuselight.tune.context import SearchContext
from fuselight.tune.leaders import Leaders
from fuselight.tune.trial import Trial


@dataclass
class ResultVerification:
    """The comparisons of one search."""

    context: SearchContext
    leaders: Leaders

    def verify_leaders(self) -> None:
        """Compare the results of candidates that may win, while others compile."""
        pool = self.context.pool
        if pool.has_reference and self.context.plan.accuracy:
            for trial in self.leaders.faster():
                if trial.is_idle and not trial.is_compared:
                    trial.is_compared = True
                    pool.give(trial, Order.COMPARE, **pool.comparison)
        for trial in pool.contenders:
            if not trial.is_accurate:
                pool.retire(trial, TuneOutcome.INACCURATE)

    def verify(self, trial: Trial) -> bool:
        """Whether the results of a candidate were compared and nothing speaks against them; waits for that."""
        if not self.context.plan.accuracy:
            return True
        pool = self.context.pool
        self.context.tell(f"comparing the results of {trial.name}")
        while not pool.has_reference or trial.asked:
            is_over = self.context.budget.finish_left() <= 0
            if is_over or (self.context.budget.left() <= 0 and not trial.asked):
                self.context.notes[
                    "the budget ended before results could be compared, so nothing was verified"
                ] = None
                return False
            pool.collect()
        if not trial.is_compared:
            trial.is_compared = True
            pool.order(trial, Order.COMPARE, **pool.comparison)
        if not trial.is_accurate:
            pool.retire(trial, TuneOutcome.INACCURATE)
        return trial.is_alive
