"""Coordinates a search: compiles candidates side by side, races them, and confirms the winner against `default`.

Invariant: the winner was faster than `default` in the confirming race, and its results are right as far as they can be
compared; otherwise the winner is `default`. `keep` receives the state after each step, so that a search that is ended
early shows the best so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.measure.accuracy import RANDOM
from fuselight.measure.orders import Order
from fuselight.shared.configurations import EAGER
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import Tuned, TunedResult, Work
from fuselight.tune.candidates import Candidates
from fuselight.tune.context import SearchContext
from fuselight.tune.decision import Decision
from fuselight.tune.description import ResultDescription
from fuselight.tune.exploration import Exploration
from fuselight.tune.knobs import CPU, GPU
from fuselight.tune.leaders import Leaders
from fuselight.tune.modes import measure_modes
from fuselight.tune.pool import DEFAULT, TrialPool
from fuselight.tune.schedule import Budget, Knobs
from fuselight.tune.timed_rounds import TimedRounds
from fuselight.tune.trial import SearchProcess, Trial
from fuselight.tune.turns import Turns
from fuselight.tune.verification import ResultVerification

_NOISE = {GPU: 0.01, CPU: 0.02}
"""The least difference that counts, whatever the spread of `default`'s rounds."""


@dataclass
class Search:
    """One search."""

    plan: TunePlan
    device: str
    """`cuda` or `cpu`."""
    start: Callable[[str], SearchProcess]
    """Starts the process of a configuration, or of the reference. Raises OSError."""
    tell: Callable[[str], None]
    """Reports the current step."""
    keep: Callable[[Tuned], None]
    """Receives the state so far."""
    wait: Callable[[Sequence[SearchProcess]], None]
    """Waits a short time, at most until one of the processes has an answer."""
    result_of: Callable[[TunedResult, Mapping[str, Any]], TunedResult]
    """Completes a result with what the winner's process says that a replay needs."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Inductor's options of this torch, with their values."""
    jobs: int = 2
    """Compiles that run side by side."""
    cores: float = 0.0
    """Of this machine; 0 if that is not known."""
    turns: Turns = field(default_factory=Turns)
    """With other searches on this machine."""
    clock: Callable[[], float] = time.perf_counter
    began: float | None = None
    """When the budget began, by `clock`; None: now."""
    _seconds: float | None = None
    _modes_seconds: float = 0.0

    def __post_init__(self) -> None:
        plan = self.plan
        began = self.clock() if self.began is None else self.began
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        budget = Budget(self.clock, began, plan.budget_seconds)
        pool = TrialPool(
            start_process=self.start,
            wait=self.wait,
            budget=budget,
            limit_seconds=plan.limit_seconds,
            work=plan.work or Work.INFERENCE,
            changed=self._known,
            turns=self.turns,
        )
        rounds = TimedRounds(plan, pool, _NOISE[self.device])
        context = self._context = SearchContext(plan, pool, rounds, budget, self.tell, self._known)
        leaders = Leaders(context, _NOISE[self.device])
        self._candidates = Candidates(
            plan, self.device, self.options, pool, rounds, self.jobs, leaders.best, context.seconds_left
        )
        verification = ResultVerification(context, leaders)
        self._description = ResultDescription(context, self.result_of, started)
        self._exploration = Exploration(
            context, self._candidates, leaders, verification, self._description, self.cores
        )
        self._decision = Decision(context, self._candidates, leaders, verification)

    def run(self) -> Tuned:
        """Search. A failure is stored in the row of its configuration."""
        context, pool = self._context, self._context.pool
        try:
            if self.plan.accuracy:
                pool.start_reference()
            pool.start(EAGER)
            pool.start(DEFAULT, Knobs())
            self._exploration.explore()
            if shortage := self._candidates.shortage():
                context.notes[shortage] = None
            if self._candidates.knows_default:
                self._decide()
            self._seconds, context.budget.is_used = context.budget.elapsed, True
            if self.plan.artifacts and self._description.result is not None:
                self._description.save_artifacts(self._winner, self._decision.confirmation)
            if self.plan.modes and self._candidates.knows_default:
                self._measure_modes()
            self._compare_with_eagers_numbers()
        finally:
            pool.end()
        return self.tuned(finished=True)

    def tuned(self, *, finished: bool = False) -> Tuned:
        """The state so far."""
        context, pool, description = self._context, self._context.pool, self._description
        winner = self._decision.winner
        return Tuned(
            work=pool.work,
            machine=pool.machine,
            numerics=self.plan.numerics,
            budget_seconds=self.plan.budget_seconds,
            knobs=self._candidates.reported(winner, finished=finished),
            candidates=(*(trial.candidate() for trial in pool.trials.values()), *pool.skipped.values()),
            race=tuple(context.rounds.samples),
            winner=winner if finished or not description.leader else description.leader,
            confirmation=self._decision.confirmation,
            result=description.result,
            notes=tuple(context.notes),
            seconds=context.budget.elapsed if self._seconds is None else self._seconds,
            modes_seconds=self._modes_seconds,
            finished=finished,
            started=description.started,
        )

    @property
    def _winner(self) -> Trial:
        return self._context.pool.trials[self._decision.winner]

    def _known(self) -> None:
        self.keep(self.tuned())

    def _decide(self) -> None:
        """Find the winner and describe it."""
        self._decision.decide()
        self._description.forget_leader()
        self._description.describe(self._winner, self._decision.confirmation)
        if not self.plan.modes:  # which are to be timed against a winner that no profiler has slowed down
            self._profile_winner()
        self._description.time_eager_again()

    def _profile_winner(self) -> None:
        seconds = self._exploration.profile_seconds - self._modes_seconds
        self._description.profile(self._winner, seconds)

    def _measure_modes(self) -> None:
        """Time torch's modes beside the winner, then profile the winner."""
        context, began = self._context, self.clock()
        measure_modes(
            context.pool,
            context.rounds,
            self._winner,
            self.plan.modes,
            jobs=self._candidates.jobs,
            accuracy=self.plan.accuracy,
            tell=self.tell,
        )
        self._modes_seconds = self.clock() - began
        self._profile_winner()
        self._known()

    def _compare_with_eagers_numbers(self) -> None:
        """Compile the winner again with eager's random numbers, if its results cannot be compared otherwise.

        Nothing is timed afterwards. A winner whose results then differ is none.
        """
        pool = self._context.pool
        winner = pool.trials.get(self._decision.winner)
        if pool.varies != RANDOM or winner is None or winner.name == DEFAULT or not winner.is_idle:
            return
        compile_time = self._candidates.compile_time
        if compile_time is None or compile_time.compile > self._context.budget.left(-self._modes_seconds):
            return
        self.tell(f"comparing the results of {winner.name} with eager's random numbers")
        pool.order(winner, Order.COMPARE_RANDOM, **pool.compared)
        if winner.is_accurate:
            self._description.note_accuracy(winner)
            return
        self._decision.revoke()
        self._description.describe(self._winner, self._decision.confirmation)
