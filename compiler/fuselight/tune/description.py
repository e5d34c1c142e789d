"""The last part of a search: what its report says of the winner, and what a program needs to replay it.

Invariant: while a search goes on, `result` is that of the verified candidate `leader`, for a search that ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.measure.orders import Order
from fuselight.shared.configurations import EAGER
from fuselight.shared.report import Confirmation, TunedResult
from fuselight.tune.context import SearchContext
from fuselight.tune.pool import DEFAULT
from fuselight.tune.summary import accuracy_words, summary
from fuselight.tune.trial import Trial

_EAGERS_ROUNDS = 5
"""Rounds of eager and `default` after the decision."""


@dataclass
class ResultDescription:
    """Makes the result of a search."""

    context: SearchContext
    result_of: Callable[[TunedResult, Mapping[str, Any]], TunedResult]
    """Completes a result with what the winner's process says that a replay needs."""
    started: str
    """When the search began, in ISO 8601."""
    leader: str = field(default="", init=False)
    """The verified candidate for which `result` holds until the decision."""
    result: TunedResult | None = field(default=None, init=False)

    def forget_leader(self) -> None:
        """Drop the result so far, because the decision has another."""
        self.leader, self.result = "", None

    def note_accuracy(self, winner: Trial) -> None:
        """Say in the result what a further comparison has shown."""
        if self.result is not None:
            self.result = replace(self.result, accuracy=accuracy_words(winner.row.accuracy))

    def lead(self, best: Trial) -> None:
        """Keep what a replay of the best candidate so far needs, for a search that is ended early."""
        self.context.pool.refresh(best)
        answer = self.context.pool.order(best, Order.REPLAY, artifacts="")
        if answer is not None:
            self.leader, self.result = best.name, self.result_of(self._summary(best, None), answer)
            self.context.keep()

    def describe(self, winner: Trial, confirmation: Confirmation | None) -> None:
        """Find out what a replay needs, and measure memory."""
        pool = self.context.pool
        with pool.quiet():
            for trial in dict.fromkeys([*pool.baselines, winner]):
                if self.context.budget.finish_left() > 0:
                    pool.order(trial, Order.WEIGH)
        has_time = self.context.budget.finish_left() > 0
        if has_time and self.context.plan.accuracy and pool.has_reference and not pool.default.is_compared:
            pool.default.is_compared = True
            pool.order(pool.default, Order.COMPARE, **pool.comparison)
        answer = pool.order(winner, Order.REPLAY, artifacts="")
        self.result = (
            self.result_of(self._summary(winner, confirmation), answer) if answer is not None else None
        )
        for trial in pool.baselines:
            pool.refresh(trial)
        self.context.keep()

    def time_eager_again(self) -> None:
        """Time eager and `default` after the decision: a machine may have slowed down since the first rounds.

        Only if the budget has time for it.
        """
        pool, rounds = self.context.pool, self.context.rounds
        trials = [trial for trial in pool.baselines if trial.is_idle]
        if len(trials) <= 1 or self.context.budget.left(2 * rounds.seconds(trials, _EAGERS_ROUNDS)) <= 0:
            return
        self.context.tell("timing eager again")
        with pool.quiet():
            rounds.take_turns(trials, _EAGERS_ROUNDS)
        for trial in trials:
            pool.refresh(trial)
        default, eager = (rounds.median(name, rounds.stage) for name in (DEFAULT, EAGER))
        if self.result is not None and default and eager:
            self.result = replace(self.result, eager_us=self.result.default_us * eager / default)
        self.context.keep()

    def profile(self, winner: Trial, seconds: float) -> None:
        """Measure the division of a call of the winner, if `seconds` are left.

        Nothing is timed in its process afterwards.
        """
        pool = self.context.pool
        if winner is pool.default:
            return
        if self.context.budget.left(seconds) > 0:
            with pool.quiet():
                pool.order(winner, Order.PROFILE)
            pool.order(winner, Order.READ, look=False)
        pool.order(winner, Order.FINISH)

    def save_artifacts(self, winner: Trial, confirmation: Confirmation | None) -> None:
        """Save the caches of the winner's compile, which takes one more compile."""
        self.context.tell("saving the compiled code of the winner")
        answer = self.context.pool.order(winner, Order.REPLAY, artifacts=self.context.plan.artifacts)
        if answer is not None:
            self.result = self.result_of(self._summary(winner, confirmation), answer)

    def _summary(self, trial: Trial, confirmation: Confirmation | None) -> TunedResult:
        """The numbers of a result; those of the confirming race where `trial` won it."""
        confirmed = confirmation if trial is not self.context.pool.default else None
        tuned_result = summary(trial, self.context.pool, confirmed)
        return replace(tuned_result, numerics=self.context.plan.numerics, when=self.started)
