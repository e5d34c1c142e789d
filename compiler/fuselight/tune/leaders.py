"""Which candidates of a search lead, and which cannot win any more.

Invariant: speed-ups of different races are not compared, because `default` drifts; `raced` has the last race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuselight.shared.report import TuneOutcome
from fuselight.tune.context import SearchContext
from fuselight.tune.timed_rounds import complexity
from fuselight.tune.trial import Trial

_MAX_NOISE = 0.1
_FINALISTS = 3
"""Candidates that stay alive between races, besides `default`."""


@dataclass
class Leaders:
    """Ranks the candidates by their races."""

    context: SearchContext
    least_noise: float
    """The least difference that counts, whatever the spread of `default`'s rounds."""
    default_noise: float = 0.0
    """The least relative difference from `default` that counts; `TimedRounds.noise` is that between candidates."""
    raced: set[Trial] = field(default_factory=set)
    """The candidates of the last race."""

    def learn_noise(self) -> None:
        """Take the noise from the spread of `default`."""
        row = self.context.pool.default.row
        timing = row.device or row.wall
        spread = timing.spread if timing is not None else 0.0
        self.default_noise = min(_MAX_NOISE, max(self.context.rounds.noise, spread))

    def race(self, trials: Sequence[Trial], least: int = 1) -> None:
        """Race trials with `default` while there is time, at least `least` rounds."""
        context = self.context
        everyone = [context.pool.default, *trials]
        self.raced = context.rounds.race(everyone, context.seconds_left(), least)

    def measure_noise(self) -> None:
        """Candidates that keep the device busy vary less than `default`, which the host may limit."""
        best = self.best()
        if best is not None:
            spread = self.context.rounds.spread(best)
            self.context.rounds.noise = min(self.default_noise, max(self.least_noise, spread))

    def retire_losers(self) -> None:
        """End candidates that cannot win any more, because they hold memory.

        One that is slower than an unverified candidate may still win. So may one that missed this race because its
        results are being compared: `default` may have been faster in its last race.
        """
        contenders, noise = self.context.pool.contenders, self.context.rounds.noise
        verified = [
            trial
            for trial in contenders
            if trial in self.raced and (trial.is_verified or not self.context.plan.accuracy)
        ]
        least = (verified[0].gain or 0.0) * (1 - 2 * noise) if verified else 0.0
        for place, trial in enumerate(contenders):
            is_slow = trial in self.raced and (trial.gain or 0.0) < max(least, 1 - self.default_noise)
            if place >= _FINALISTS or is_slow:
                self.retire(trial)

    def retire(self, trial: Trial) -> None:
        """End a candidate that is no winner."""
        self.context.pool.retire(trial, TuneOutcome.ELIMINATED if trial.is_eliminated else TuneOutcome.SLOWER)

    def faster(self) -> list[Trial]:
        """Candidates that were faster than `default` beyond the noise, the fastest first."""
        return [
            trial for trial in self.context.pool.contenders if (trial.gain or 0.0) > 1 + self.default_noise
        ]

    def best(self) -> Trial | None:
        """The candidate that leads: the simplest among those that differ by less than the noise."""
        leaders = [trial for trial in self.faster() if trial.is_accurate]
        least = (leaders[0].gain or 0.0) / (1 + self.context.rounds.noise) if leaders else 0.0
        return min((trial for trial in leaders if (trial.gain or 0.0) >= least), key=complexity, default=None)

    def so_far(self) -> str:
        """The best candidate so far, for a step's message; empty without one."""
        best = self.best()
        return f"; best so far {best.name}, {best.gain:.2f} x default" if best is not None else ""

    def finalists(self) -> list[Trial]:
        """The candidates that can take part in the final race."""
        return [trial for trial in self.faster() if trial.is_idle]
