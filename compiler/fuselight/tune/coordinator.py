"""Coordinates a search: compiles candidates side by side, races them, and confirms the winner against `default`.

Invariant: the winner was faster than `default` in the confirming race, and its results are right as far as they can be
compared; otherwise the winner is `default`. `keep` receives the state after each step, so that a search that is ended
early shows the best so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.measure.accuracy import RANDOM
from fuselight.measure.orders import Order
from fuselight.shared.configurations import EAGER
from fuselight.shared.protocol import TunePlan
from fuselight.shared.report import (
    Confirmation,
    Culprit,
    Failure,
    Tuned,
    TunedResult,
    TuneOutcome,
    Work,
)
from fuselight.tune import race
from fuselight.tune.candidates import Candidates
from fuselight.tune.knobs import CPU, GPU
from fuselight.tune.modes import measure_modes
from fuselight.tune.pool import DEFAULT, TrialPool
from fuselight.tune.schedule import CORES_PER_COMPILE, Budget, Knobs
from fuselight.tune.summary import accuracy_words, summary
from fuselight.tune.timed_rounds import TimedRounds, complexity
from fuselight.tune.trial import SearchProcess, Trial
from fuselight.tune.turns import Turns

_LATE = 0.2
"""The part of the budget after which `default` is late: compiles that share its cores, but the first, wait for it."""
_NOISE = {GPU: 0.01, CPU: 0.02}
"""The least difference that counts, whatever the spread of `default`'s rounds."""
_MOST_NOISE = 0.1
_FINALISTS = 3
"""Candidates that stay alive between races, besides `default`."""
_EAGERS_ROUNDS = 5
"""Rounds of eager and `default` after the decision."""
_RESERVED = 3.0
"""Seconds kept for the decision, besides the confirming race; less of a short budget."""
_RESERVED_PART = 0.15


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
    _default_noise: float = 0.0
    """The least relative difference from `default` that counts; `TimedRounds.noise` is that between candidates."""
    _raced: set[Trial] = field(default_factory=set)
    """The candidates of the last race: gains of different races are not comparable, because `default` drifts."""
    _confirmation: Confirmation | None = None
    _winner: str = DEFAULT
    _leader: str = ""
    """The verified candidate for which `_result` holds until the decision."""
    _result: TunedResult | None = None
    _notes: dict[str, None] = field(default_factory=dict)
    _seconds: float | None = None
    _modes_seconds: float = 0.0
    _profile_seconds: float = 0.0
    """Duration of the profile of `default`: what that of the winner may take."""
    _retried: bool = False
    _when: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def __post_init__(self) -> None:
        plan = self.plan
        began = self.clock() if self.began is None else self.began
        self._budget = Budget(self.clock, began, plan.budget_seconds)
        self._pool = TrialPool(
            start_process=self.start,
            wait=self.wait,
            budget=self._budget,
            limit_seconds=plan.limit_seconds,
            work=plan.work or Work.INFERENCE,
            changed=self._known,
            turns=self.turns,
        )
        self._rounds = TimedRounds(plan, self._pool, _NOISE[self.device])
        self._candidates = Candidates(
            plan, self.device, self.options, self._pool, self._rounds, self.jobs, self._best, self._left
        )

    def run(self) -> Tuned:
        """Search. A failure is stored in the row of its configuration."""
        try:
            if self.plan.accuracy:
                self._pool.start_reference()
            self._pool.start(EAGER)
            self._pool.start(DEFAULT, Knobs())
            self._explore()
            if shortage := self._candidates.shortage():
                self._notes[shortage] = None
            if self._candidates.knows_default:
                self._decide()
                self._describe()
                if (
                    not self.plan.modes
                ):  # which are to be timed against a winner that no profiler has slowed down
                    self._profile_winner()
                self._time_eager_again()
            self._seconds, self._budget.is_used = self._budget.elapsed, True
            if self.plan.artifacts and self._result is not None:
                self._save_artifacts()
            if self.plan.modes and self._candidates.knows_default:
                began, winner = self.clock(), self._pool.trials[self._winner]
                measure_modes(
                    self._pool,
                    self._rounds,
                    winner,
                    self.plan.modes,
                    jobs=self._candidates.jobs,
                    accuracy=self.plan.accuracy,
                    tell=self.tell,
                )
                self._modes_seconds = self.clock() - began
                self._profile_winner()
                self._known()
            self._compare_with_eagers_numbers()
        finally:
            self._pool.end()
        return self.tuned(finished=True)

    def tuned(self, *, finished: bool = False) -> Tuned:
        """The state so far."""
        pool = self._pool
        return Tuned(
            work=pool.work,
            machine=pool.machine,
            numerics=self.plan.numerics,
            budget_seconds=self.plan.budget_seconds,
            knobs=self._candidates.reported(self._winner, finished=finished),
            candidates=(*(trial.candidate() for trial in pool.trials.values()), *pool.skipped.values()),
            race=tuple(self._rounds.samples),
            winner=self._winner if finished or not self._leader else self._leader,
            confirmation=self._confirmation,
            result=self._result,
            notes=tuple(self._notes),
            seconds=self._budget.elapsed if self._seconds is None else self._seconds,
            modes_seconds=self._modes_seconds,
            finished=finished,
            started=self._when,
        )

    def _known(self) -> None:
        self.keep(self.tuned())

    # What happens in which order

    def _explore(self) -> None:
        """Compile and race candidates until none is left that could help, or the budget ends."""
        pool = self._pool
        while not self._is_hopeless():
            self._candidates.start_more()
            if not pool.working and not pool.compiled:
                return
            if not self._candidates.knows_default and self._budget.left() <= 0:
                self._candidates.stop()  # they would only slow down `default`
                if self._budget.finish_left() <= 0:
                    self._give_up_default()
                    return
            if self._candidates.knows_default and self._left() <= 0:
                self._notes["the budget ended before every candidate was measured"] = None
                return
            self._put_default_first()
            pool.collect()
            if not self._candidates.knows_default and self._baseline_is_ready():
                pool.release()
                self._measure_baseline()
            if self._candidates.knows_default and pool.compiled:
                self._race()
            self._verify_leaders()

    def _put_default_first(self) -> None:
        """Let other compiles wait while `default` is late: until it is measured, nothing can be compared.

        Where there are cores for all, it gains nothing by that, and they would not be ready in time.
        """
        if self._candidates.jobs * CORES_PER_COMPILE <= self.cores:
            return
        if not self._candidates.knows_default and self._budget.elapsed > _LATE * self.plan.budget_seconds:
            others = [trial for trial in self._pool.compiling if trial.name != DEFAULT]
            self._pool.hold(others[1:])  # the first is the most likely winner

    def _left(self) -> float:
        """Seconds until the decision must begin."""
        reserved = min(_RESERVED, _RESERVED_PART * self.plan.budget_seconds)
        return self._budget.left(self._confirming + reserved)

    @property
    def _confirming(self) -> float:
        """Seconds for the confirming race."""
        us = max((trial.us for trial in self._pool.trials.values()), default=0.0)
        return 2 * max(self.plan.seconds, race.LEAST_ROUNDS * us / 1e6)

    def _give_up_default(self) -> None:
        """End `default`, whose compile has used the budget and the time to finish."""
        seconds = self.plan.budget_seconds
        self._pool.default.fail(
            Failure(
                Culprit.USER,
                "timeout",
                f"`default` was not compiled within the budget of {seconds:.0f} s",
                "give the search a longer --budget, or start it when the machine is less busy",
            )
        )

    def _is_hopeless(self) -> bool:
        """Whether `default` cannot be measured, so that there is nothing to compare with."""
        default = self._pool.trials.get(DEFAULT)
        if default is not None and default.is_alive:
            return False
        failure = default.row.failure if default is not None else None
        others = [trial for trial in self._pool.alive if trial.name != EAGER]
        if failure is not None and failure.kind == "memory" and others and not self._retried:
            self._retry_default(others)
            return False
        return True

    def _retry_default(self, others: Sequence[Trial]) -> None:
        """Start `default` again without the others, which left too little memory for it."""
        for trial in others:
            trial.end(TuneOutcome.UNFINISHED)
        self._candidates.start_only_named()
        self._retried, self._candidates.jobs = True, 1
        self._notes["there was not enough memory for two compiles side by side"] = None
        self._pool.start(DEFAULT, Knobs())

    # Races

    def _baseline_is_ready(self) -> bool:
        return all(trial.is_idle or not trial.is_alive for trial in self._pool.baselines)

    def _measure_baseline(self) -> None:
        """Time eager and `default`, and find out from its profile what each knob could gain."""
        pool, default = self._pool, self._pool.default
        self.tell("timing default and eager")
        with pool.quiet():
            self._rounds.take_turns([trial for trial in pool.baselines if self._rounds.warm(trial)])
            began, has_time = self.clock(), self._budget.finish_left() > 0
            if has_time:
                pool.order(default, Order.PROFILE, timed_later=True)
        if has_time:
            pool.order(default, Order.READ, look=False)
            self._profile_seconds = self.clock() - began
        pool.order(default, Order.FINISH)
        said = pool.order(default, Order.REPLAY, artifacts="")
        if said is None:
            return
        timing = default.row.device or default.row.wall
        spread = timing.spread if timing is not None else 0.0
        self._default_noise = min(_MOST_NOISE, max(self._rounds.noise, spread))
        self._candidates.learn(said, self._default_noise)
        self._known()

    def _race(self) -> None:
        """Race newly compiled candidates against the best ones so far."""
        pool = self._pool
        new = pool.compiled
        self.tell(f"racing {len(new)} compiled candidates{self._so_far()}")
        with pool.quiet():
            new = [trial for trial in new if self._rounds.warm(trial)]
            if new:
                old = [trial for trial in pool.contenders if trial.is_idle]
                self._raced = self._rounds.race([pool.default, *old, *new], self._left())
                self._measure_noise()
        self._retire_losers()
        self._known()

    def _measure_noise(self) -> None:
        """Candidates that keep the device busy vary less than `default`, which the host may limit."""
        best = self._best()
        if best is not None:
            spread = self._rounds.spread(best)
            self._rounds.noise = min(self._default_noise, max(_NOISE[self.device], spread))

    def _retire_losers(self) -> None:
        """End candidates that cannot win any more, because they hold memory.

        One that is slower than an unverified candidate may still win. So may one that missed this race because its
        results are being compared: `default` may have been faster in its last race.
        """
        contenders, noise = self._pool.contenders, self._rounds.noise
        verified = [
            trial
            for trial in contenders
            if trial in self._raced and (trial.is_verified or not self.plan.accuracy)
        ]
        least = (verified[0].gain or 0.0) * (1 - 2 * noise) if verified else 0.0
        for place, trial in enumerate(contenders):
            is_slow = trial in self._raced and (trial.gain or 0.0) < max(least, 1 - self._default_noise)
            if place >= _FINALISTS or is_slow:
                self._retire(trial)

    def _retire(self, trial: Trial) -> None:
        self._pool.retire(trial, TuneOutcome.ELIMINATED if trial.is_eliminated else TuneOutcome.SLOWER)

    def _faster(self) -> list[Trial]:
        """Candidates that were faster than `default` beyond the noise, the fastest first."""
        return [trial for trial in self._pool.contenders if (trial.gain or 0.0) > 1 + self._default_noise]

    def _best(self) -> Trial | None:
        """The candidate that leads: the simplest among those that differ by less than the noise."""
        leaders = [trial for trial in self._faster() if trial.is_accurate]
        least = (leaders[0].gain or 0.0) / (1 + self._rounds.noise) if leaders else 0.0
        return min((trial for trial in leaders if (trial.gain or 0.0) >= least), key=complexity, default=None)

    def _so_far(self) -> str:
        best = self._best()
        return f"; best so far {best.name}, {best.gain:.2f} x default" if best is not None else ""

    # Accuracy

    def _verify_leaders(self) -> None:
        """Compare the results of candidates that may win, while others compile."""
        pool = self._pool
        if pool.has_reference and self.plan.accuracy:
            for trial in self._faster():
                if trial.is_idle and not trial.judged:
                    trial.judged = True
                    pool.give(trial, Order.JUDGE, **pool.compared, varies=pool.varies)
        for trial in pool.contenders:
            if not trial.is_accurate:
                pool.retire(trial, TuneOutcome.INACCURATE)
        best = self._best()
        is_new = best is not None and best.is_idle and best.name != self._leader
        if best is not None and is_new and (best.judged or not self.plan.accuracy):
            self._lead(best)

    def _lead(self, best: Trial) -> None:
        """Keep what a replay of the best candidate so far needs, for a search that is ended early."""
        self._pool.refresh(best)
        said = self._pool.order(best, Order.REPLAY, artifacts="")
        if said is not None:
            self._leader, self._result = best.name, self.result_of(self._summary(best), said)
            self._known()

    def _is_verified(self, trial: Trial) -> bool:
        """Whether the results of a candidate were compared and nothing speaks against them; waits for that."""
        if not self.plan.accuracy:
            return True
        pool = self._pool
        self.tell(f"comparing the results of {trial.name}")
        while not pool.has_reference or trial.asked:
            is_over = self._budget.finish_left() <= 0
            if is_over or (self._budget.left() <= 0 and not trial.asked):
                self._notes["the budget ended before results could be compared, so nothing was verified"] = (
                    None
                )
                return False
            pool.collect()
        if not trial.judged:
            trial.judged = True
            pool.order(trial, Order.JUDGE, **pool.compared, varies=pool.varies)
        if not trial.is_accurate:
            pool.retire(trial, TuneOutcome.INACCURATE)
        return trial.is_alive

    def _compare_with_eagers_numbers(self) -> None:
        """Compile the winner again with eager's random numbers, if its results cannot be compared otherwise.

        Nothing is timed afterwards. A winner whose results then differ is none.
        """
        pool = self._pool
        winner = pool.trials.get(self._winner)
        if pool.varies != RANDOM or winner is None or self._winner == DEFAULT or not winner.is_idle:
            return
        compile_time = self._candidates.compile_time
        if compile_time is None or compile_time.compile > self._budget.left(-self._modes_seconds):
            return
        self.tell(f"comparing the results of {winner.name} with eager's random numbers")
        pool.order(winner, Order.JUDGE_RANDOM, **pool.compared)
        if winner.is_accurate:
            if self._result is not None:
                self._result = replace(self._result, accuracy=accuracy_words(winner.row.accuracy))
            return
        winner.outcome = TuneOutcome.INACCURATE
        self._winner, self._confirmation = DEFAULT, None
        self._describe()

    # Decision

    def _decide(self) -> None:
        """Race the last candidates, and confirm the fastest accurate one against `default`."""
        pool = self._pool
        self._candidates.stop()
        self._await_comparisons()
        if self._left() > 0:
            self._race_finalists()
        while (best := self._best()) is not None:
            if self._budget.finish_left() > 0 and self._is_verified(best):
                if not self._raced.issuperset(self._finalists()) and self._race_finalists():
                    continue
                if self._confirm(best):
                    break
            if best.is_alive:
                pool.retire(best, TuneOutcome.UNCONFIRMED)
            if self._budget.left() <= 0:
                break
        self._leader, self._result = "", None
        for trial in pool.contenders:
            self._retire(trial)
        for trial in pool.compiled:
            trial.end(TuneOutcome.UNFINISHED)

    def _await_comparisons(self) -> None:
        """Wait for candidates whose results are being compared: they could not take part in the final race."""
        while any(trial.asked for trial in self._faster()) and self._budget.left(self._confirming) > 0:
            self._pool.collect()

    def _finalists(self) -> list[Trial]:
        """The candidates that can take part in the final race."""
        return [trial for trial in self._faster() if trial.is_idle]

    def _race_finalists(self) -> bool:
        """Race the finalists, whatever time is left. Whether their speed-ups can be compared now."""
        finalists = self._finalists()
        if len(finalists) <= 1:
            return False
        self.tell(f"final race of {len(finalists)} candidates")
        with self._pool.quiet():
            everyone = [self._pool.default, *finalists]
            self._raced = self._rounds.race(everyone, self._left(), race.LEAST_ROUNDS)
        return self._raced.issuperset(self._finalists())

    def _confirm(self, trial: Trial) -> bool:
        """Race a candidate against `default` with fresh rounds. Whether it is faster."""
        self.tell(f"confirming {trial.name}")
        with self._pool.quiet():
            self._confirmation = self._rounds.confirm(trial)
        if self._confirmation is None or not race.is_faster(self._confirmation, self._rounds.noise):
            return False
        self._winner, trial.outcome = trial.name, TuneOutcome.WINNER
        return True

    def _describe(self) -> None:
        """Find out what a replay needs, and measure memory."""
        pool = self._pool
        winner = pool.trials[self._winner]
        with pool.quiet():
            for trial in dict.fromkeys([*pool.baselines, winner]):
                if self._budget.finish_left() > 0:
                    pool.order(trial, Order.WEIGH)
        has_time = self._budget.finish_left() > 0
        if has_time and self.plan.accuracy and pool.has_reference and not pool.default.judged:
            pool.default.judged = True
            pool.order(pool.default, Order.JUDGE, **pool.compared, varies=pool.varies)
        said = pool.order(winner, Order.REPLAY, artifacts="")
        self._result = self.result_of(self._summary(winner), said) if said is not None else None
        for trial in pool.baselines:
            pool.refresh(trial)
        self._known()

    def _time_eager_again(self) -> None:
        """Time eager and `default` after the decision: a machine may have slowed down since the first rounds.

        Only if the budget has time for it.
        """
        pool, rounds = self._pool, self._rounds
        trials = [trial for trial in pool.baselines if trial.is_idle]
        if len(trials) <= 1 or self._budget.left(2 * rounds.seconds(trials, _EAGERS_ROUNDS)) <= 0:
            return
        self.tell("timing eager again")
        with pool.quiet():
            rounds.take_turns(trials, _EAGERS_ROUNDS)
        for trial in trials:
            pool.refresh(trial)
        default, eager = (rounds.median(name, rounds.stage) for name in (DEFAULT, EAGER))
        if self._result is not None and default and eager:
            self._result = replace(self._result, eager_us=self._result.default_us * eager / default)
        self._known()

    def _profile_winner(self) -> None:
        """Measure the division of a call of the winner. Nothing is timed in its process afterwards."""
        pool = self._pool
        winner = pool.trials[self._winner]
        if winner is pool.default:
            return
        if self._budget.left(self._profile_seconds - self._modes_seconds) > 0:
            with pool.quiet():
                pool.order(winner, Order.PROFILE)
            pool.order(winner, Order.READ, look=False)
        pool.order(winner, Order.FINISH)

    def _save_artifacts(self) -> None:
        """Save the caches of the winner's compile, which takes one more compile."""
        self.tell("saving the compiled code of the winner")
        winner = self._pool.trials[self._winner]
        said = self._pool.order(winner, Order.REPLAY, artifacts=self.plan.artifacts)
        if said is not None:
            self._result = self.result_of(self._summary(winner), said)

    def _summary(self, trial: Trial) -> TunedResult:
        """The numbers of a result; those of the confirming race where `trial` won it."""
        confirmed = self._confirmation if trial is not self._pool.default else None
        made = summary(trial, self._pool, confirmed)
        return replace(made, numerics=self.plan.numerics, when=self._when)
