"""The second part of a search: races the last candidates and confirms the fastest one against `default`.

Invariant: a winner other than `default` was faster in the confirming race, and its results are right as far as they can
be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuselight.shared.report import Confirmation, TuneOutcome
from fuselight.tune import race
from fuselight.tune.candidates import Candidates
from fuselight.tune.context import SearchContext
from fuselight.tune.leaders import Leaders
from fuselight.tune.pool import DEFAULT
from fuselight.tune.trial import Trial
from fuselight.tune.verification import ResultVerification


@dataclass
class Decision:
    """Finds the winner."""

    context: SearchContext
    candidates: Candidates
    leaders: Leaders
    verification: ResultVerification
    winner: str = field(default=DEFAULT, init=False)
    confirmation: Confirmation | None = field(default=None, init=False)

    def decide(self) -> None:
        """Race the last candidates, and confirm the fastest accurate one against `default`."""
        pool = self.context.pool
        self.candidates.stop()
        self._await_comparisons()
        if self.context.seconds_left() > 0:
            self._race_finalists()
        while (best := self.leaders.best()) is not None:
            if self.context.budget.finish_left() > 0 and self.verification.verify(best):
                if not self.leaders.raced.issuperset(self.leaders.finalists()) and self._race_finalists():
                    continue
                if self._confirm(best):
                    break
            if best.is_alive:
                pool.retire(best, TuneOutcome.UNCONFIRMED)
            if self.context.budget.left() <= 0:
                break
        for trial in pool.contenders:
            self.leaders.retire(trial)
        for trial in pool.compiled:
            trial.end(TuneOutcome.UNFINISHED)

    def _await_comparisons(self) -> None:
        """Wait for candidates whose results are being compared: they could not take part in the final race."""
        while (
            any(trial.asked for trial in self.leaders.faster())
            and self.context.budget.left(self.context.confirming_seconds) > 0
        ):
            self.context.pool.collect()

    def _race_finalists(self) -> bool:
        """Race the finalists, whatever time is left. Whether their speed-ups can be compared now."""
        finalists = self.leaders.finalists()
        if len(finalists) <= 1:
            return False
        self.context.tell(f"final race of {len(finalists)} candidates")
        with self.context.pool.quiet():
            self.leaders.race(finalists, race.LEAST_ROUNDS)
        return self.leaders.raced.issuperset(self.leaders.finalists())

    def _confirm(self, trial: Trial) -> bool:
        """Race a candidate against `default` with fresh rounds. Whether it is faster."""
        self.context.tell(f"confirming {trial.name}")
        with self.context.pool.quiet():
            self.confirmation = self.context.rounds.confirm(trial)
        if self.confirmation is None or not race.is_faster(self.confirmation, self.context.rounds.noise):
            return False
        self.winner, trial.outcome = trial.name, TuneOutcome.WINNER
        return True

    def revoke(self) -> None:
        """Decide for `default`, because the results of the winner differ."""
        self.context.pool.trials[self.winner].outcome = TuneOutcome.INACCURATE
        self.winner, self.confirmation = DEFAULT, None
