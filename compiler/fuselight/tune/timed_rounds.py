"""The timed rounds of a search: every round of every configuration, in races and in turns.

Invariant: nothing else of the search runs during a round: callers are within `TrialPool.quiet`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fuselight.measure import steady_state
from fuselight.measure.orders import Order
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import Confirmation, RaceSample
from fuselight.tune import race
from fuselight.tune.pool import DEFAULT, TrialPool
from fuselight.tune.trial import Trial

_CUDA_GRAPHS = "triton.cudagraphs"
_ROUND = 0.05
"""The part of `TunePlan.seconds` that a round of a race takes."""
_OTHER = 2.0
"""The factor by which a call takes longer, or less long, where the next round gets another number of calls: on a
machine that is overloaded since the first calls, a round would take as many times as long."""


@dataclass
class TimedRounds:
    """Times the trials of a pool."""

    plan: TunePlan
    pool: TrialPool
    noise: float
    """The least relative difference that counts."""
    samples: list[RaceSample] = field(default_factory=list)
    stage: int = 0
    """The last stage of the races so far."""
    _levels: dict[Trial, float] = field(default_factory=dict)
    """Times of candidates with CUDA graphs, in one unit for all races."""
    _default_levels: list[float] = field(default_factory=list)
    """The times of `default` in each of these races, in the same unit."""

    def warm(self, trial: Trial) -> bool:
        """Make calls until the time is steady. Whether the trial can be timed."""
        answer = self.pool.order(trial, Order.WARM)
        if answer is not None:
            trial.us = float(answer["us"])
        return answer is not None

    def take_turns(self, trials: Sequence[Trial], count: int | None = None) -> None:
        """Time the same number of rounds of each trial, in turns: `count`, or as many as a benchmark times."""
        self.stage += 1
        longest = max((trial.us for trial in trials), default=0.0)
        if count is None:
            count = steady_state.rounds_of(longest, seconds=self.plan.seconds, rounds=self.plan.rounds)
        names = {trial.name: trial for trial in trials}
        for name in steady_state.turns(list(names), dict.fromkeys(names, count)):
            us = self._round(names[name], self._calls(names[name].us))
            if us is not None:
                names[name].stage = self.stage
                self._sample(self.stage, name, us)

    def race(self, trials: Sequence[Trial], seconds: float, least: int = 1) -> set[Trial]:
        """Race trials; stores each one's speed-up over `default`, which takes part.

        It lasts up to `seconds`, and at least `least` rounds. Returns the trials whose speed-ups can be compared now.
        A race that the deadline cuts off after a round or two changes nothing for those that raced before.
        """
        first, clock = self.stage, self.pool.budget.clock
        entrants = [_Timed(self, trial) for trial in sorted(trials, key=complexity)]
        plan = race.RoundPlan(
            self._calls,
            clock,
            clock() + max(0.0, seconds),
            least,
            lambda stage, name, us: self._sample(first + stage, name, us),
        )
        outcome = race.halve(entrants, plan, noise=self.noise)
        standings = {race_standing.entrant.name: race_standing for race_standing in outcome.standings}
        default = standings[DEFAULT]
        is_cut_off = (
            outcome.rounds < race.LEAST_ROUNDS
        )  # one disturbed round must not outweigh an earlier race
        comparable = set()
        for trial in trials:
            standing = standings[trial.name]
            self.stage = max(self.stage, first + standing.stage)
            if standing.failed or default.failed or (is_cut_off and trial.gain is not None):
                continue
            trial.gain = default.ratio / standing.ratio
            trial.stage = first + standing.stage
            trial.is_eliminated = standing.eliminated
            comparable.add(trial)
        if not is_cut_off:
            self._take_levels({trial: standings[trial.name].ratio for trial in comparable})
        return comparable

    def _take_levels(self, ratios: Mapping[Trial, float]) -> None:
        """Learn from a race the times of candidates with CUDA graphs, relative to those of earlier races.

        The host limits `default`: its time may differ by half from race to race, and theirs do not.
        """
        graphs = [trial for trial in ratios if _has_cuda_graphs(trial)]
        if not graphs or self.pool.default not in ratios:
            return
        default = ratios[self.pool.default]
        units = [self._levels[trial] / ratios[trial] for trial in graphs if trial in self._levels]
        unit = statistics.median(units or [self._default_level / default])
        self._levels.update((trial, unit * ratios[trial]) for trial in graphs)
        self._default_levels.append(unit * default)

    @property
    def _default_level(self) -> float:
        return statistics.median(self._default_levels or [1.0])

    def speed_up(self, trial: Trial) -> float | None:
        """The speed-up over `default` for comparing trials of different races; None if it was in no race."""
        if trial not in self._levels:
            return trial.gain
        return self._default_level / self._levels[trial]

    def spread(self, trial: Trial) -> float:
        """How far the lower quartile of a trial's rounds in its last stage is above the least of them, relative to it.

        Races compare lower quartiles: what disturbs rounds only makes them longer.
        """
        rounds = [
            sample.us for sample in self.samples if sample.name == trial.name and sample.stage == trial.stage
        ]
        if len(rounds) <= 1:
            return 0.0
        low, _, _ = steady_state.quartiles(rounds)
        return (low - min(rounds)) / min(rounds) if min(rounds) else 0.0

    def median(self, name: str, stage: int) -> float | None:
        """The median of a trial's rounds in a stage, microseconds; None without any."""
        rounds = [sample.us for sample in self.samples if sample.name == name and sample.stage == stage]
        return statistics.median(rounds) if rounds else None

    def confirm(self, trial: Trial) -> Confirmation | None:
        """Race a trial against `default` with fresh rounds; None if one of them failed."""
        default, budget, seconds = self.pool.default, self.pool.budget, self.plan.seconds
        rounds = steady_state.rounds_of(max(trial.us, default.us), seconds=seconds, rounds=self.plan.rounds)
        plan = race.RoundPlan(
            lambda us: steady_state.calls_of_round(us, seconds=seconds, rounds=rounds),
            budget.clock,
            budget.clock() + max(0.0, budget.left()),
            sample=self._sample,
        )
        self.stage += 1
        confirmation = race.confirm(
            _Timed(self, trial), _Timed(self, default), plan, rounds=rounds, stage=self.stage
        )
        if confirmation is not None:
            trial.stage = default.stage = self.stage
        return confirmation

    def seconds(self, trials: Sequence[Trial], count: int) -> float:
        """How long `count` rounds of each trial take."""
        return count * sum(self._calls(trial.us) * trial.us for trial in trials) / 1e6

    def _sample(self, stage: int, name: str, us: float) -> None:
        self.samples.append(RaceSample(self.pool.budget.elapsed, stage, name, us))

    def _calls(self, us: float) -> int:
        return steady_state.calls_of_round(us, seconds=self.plan.seconds * _ROUND, rounds=1)

    def _round(self, trial: Trial, calls: int) -> float | None:
        """The median of a round, microseconds; None if the trial failed."""
        answer = self.pool.order(trial, Order.SAMPLE, calls=calls)
        if answer is None:
            return None
        us = float(answer["us"])
        # By half at most: after one fast round the next may be slow again, and would take long with many calls.
        least, most = trial.us / _OTHER, trial.us * _OTHER
        if not least <= us <= most:
            trial.us = max(us, least)
        return us


@dataclass
class _Timed:
    """A trial as it takes part in a race (race.Entrant)."""

    rounds: TimedRounds
    trial: Trial

    @property
    def name(self) -> str:
        return self.trial.name

    @property
    def us(self) -> float:
        return self.trial.us

    def round(self, calls: int, /) -> float | None:
        return self.rounds._round(self.trial, calls)  # noqa: SLF001 - of this module


def _has_cuda_graphs(trial: Trial) -> bool:
    return bool(parse_configuration(trial.name).options.get(_CUDA_GRAPHS))


def complexity(trial: Trial) -> tuple[int, int]:
    """How much a trial changes: the simplest is preferred where times do not differ."""
    if trial.knobs is None:
        return (1, len(trial.name))
    return (len(trial.knobs), len(trial.name))
