"""The first part of a search: compiles candidates side by side, and races them as they are ready.

Invariant: nothing is compared before `default` is measured; without `default` the search ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuselight.measure.orders import Order
from fuselight.shared.configurations import EAGER
from fuselight.shared.report import Culprit, Failure, TuneOutcome
from fuselight.tune.candidates import Candidates
from fuselight.tune.context import SearchContext
from fuselight.tune.description import ResultDescription
from fuselight.tune.leaders import Leaders
from fuselight.tune.pool import DEFAULT
from fuselight.tune.schedule import CORES_PER_COMPILE, Knobs
from fuselight.tune.trial import Trial
from fuselight.tune.verification import ResultVerification

_LATE = 0.2
"""The part of the budget after which `default` is late: compiles that share its cores, but the first, wait for it."""


@dataclass
class Exploration:
    """Compiles and races candidates until none is left that could help, or the budget ends."""

    context: SearchContext
    candidates: Candidates
    leaders: Leaders
    verification: ResultVerification
    description: ResultDescription
    cores: float
    """Of this machine; 0 if that is not known."""
    profile_seconds: float = field(default=0.0, init=False)
    """Duration of the profile of `default`: what that of the winner may take."""
    _retried: bool = field(default=False, init=False)

    def explore(self) -> None:
        """Compile and race candidates until none is left that could help, or the budget ends."""
        pool = self.context.pool
        while not self._is_hopeless():
            self.candidates.start_more()
            if not pool.working and not pool.compiled:
                return
            if not self.candidates.knows_default and self.context.budget.left() <= 0:
                self.candidates.stop()  # they would only slow down `default`
                if self.context.budget.finish_left() <= 0:
                    self._give_up_default()
                    return
            if self.candidates.knows_default and self.context.seconds_left() <= 0:
                self.context.notes["the budget ended before every candidate was measured"] = None
                return
            self._put_default_first()
            pool.collect()
            if not self.candidates.knows_default and self._baseline_is_ready():
                pool.release()
                self._measure_baseline()
            if self.candidates.knows_default and pool.compiled:
                self._race()
            self.verification.verify_leaders()
            self._keep_leader()

    def _put_default_first(self) -> None:
        """Let other compiles wait while `default` is late: until it is measured, nothing can be compared.

        Where there are cores for all, it gains nothing by that, and they would not be ready in time.
        """
        if self.candidates.jobs * CORES_PER_COMPILE <= self.cores:
            return
        if (
            not self.candidates.knows_default
            and self.context.budget.elapsed > _LATE * self.context.plan.budget_seconds
        ):
            others = [trial for trial in self.context.pool.compiling if trial.name != DEFAULT]
            self.context.pool.hold(others[1:])  # the first is the most likely winner

    def _give_up_default(self) -> None:
        """End `default`, whose compile has used the budget and the time to finish."""
        seconds = self.context.plan.budget_seconds
        self.context.pool.default.fail(
            Failure(
                Culprit.USER,
                "timeout",
                f"`default` was not compiled within the budget of {seconds:.0f} s",
                "give the search more time (`fuselight.tune.budget`), or start it when the machine is less busy",
            )
        )

    def _is_hopeless(self) -> bool:
        """Whether `default` cannot be measured, so that there is nothing to compare with."""
        default = self.context.pool.trials.get(DEFAULT)
        if default is not None and default.is_alive:
            return False
        failure = default.row.failure if default is not None else None
        others = [trial for trial in self.context.pool.alive if trial.name != EAGER]
        if failure is not None and failure.kind == "memory" and others and not self._retried:
            self._retry_default(others)
            return False
        return True

    def _retry_default(self, others: Sequence[Trial]) -> None:
        """Start `default` again without the others, which left too little memory for it."""
        for trial in others:
            trial.end(TuneOutcome.UNFINISHED)
        self.candidates.start_only_named()
        self._retried, self.candidates.jobs = True, 1
        self.context.notes["there was not enough memory for two compiles side by side"] = None
        self.context.pool.start(DEFAULT, Knobs())

    def _baseline_is_ready(self) -> bool:
        return all(trial.is_idle or not trial.is_alive for trial in self.context.pool.baselines)

    def _measure_baseline(self) -> None:
        """Time eager and `default`, and find out from its profile what each knob could gain."""
        pool, default = self.context.pool, self.context.pool.default
        self.context.tell("timing default and eager")
        with pool.quiet():
            self.context.rounds.take_turns(
                [trial for trial in pool.baselines if self.context.rounds.warm(trial)]
            )
            began, has_time = self.context.budget.clock(), self.context.budget.finish_left() > 0
            if has_time:
                pool.order(default, Order.PROFILE, timed_later=True)
        if has_time:
            pool.order(default, Order.READ, look=False)
            self.profile_seconds = self.context.budget.clock() - began
        pool.order(default, Order.FINISH)
        answer = pool.order(default, Order.REPLAY, artifacts="")
        if answer is None:
            return
        self.leaders.learn_noise()
        self.candidates.learn(answer, self.leaders.default_noise)
        self.context.keep()

    def _race(self) -> None:
        """Race newly compiled candidates against the best ones so far."""
        pool = self.context.pool
        new = pool.compiled
        self.context.tell(f"racing {len(new)} compiled candidates{self.leaders.so_far()}")
        with pool.quiet():
            new = [trial for trial in new if self.context.rounds.warm(trial)]
            if new:
                old = [trial for trial in pool.contenders if trial.is_idle]
                self.leaders.race([*old, *new])
                self.leaders.measure_noise()
        self.leaders.retire_losers()
        self.context.keep()

    def _keep_leader(self) -> None:
        """Keep what a replay of a new leader needs, once its results were compared."""
        best = self.leaders.best()
        is_new = best is not None and best.is_idle and best.name != self.description.leader
        if best is not None and is_new and (best.is_compared or not self.context.plan.accuracy):
            self.description.lead(best)
