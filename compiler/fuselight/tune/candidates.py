"""Which configurations a search compiles next, and whether there is time for them.

Invariant: nothing is tried twice, and nothing whose ceiling is below the noise or whose compile does not fit into the
rest of the budget, unless the user has named it. What was left out has an entry that says why.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.shared.configurations import AUTOTUNING_MODES, parse_configuration
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import Knob, KnobBound, MeasuredConfiguration, Skip, TuneOutcome
from fuselight.tune import ceilings
from fuselight.tune.knobs import (
    BY_NAME,
    CPU,
    GPU,
    KNOBS,
    KnobSetting,
    Trait,
    Unsuitable,
    configuration_of,
    unsuitable,
)
from fuselight.tune.pool import DEFAULT, TrialPool
from fuselight.tune.schedule import MAX_AUTOTUNES, CompileTime, Knobs, Planner, has_rival, named_knobs
from fuselight.tune.summary import median_us
from fuselight.tune.timed_rounds import TimedRounds
from fuselight.tune.trial import Trial

_SPECULATIVE: Mapping[str, tuple[Knobs, ...]] = {
    GPU: (
        Knobs({"cuda_graphs"}),
        Knobs({"cuda_graphs", "optimizer"}),
        Knobs({"cuda_graphs", "freezing"}),
        Knobs({"cuda_graphs", "freezing", "coordinate_descent"}),
        Knobs({"cuda_graphs", "freezing", "combo_kernels"}),
        Knobs({"cuda_graphs", "freezing", "gemm_autotune"}),
        Knobs({"cuda_graphs", "coordinate_descent"}),
        Knobs({"cuda_graphs", "combo_kernels"}),
        Knobs({"cuda_graphs", "gemm_autotune"}),
    ),
    CPU: (Knobs({"freezing"}), Knobs({"cpp_wrapper"})),
}
"""What is compiled beside `default`, before its profile says which knobs can help, by device. What time kernels are
the first that are suitable, as many as may run at once."""
_LEAST_FOR_AUTOTUNING = 100.0
"""Seconds of budget below which no compile that times kernels starts before the profile is known. On an H100 with 16
cores a compile that times all multiplications takes 56 to more than 90 s, and half of the
cores."""
_FIXED_MODULES = BY_NAME["fixed_modules"]
"""Costs little compile time and makes no call slower: where it is allowed, every speculative set has it."""
_SYMBOL = re.compile(r"[a-z]+\d+(?=[^\[]*\])")
"""A symbolic size in the text of an input: `f32[s0, 64]`."""
_HOPE = 0.6
"""A compile starts if this part of its predicted time is left: at worst the budget ends it. One that times kernels
takes more cores from the others, and needs all of its predicted time."""
_SLOWEST_MODE = AUTOTUNING_MODES[0]
_TIMED_ALL = 4.0
"""What timing all kernels of all multiplications adds to a compile, in compiles of `default`."""
_LAST = 4
"""Candidates by whose compiles the duration of the next one is predicted."""


@dataclass
class Candidates:
    """What is tried, in which order."""

    plan: TunePlan
    device: str
    """`cuda` or `cpu`."""
    options: Mapping[str, Any]
    """Inductor's options of this torch, with their values."""
    pool: TrialPool
    rounds: TimedRounds
    jobs: int
    """Compiles that run side by side."""
    best: Callable[[], Trial | None]
    """The candidate that leads."""
    seconds_left: Callable[[], float]
    """Seconds until the decision must begin."""
    knobs: tuple[Knob, ...] = ()
    """What each knob could gain on top of `default`, once that is measured."""
    compile_time: CompileTime | None = None
    """That of `default`, once it is measured."""
    _noise: float = 0.0
    """The least relative difference from `default` that counts."""
    _planner: Planner | None = None
    """Known once `default` is measured."""
    _ranked_for: tuple[str, float | None] | None = None
    """The candidate, and its gain, on top of which the planner ranks knobs; None: `default`."""
    _refused: set[Knobs] = field(default_factory=set)
    """Sets of knobs for which there was no time."""

    def __post_init__(self) -> None:
        plan = self.plan
        self._wanted = list(dict.fromkeys(plan.candidates))
        self._speculative = [] if plan.only else list(_SPECULATIVE[self.device])
        if plan.fixed and not plan.only:  # a break that goes is the largest gain
            graphs = Knobs({"cuda_graphs"}) if self.device == GPU else Knobs()
            self._speculative.insert(0, Knobs({"fixes"}) | graphs)

    @property
    def knows_default(self) -> bool:
        """Whether `default` is measured, so that ceilings are known."""
        return self._planner is not None

    def start_only_named(self) -> None:
        """Start nothing more before `default` is measured, except what the user has named."""
        self._speculative.clear()

    def stop(self) -> None:
        """Start nothing more, and end what is still being compiled."""
        self._wanted.clear()
        self._speculative.clear()
        for trial in self.pool.compiling:
            if trial is not self.pool.default:
                trial.end(TuneOutcome.UNFINISHED)

    def learn(self, reply: Mapping[str, Any], noise: float) -> None:
        """Take in the measurements of `default`: what knobs could gain, and how long a compile takes.

        `reply` is what a replay of it needs; `noise` the least relative difference from it that counts. Candidates that
        were started before and cannot help are ended, and so are those that time kernels and cannot end in time: no
        other one that times kernels could start meanwhile.
        """
        pool, default, self._noise = self.pool, self.pool.default, noise
        if any(_SYMBOL.search(size) for graph in reply["graphs"] for size in graph.get("inputs", ())):
            pool.traits |= {Trait.SYMBOLIC_SIZES}
        compiled = (default.row.first_us or 0.0) / 1e6
        before = (default.ready_s or 0.0) - default.started_s - compiled
        self.compile_time = CompileTime(max(0.0, before), compiled)
        if not self.plan.only:
            expected = {knob.name: knob for knob in self._ceilings(None)}
            self.knobs = tuple(
                replace(knob, skipped=expected[knob.name].skipped, detail=expected[knob.name].detail)
                for knob in ceilings.ceilings(default.row, noise=0.0, unsuitable=self._unsuitable)
            )
        default.gain = 1.0
        promising = self._promising(None)
        self._planner = Planner(promising, self.rounds.noise)
        for trial in pool.alive:
            is_wanted = trial.name in self.plan.candidates
            if trial.knobs and not is_wanted and not trial.knobs <= {setting.name for setting in promising}:
                trial.skipped = self._reason_to_skip(trial.knobs)
                trial.end(TuneOutcome.SKIPPED)
            elif trial in pool.compiling and not is_wanted and self._ends_too_late(trial):
                trial.skipped = Skip.BUDGET
                trial.end(TuneOutcome.SKIPPED)
        if self._may_gain_from_mode():
            self._wanted.append(_SLOWEST_MODE)

    def _may_gain_from_mode(self) -> bool:
        """Whether torch's own mode that times all kernels ends within the budget and could gain.

        No set of knobs times as much: they leave out what is expected to gain little for its time.
        """
        if self.device != GPU or self.plan.only or self.compile_time is None:
            return False
        if _SLOWEST_MODE in {*self.plan.modes, *self.plan.candidates, *self.pool.trials}:
            return False  # it is measured anyway
        could_gain = any(knob.skipped is None and BY_NAME[knob.name].autotunes for knob in self.knobs)
        predicted = self.compile_time.of(()) + self.compile_time.compile * _added_by_timing(_SLOWEST_MODE)
        return could_gain and predicted <= self.seconds_left()

    def reported(self, winner: str, *, finished: bool) -> tuple[Knob, ...]:
        """The knobs as the report has them; `finished`: those that were not tried say so, by what has won."""
        untried = self._untried() if finished else set[str]()
        trial = self.pool.trials.get(winner)
        chosen = (trial.knobs if trial is not None else None) or Knobs()
        return tuple(self._reported(knob, knob.name in untried, chosen) for knob in self.knobs)

    def shortage(self) -> str:
        """A sentence about the candidates for which the budget was too short; empty if there are none."""
        skipped = sum(candidate.skipped is Skip.BUDGET for candidate in self.pool.skipped.values())
        if not skipped or self.compile_time is None:
            return ""
        one_compile = max(self.compile_time.of(()), 1)
        what = "1 candidate was" if skipped == 1 else f"{skipped} candidates were"
        why = f"the budget of {self.plan.budget_seconds:.0f} s left no time, and a compile takes {one_compile:.0f} s"
        return f"{what} not compiled: {why}"

    def start_more(self) -> None:
        """Start candidates while there is room for their compiles and time for them."""
        while len(self.pool.compiling) < self.jobs:
            wanted = next((text for text in self._wanted if self._may_start(named_knobs(text), text)), None)
            if wanted is not None:
                self._wanted.remove(wanted)
                knobs_named = named_knobs(wanted)
                if wanted not in self.pool.trials and self._fits(wanted, knobs_named):
                    self.pool.start(wanted, knobs_named or None)
                continue
            knobs = self._next_knobs()
            if knobs is None:
                return
            name = configuration_of(_settings(knobs))
            if (
                name in self.pool.trials
                or not self._fits(name, knobs)
                or self.pool.start(name, knobs) is None
            ):
                self._refused.add(knobs)

    def _next_knobs(self) -> Knobs | None:
        """The next set of knobs to compile, None if there is none now.

        Before `default` is measured, nothing is known of this model, so a fixed list is compiled. Sets that time
        kernels start that early only with a large budget: they took half of the cores, and in 20 searches of 60 s none
        was ever measured.
        """
        if self._planner is not None:
            best = self.best()
            expected = self._expected_base() if best is None else Knobs()
            base = best.knobs if best is not None and best.knobs is not None else expected
            ranked_for = (best.name, best.gain) if best is not None else None
            if self._ranked_for != ranked_for:
                self._planner = Planner(self._promising(best), self.rounds.noise)
                self._ranked_for = ranked_for
            return self._planner.next(
                base,
                self._gains(),
                self._pending(),
                lambda knobs: knobs >= expected and self._may_start(knobs),
            )
        if self.plan.work is None and not any(trial.ready_s for trial in self.pool.trials.values()):
            return None  # what a call does is not known yet
        while self._speculative:
            knobs = self._speculative.pop(0)
            if _autotunes(knobs) and (
                self.plan.budget_seconds < _LEAST_FOR_AUTOTUNING or not self._may_start(knobs)
            ):
                continue
            if not any(self._unsuitable(setting) for setting in _settings(knobs)):
                return knobs if self._unsuitable(_FIXED_MODULES) else knobs | {_FIXED_MODULES.name}
        return None

    def _expected_base(self) -> Knobs:
        """The set of structural knobs that is expected to win, while it is being compiled and nothing has won yet."""
        ceiling = {knob.name: knob for knob in self.knobs if knob.skipped is None}
        promises = {
            trial.knobs: math.prod(ceilings.promise(BY_NAME[name], ceiling[name]) for name in trial.knobs)
            for trial in self.pool.trials.values()
            if trial.knobs and trial.is_alive and trial.gain is None and trial.knobs <= set(ceiling)
            if all(BY_NAME[name].structural for name in trial.knobs)
        }
        base = max(promises, key=lambda promise: (promises[promise], -len(promise)), default=Knobs())
        return base if promises.get(base, 1.0) > 1 + self._noise else Knobs()

    def _may_start(self, knobs: Knobs, name: str = "") -> bool:
        """Whether a compile may start now: few that time kernels run at the same time."""
        running = [
            trial for trial in self.pool.compiling if _times_kernels(trial.knobs or Knobs(), trial.name)
        ]
        return not _times_kernels(knobs, name) or len(running) < MAX_AUTOTUNES[self.device]

    def _untimed(self, knobs: Knobs) -> Knobs:
        """The knobs without those whose kernels an earlier candidate has timed: its timings are used again."""
        earlier = [
            trial.knobs for trial in self.pool.trials.values() if trial.knobs and trial.ready_s is not None
        ]
        return knobs - {
            name
            for texts in earlier
            if texts < knobs
            for name in texts
            if _finds_timings(name, knobs - texts)
        }

    def _fits(self, name: str, knobs: Knobs) -> bool:
        """Whether there is time for a compile; if not, its row says so."""
        if self.compile_time is None:
            return True
        predicted = self.compile_time.of(_settings(self._untimed(knobs)))
        if not knobs:
            predicted += self.compile_time.compile * _added_by_timing(name)
        if not _times_kernels(knobs, name):  # which compiles kernels that no earlier candidate has
            predicted *= _HOPE * self._compile_ratio(self.compile_time)
        if predicted <= self.seconds_left():
            return True
        self.pool.skip(name, knobs, Skip.BUDGET)
        return False

    def _ends_too_late(self, trial: Trial) -> bool:
        """Whether a compile that times kernels is not expected to end within the budget."""
        knobs = trial.knobs or Knobs()
        if self.compile_time is None or not _autotunes(knobs):
            return False
        so_far = self.pool.budget.elapsed - trial.started_s
        return self.compile_time.of(_settings(knobs)) - so_far > self.seconds_left()

    def _compile_ratio(self, expected: CompileTime) -> float:
        """The time that the last candidates took, per predicted time: later ones find kernels in Triton's cache."""
        ready = [
            (trial.ready_s, (trial.ready_s - trial.started_s) / expected.of(_settings(trial.knobs)))
            for trial in self.pool.trials.values()
            if trial.ready_s is not None and trial.knobs and not _autotunes(trial.knobs)
        ]
        last = [ratio for _, ratio in sorted(ready)[-_LAST:]]
        return min(1.0, statistics.median(last)) if last else 1.0

    def _unsuitable(self, setting: KnobSetting) -> Unsuitable | None:
        default = self.pool.trials.get(DEFAULT)
        row = default.row if default is not None else MeasuredConfiguration(DEFAULT)
        return unsuitable(
            setting,
            work=self.pool.work,
            device=self.device,
            numerics=self.plan.numerics,
            fixed_modules=self.plan.fixed_modules,
            options=self.options,
            has=self.pool.traits | ceilings.traits(row) | ({Trait.FIXES} if self.plan.fixed else set()),
        )

    def _gains(self) -> dict[Knobs, float]:
        """The speed-up over `default` of each set of knobs that was tried; 0 for one that failed or is wrong."""
        gains = {}
        for trial in self.pool.trials.values():
            if trial.knobs and not (trial.is_alive and trial.gain is None):
                gains[trial.knobs] = (self.rounds.speed_up(trial) or 0.0) if trial.is_accurate else 0.0
        return gains

    def _pending(self) -> set[Knobs]:
        """Sets of knobs that are being compiled, or for which there is no time."""
        trials = self.pool.trials.values()
        return self._refused | {
            trial.knobs for trial in trials if trial.knobs and trial.is_alive and trial.gain is None
        }

    def _untried(self) -> set[str]:
        """Names of the knobs that no measured or failed candidate changes."""
        if self._planner is None:
            return set()
        tried = {
            trial.knobs
            for trial in self.pool.trials.values()
            if trial.knobs and (trial.gain is not None or trial.outcome is TuneOutcome.FAILED)
        }
        return {setting.name for setting in self._planner.untried({}, tried)}

    def _reported(self, knob: Knob, is_untried: bool, chosen: Knobs) -> Knob:  # noqa: FBT001 - a fact of the knob
        """A knob as the report has it: tried, or why it was not."""
        if knob.skipped is Skip.NOISE and any(
            knob.name in (trial.knobs or ()) and trial.outcome is not TuneOutcome.SKIPPED
            for trial in self.pool.trials.values()
        ):  # on a base that is faster than `default` it could gain more
            return replace(knob, skipped=None)
        if knob.skipped is None and is_untried and has_rival(knob.name, chosen):
            return replace(knob, skipped=Skip.EXCLUDED, detail="")
        if knob.skipped is None and is_untried:
            was_started = any(knob.name in (trial.knobs or ()) for trial in self.pool.trials.values())
            why = "its compile was not ready in time" if was_started else "no time was left for its compile"
            return replace(knob, skipped=Skip.BUDGET, detail=why)
        return knob

    def _ceilings(self, best: Trial | None) -> tuple[Knob, ...]:
        """What each knob could gain on top of the best candidate: its kernels take what those of `default` take.

        Without one: on top of `default` or, if that is more, of CUDA graphs, which leave only the kernels.
        """
        default, noise = self.pool.default, self.rounds.noise
        us, divided = median_us(default), ceilings.call_parts(default.row)
        if us is None or divided is None or (best is not None and not best.gain):
            return ceilings.ceilings(default.row, noise=noise, unsuitable=self._unsuitable)
        if best is not None:
            base_us = us / (best.gain or 1.0)
            knobs = ceilings.ceilings(default.row, noise=noise, us=base_us, unsuitable=self._unsuitable)
            has_graphs = "cuda_graphs" in (best.knobs or ())  # which leave no idle time for others to remove
            return tuple(
                replace(knob, skipped=Skip.NOISE) if has_graphs and knob.bound is KnobBound.IDLE else knob
                for knob in knobs
            )
        plain = ceilings.ceilings(default.row, noise=noise, unsuitable=self._unsuitable)
        kernels_us = us - divided.parts[KnobBound.IDLE]
        if kernels_us <= 0 or self._unsuitable(BY_NAME["cuda_graphs"]) is not None:
            return plain
        replayed = ceilings.ceilings(default.row, noise=noise, us=kernels_us, unsuitable=self._unsuitable)
        better = {knob.name: knob for knob in replayed if knob.skipped is None}
        return tuple(
            better.get(knob.name, knob) if knob.bound is not KnobBound.IDLE else knob for knob in plain
        )

    def _promising(self, best: Trial | None) -> tuple[KnobSetting, ...]:
        """The knobs to try on top of the best candidate: structure first, then by the gain per compile time to expect.

        What is expected to gain less than timings can show is tried last.
        """
        if self.plan.only:
            return ()
        tried = {knob.name: knob for knob in self._ceilings(best) if knob.skipped is None}

        def rank(setting: KnobSetting) -> tuple[bool, bool, float, int]:
            gain = ceilings.promise(setting, tried[setting.name]) - 1
            return (
                gain < self.rounds.noise / 2,
                not setting.structural,
                -gain / setting.compile_factor,
                setting.order,
            )

        return tuple(sorted((BY_NAME[name] for name in tried), key=rank))

    def _reason_to_skip(self, knobs: Knobs) -> Skip | None:
        """Why a set of knobs cannot win, by the first of them that cannot."""
        return next((knob.skipped for knob in self.knobs if knob.name in knobs and knob.skipped), None)


def _settings(knobs: Knobs) -> tuple[KnobSetting, ...]:
    return tuple(knob for knob in KNOBS if knob.name in knobs)


def _autotunes(knobs: Knobs) -> bool:
    """Whether a compile times kernels on the device."""
    return any(BY_NAME[name].autotunes for name in knobs)


def _added_by_timing(name: str) -> float:
    """What a configuration that is not made of knobs takes to time multiplications, in compiles of `default`."""
    configuration = parse_configuration(name)
    if not configuration.times_multiplications:
        return 0.0
    return BY_NAME["gemm_autotune"].compile_factor - 1 if configuration.longest else _TIMED_ALL


def _finds_timings(name: str, added: Knobs) -> bool:
    """Whether a knob finds what an earlier candidate with it has timed, although others were added to that."""
    knob, others = BY_NAME[name], [BY_NAME[text] for text in added]
    if knob.times_multiplications:
        return all(setting.keeps_multiplications for setting in others)
    return knob.tunes_launches and all(setting.keeps_launches for setting in others)


def _times_kernels(knobs: Knobs, name: str) -> bool:
    """The same for a configuration that is not made of knobs alone."""
    return _autotunes(knobs) if knobs or not name else parse_configuration(name).times_kernels
