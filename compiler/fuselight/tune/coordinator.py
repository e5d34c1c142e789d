"""Coordinates a search: compiles candidates side by side, races them, and confirms the winner against `default`.

Invariant: the winner has passed the accuracy check and was faster than `default` in the confirming race; otherwise the
winner is `default`. `keep` receives the state after each step, so that a search that is ended early shows the best so
far.
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.configurations import EAGER
from fuselight.measure.accuracy import RANDOM
from fuselight.protocol import TunePlan
from fuselight.report import (
    Confirmation,
    Knob,
    KnobBound,
    Skip,
    Tuned,
    TunedResult,
    TuneOutcome,
    Work,
)
from fuselight.tune import ceilings, race
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
from fuselight.tune.modes import measure_modes
from fuselight.tune.pool import DEFAULT, TrialPool
from fuselight.tune.schedule import MOST_AUTOTUNES, Budget, CompileTime, Knobs, Planner, named_knobs
from fuselight.tune.summary import accuracy_words, median_us, summary
from fuselight.tune.timed_rounds import TimedRounds, complexity
from fuselight.tune.trial import SearchProcess, Trial
from fuselight.tune.turns import Turns

_SPECULATIVE: Mapping[str, tuple[Knobs, ...]] = {
    GPU: (
        Knobs({"cuda_graphs"}),
        Knobs({"cuda_graphs", "optimizer"}),
        Knobs({"cuda_graphs", "gemm_autotune"}),
        Knobs({"cuda_graphs", "combo_kernels"}),
        Knobs({"cuda_graphs", "freezing"}),
    ),
    CPU: (Knobs({"freezing"}), Knobs({"cpp_wrapper"})),
}
"""What is compiled beside `default`, before its profile says which knobs can help, by device."""
_MAYBE = frozenset({Trait.FLOAT32, Trait.CONVOLUTIONS, Trait.ATTENTION})
"""What a target may have while its kernels are not known."""
_FIXED_MODULES = BY_NAME["fixed_modules"]
"""Costs no compile time and makes nothing slower: where it is allowed, every speculative set has it."""
_SYMBOL = re.compile(r"[a-z]+\d+(?=[^\[]*\])")
"""A symbolic size in the text of an input: `f32[s0, 64]`."""
_NOISE = {GPU: 0.01, CPU: 0.02}
"""The least difference that counts, whatever the spread of `default`'s rounds."""
_MOST_NOISE = 0.1
_HOPE = 0.6
"""A compile starts if this part of its predicted time is left: at worst the budget ends it."""
_LATE = 0.2
"""The part of the budget after which `default` is late, and other compiles but the first wait for it."""
_LAST = 4
"""Candidates by whose compiles the duration of the next one is predicted."""
_FINALISTS = 3
"""Candidates that stay alive between races, besides `default`."""
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
    turns: Turns = field(default_factory=Turns)
    """With other searches on this machine."""
    clock: Callable[[], float] = time.perf_counter
    _knobs: tuple[Knob, ...] = ()
    _planner: Planner | None = None
    """Known once `default` is measured."""
    _ranked_for: tuple[str, float | None] | None = None
    """The candidate, and its gain, on top of which the planner ranks knobs; None: `default`."""
    _compile: CompileTime | None = None
    _default_noise: float = 0.0
    """The least relative difference from `default` that counts; `TimedRounds.noise` is that between candidates."""
    _refused: set[Knobs] = field(default_factory=set)
    """Sets of knobs for which there was no time."""
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
        self._budget = Budget(self.clock, self.clock(), plan.budget_seconds)
        self._pool = TrialPool(
            self.start,
            self.wait,
            self._budget,
            plan.limit_seconds,
            plan.work or Work.INFERENCE,
            self._known,
            self.turns,
        )
        self._rounds = TimedRounds(plan, self._pool, _NOISE[self.device])
        self._wanted = list(dict.fromkeys(plan.candidates))
        self._speculative = [] if plan.only else list(_SPECULATIVE[self.device])
        if plan.fixed and not plan.only:  # a break that goes is the largest gain
            graphs = Knobs({"cuda_graphs"}) if self.device == GPU else Knobs()
            self._speculative.insert(0, Knobs({"fixes"}) | graphs)

    def run(self) -> Tuned:
        """Search. A failure is stored in the row of its configuration."""
        try:
            if self.plan.accuracy:
                self._pool.start_reference()
            self._pool.start(EAGER)
            self._pool.start(DEFAULT, Knobs())
            self._explore()
            self._note_skipped()
            if self._planner is not None:
                self._decide()
                self._describe()
                if (
                    not self.plan.modes
                ):  # which are to be timed against a winner that no profiler has slowed down
                    self._profile_winner()
            self._seconds = self._budget.elapsed
            if self.plan.artifacts and self._result is not None:
                self._save_artifacts()
            if self.plan.modes and self._planner is not None:
                began, winner = self.clock(), self._pool.trials[self._winner]
                measure_modes(
                    self._pool,
                    self._rounds,
                    winner,
                    self.plan.modes,
                    jobs=self.jobs,
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
        untried = self._untried() if finished else set[str]()
        return Tuned(
            work=pool.work,
            machine=pool.machine,
            numerics=self.plan.numerics,
            budget_seconds=self.plan.budget_seconds,
            knobs=tuple(self._reported(knob, knob.name in untried) for knob in self._knobs),
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

    def _reported(self, knob: Knob, is_untried: bool) -> Knob:  # noqa: FBT001 - a fact of the knob
        """A knob as the report has it: tried, or why it was not."""
        if knob.skipped is Skip.NOISE and any(
            knob.name in (trial.knobs or ()) and trial.outcome is not TuneOutcome.SKIPPED
            for trial in self._pool.trials.values()
        ):  # on a base that is faster than `default` it could gain more
            return replace(knob, skipped=None)
        if knob.skipped is None and is_untried:
            return replace(knob, skipped=Skip.BUDGET, detail="no time was left for its compile")
        return knob

    def _known(self) -> None:
        self.keep(self.tuned())

    # Which candidates to compile

    def _explore(self) -> None:
        """Compile and race candidates until none is left that could help, or the budget ends."""
        pool = self._pool
        while not self._is_hopeless():
            self._start_more()
            if not pool.working and not pool.compiled:
                return
            if self._planner is None and self._budget.left() <= 0:
                self._end_candidates()  # they would only slow down `default`
            if self._planner is not None and self._left() <= 0:
                self._notes["the budget ended before every candidate was measured"] = None
                return
            self._put_default_first()
            pool.collect()
            if self._planner is None and self._baseline_is_ready():
                pool.release()
                self._measure_baseline()
            if self._planner is not None and pool.compiled:
                self._race()
            self._verify_leaders()

    def _put_default_first(self) -> None:
        """Let other compiles wait while `default` is late: until it is measured, nothing can be compared."""
        if self._planner is None and self._budget.elapsed > _LATE * self.plan.budget_seconds:
            others = [trial for trial in self._pool.compiling if trial.name != DEFAULT]
            self._pool.hold(others[1:])  # the first is the most likely winner

    def _note_skipped(self) -> None:
        """Say that the budget was too short, if it was."""
        skipped = sum(one.skipped is Skip.BUDGET for one in self._pool.skipped.values())
        if not skipped or self._compile is None:
            return
        one_compile = self._compile.of(())
        what = "1 candidate was" if skipped == 1 else f"{skipped} candidates were"
        why = f"the budget of {self.plan.budget_seconds:g} s left no time, and a compile takes {one_compile:.0f} s"
        self._notes[f"{what} not compiled: {why}"] = None

    def _left(self) -> float:
        """Seconds until the decision must begin."""
        us = max((trial.us for trial in self._pool.trials.values()), default=0.0)
        confirming = 2 * max(self.plan.seconds, race.LEAST_ROUNDS * us / 1e6)
        return self._budget.left(confirming + min(_RESERVED, _RESERVED_PART * self.plan.budget_seconds))

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
        self._notes["`default` could not be measured, so there is nothing to compare with"] = None
        return True

    def _retry_default(self, others: Sequence[Trial]) -> None:
        """Start `default` again without the others, which left too little memory for it."""
        for trial in others:
            trial.end(TuneOutcome.UNFINISHED)
        self._speculative.clear()
        self._retried, self.jobs = True, 1
        self._notes["there was not enough memory for two compiles side by side"] = None
        self._pool.start(DEFAULT, Knobs())

    def _start_more(self) -> None:
        """Start candidates while there is room for their compiles and time for them."""
        while len(self._pool.compiling) < self.jobs:
            if self._wanted:
                name = self._wanted.pop(0)
                knobs_named = named_knobs(name)
                if name not in self._pool.trials and self._fits(name, knobs_named):
                    self._pool.start(name, knobs_named or None)
                continue
            knobs = self._next_knobs()
            if knobs is None:
                return
            name = configuration_of(_settings(knobs))
            if (
                name in self._pool.trials
                or not self._fits(name, knobs)
                or self._pool.start(name, knobs) is None
            ):
                self._refused.add(knobs)

    def _next_knobs(self) -> Knobs | None:
        """The next set of knobs to compile, None if there is none now."""
        if self._planner is not None:
            best = self._best()
            expected = self._expected_base() if best is None else Knobs()
            base = best.knobs if best is not None and best.knobs is not None else expected
            ranked_for = (best.name, best.gain) if best is not None else None
            if self._ranked_for != ranked_for:
                self._planner = Planner(self._promising(best), self._rounds.noise)
                self._ranked_for = ranked_for
            return self._planner.next(
                base,
                self._gains(),
                self._pending(),
                lambda knobs: knobs >= expected and self._may_start(knobs),
            )
        if self.plan.work is None and not any(trial.ready_s for trial in self._pool.trials.values()):
            return None  # what a call does is not known yet
        while self._speculative:
            knobs = self._speculative.pop(0)
            if not any(self._unsuitable(setting) for setting in _settings(knobs)):
                return knobs if self._unsuitable(_FIXED_MODULES) else knobs | {_FIXED_MODULES.name}
        return None

    def _expected_base(self) -> Knobs:
        """The set of structural knobs that is expected to win, while it is being compiled and nothing has won yet."""
        ceiling = {knob.name: knob for knob in self._knobs if knob.skipped is None}
        promises = {
            trial.knobs: math.prod(ceilings.promise(BY_NAME[name], ceiling[name]) for name in trial.knobs)
            for trial in self._pool.trials.values()
            if trial.knobs and trial.is_alive and trial.gain is None and trial.knobs <= set(ceiling)
            if all(BY_NAME[name].structural for name in trial.knobs)
        }
        base = max(promises, key=lambda one: (promises[one], -len(one)), default=Knobs())
        return base if promises.get(base, 1.0) > 1 + self._default_noise else Knobs()

    def _may_start(self, knobs: Knobs) -> bool:
        """Whether a compile may start now: those that time kernels disturb each other."""
        running = [trial for trial in self._pool.compiling if _autotunes(trial.knobs or Knobs())]
        return not _autotunes(knobs) or len(running) < MOST_AUTOTUNES

    def _fits(self, name: str, knobs: Knobs) -> bool:
        """Whether there is time for a compile; if not, its row says so."""
        if self._compile is None:
            return True
        predicted = self._compile.of(_settings(knobs)) * self._compile_ratio(self._compile)
        if _HOPE * predicted <= self._left():
            return True
        self._pool.skip(name, knobs, Skip.BUDGET)
        return False

    def _compile_ratio(self, expected: CompileTime) -> float:
        """The time that the last candidates took, per predicted time: later ones find kernels in Triton's cache."""
        ready = [
            (trial.ready_s, (trial.ready_s - trial.started_s) / expected.of(_settings(trial.knobs)))
            for trial in self._pool.trials.values()
            if trial.ready_s is not None and trial.knobs
        ]
        last = [ratio for _, ratio in sorted(ready)[-_LAST:]]
        return min(1.0, statistics.median(last)) if last else 1.0

    def _unsuitable(self, setting: KnobSetting) -> Unsuitable | None:
        default = self._pool.trials.get(DEFAULT)
        is_measured = default is not None and default.row.generated
        seen = ceilings.traits(default.row) if default is not None and is_measured else _MAYBE
        return unsuitable(
            setting,
            work=self._pool.work,
            device=self.device,
            numerics=self.plan.numerics,
            fixed_modules=self.plan.fixed_modules,
            options=self.options,
            has=self._pool.traits | seen | ({Trait.FIXES} if self.plan.fixed else set()),
        )

    def _gains(self) -> dict[Knobs, float]:
        """The speed-up over `default` of each set of knobs that was tried; 0 for one that failed or is wrong."""
        gains = {}
        for trial in self._pool.trials.values():
            if trial.knobs and not (trial.is_alive and trial.gain is None):
                gains[trial.knobs] = (trial.gain or 0.0) if trial.is_accurate else 0.0
        return gains

    def _pending(self) -> set[Knobs]:
        """Sets of knobs that are being compiled, or for which there is no time."""
        trials = self._pool.trials.values()
        return self._refused | {
            trial.knobs for trial in trials if trial.knobs and trial.is_alive and trial.gain is None
        }

    def _untried(self) -> set[str]:
        """Names of the knobs that no measured or failed candidate changes."""
        if self._planner is None:
            return set()
        tried = {
            trial.knobs
            for trial in self._pool.trials.values()
            if trial.knobs and (trial.gain is not None or trial.outcome is TuneOutcome.FAILED)
        }
        return {one.name for one in self._planner.untried({}, tried)}

    # Races

    def _baseline_is_ready(self) -> bool:
        return all(trial.is_idle or not trial.is_alive for trial in self._pool.baselines)

    def _measure_baseline(self) -> None:
        """Time eager and `default`, and find out from its profile what each knob could gain."""
        pool, default = self._pool, self._pool.default
        self.tell("timing default and eager")
        with pool.quiet():
            self._rounds.take_turns([trial for trial in pool.baselines if self._rounds.warm(trial)])
            began = self.clock()
            pool.order(default, "profile", timed_later=True)
        pool.order(default, "read", look=False)
        self._profile_seconds = self.clock() - began
        pool.order(default, "finish")
        said = pool.order(default, "replay", artifacts="")
        if said is None:
            return
        if any(_SYMBOL.search(size) for graph in said["graphs"] for size in graph.get("inputs", ())):
            pool.traits |= {Trait.SYMBOLIC_SIZES}
        timing = default.row.device or default.row.wall
        spread = timing.spread if timing is not None else 0.0
        self._default_noise = min(_MOST_NOISE, max(self._rounds.noise, spread))
        compiled = (default.row.first_us or 0.0) / 1e6
        before = (default.ready_s or 0.0) - default.started_s - compiled
        self._compile = CompileTime(max(0.0, before), compiled)
        if not self.plan.only:
            expected = {knob.name: knob for knob in self._ceilings(None)}
            self._knobs = tuple(
                replace(knob, skipped=expected[knob.name].skipped, detail=expected[knob.name].detail)
                for knob in ceilings.ceilings(default.row, noise=0.0, unsuitable=self._unsuitable)
            )
        default.gain = 1.0
        promising = self._promising(None)
        self._planner = Planner(promising, self._rounds.noise)
        for trial in pool.alive:
            is_wanted = trial.name in self.plan.candidates
            if trial.knobs and not is_wanted and not trial.knobs <= {one.name for one in promising}:
                trial.skipped = self._reason_to_skip(trial.knobs)
                trial.end(TuneOutcome.SKIPPED)
        self._known()

    def _ceilings(self, best: Trial | None) -> tuple[Knob, ...]:
        """What each knob could gain on top of the best candidate: its kernels take what those of `default` take.

        Without one: on top of `default` or, if that is more, of CUDA graphs, which leave only the kernels.
        """
        default, noise = self._pool.default, self._rounds.noise
        us, divided = median_us(default), ceilings.call_parts(default.row)
        if us is None or divided is None or (best is not None and not best.gain):
            return ceilings.ceilings(default.row, noise=noise, unsuitable=self._unsuitable)
        if best is not None:
            base_us = us / (best.gain or 1.0)
            found = ceilings.ceilings(default.row, noise=noise, us=base_us, unsuitable=self._unsuitable)
            has_graphs = "cuda_graphs" in (best.knobs or ())  # which leave no idle time for others to remove
            return tuple(
                replace(knob, skipped=Skip.NOISE) if has_graphs and knob.bound is KnobBound.IDLE else knob
                for knob in found
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
        """The knobs to try on top of the best candidate: structure first, then by the gain to expect.

        What is expected to gain less than timings can show is tried last.
        """
        if self.plan.only:
            return ()
        tried = {knob.name: knob for knob in self._ceilings(best) if knob.skipped is None}

        def rank(setting: KnobSetting) -> tuple[bool, bool, float, int]:
            promise = ceilings.promise(setting, tried[setting.name])
            is_small = promise < 1 + self._rounds.noise / 2
            return is_small, not setting.structural, -promise, setting.order

        return tuple(sorted((BY_NAME[name] for name in tried), key=rank))

    def _reason_to_skip(self, knobs: Knobs) -> Skip | None:
        """Why a set of knobs cannot win, by the first of them that cannot."""
        return next((one.skipped for one in self._knobs if one.name in knobs and one.skipped), None)

    def _race(self) -> None:
        """Race newly compiled candidates against the best ones so far."""
        pool = self._pool
        new = pool.compiled
        self.tell(f"racing {len(new)} compiled candidates{self._so_far()}")
        with pool.quiet():
            new = [trial for trial in new if self._rounds.warm(trial)]
            if new:
                old = [trial for trial in pool.contenders if trial.is_idle]
                self._rounds.race([pool.default, *old, *new], self._left())
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

        One that is slower than an unverified candidate may still win.
        """
        contenders, noise = self._pool.contenders, self._rounds.noise
        verified = [trial for trial in contenders if trial.is_verified or not self.plan.accuracy]
        least = (verified[0].gain or 0.0) * (1 - 2 * noise) if verified else 0.0
        for place, trial in enumerate(contenders):
            if place >= _FINALISTS or (trial.gain or 0.0) < max(least, 1 - self._default_noise):
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
                    pool.give(trial, "judge", **pool.compared, varies=pool.varies)
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
        said = self._pool.order(best, "replay", artifacts="")
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
            if self._budget.left() <= 0 and not trial.asked:
                self._notes["the budget ended before results could be compared, so nothing was verified"] = (
                    None
                )
                return False
            pool.collect()
        if not trial.judged:
            trial.judged = True
            pool.order(trial, "judge", **pool.compared, varies=pool.varies)
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
        if self._compile is None or self._compile.compile > self._budget.left(-self._modes_seconds):
            return
        self.tell(f"comparing the results of {winner.name} with eager's random numbers")
        pool.order(winner, "judge_random", **pool.compared)
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
        self._end_candidates()
        finalists = [trial for trial in self._faster() if trial.is_idle]
        if len(finalists) > 1 and self._left() > 0:
            self.tell(f"final race of {len(finalists)} candidates")
            with pool.quiet():
                self._rounds.race([pool.default, *finalists], self._left())
        while (best := self._best()) is not None:
            if self._is_verified(best) and self._confirm(best):
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

    def _end_candidates(self) -> None:
        """End candidates that are still being compiled, and start no more of them."""
        self._wanted.clear()
        self._speculative.clear()
        for trial in self._pool.compiling:
            if trial is not self._pool.default:
                trial.end(TuneOutcome.UNFINISHED)

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
                pool.order(trial, "weigh")
        if self.plan.accuracy and pool.has_reference and not pool.default.judged:
            pool.default.judged = True
            pool.order(pool.default, "judge", **pool.compared, varies=pool.varies)
        said = pool.order(winner, "replay", artifacts="")
        self._result = self.result_of(self._summary(winner), said) if said is not None else None
        for trial in pool.baselines:
            pool.refresh(trial)
        self._known()

    def _profile_winner(self) -> None:
        """Measure the division of a call of the winner. Nothing is timed in its process afterwards."""
        pool = self._pool
        winner = pool.trials[self._winner]
        if winner is pool.default:
            return
        if self._budget.left(self._profile_seconds - self._modes_seconds) > 0:
            with pool.quiet():
                pool.order(winner, "profile")
            pool.order(winner, "read", look=False)
        pool.order(winner, "finish")

    def _save_artifacts(self) -> None:
        """Save the caches of the winner's compile, which takes one more compile."""
        self.tell("saving the compiled code of the winner")
        winner = self._pool.trials[self._winner]
        said = self._pool.order(winner, "replay", artifacts=self.plan.artifacts)
        if said is not None:
            self._result = self.result_of(self._summary(winner), said)

    def _summary(self, trial: Trial) -> TunedResult:
        """The numbers of a result; those of the confirming race where `trial` won it."""
        confirmed = self._confirmation if trial is not self._pool.default else None
        made = summary(trial, self._pool, confirmed)
        return replace(made, numerics=self.plan.numerics, when=self._when)


def _settings(knobs: Knobs) -> tuple[KnobSetting, ...]:
    return tuple(one for one in KNOBS if one.name in knobs)


def _autotunes(knobs: Knobs) -> bool:
    """Whether a compile times kernels on the device."""
    return any(BY_NAME[name].autotunes for name in knobs)
