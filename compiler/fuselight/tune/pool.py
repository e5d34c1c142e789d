"""The processes of a search: starts them, hands out orders, takes answers, and pauses them while others are timed.

Invariant: a process that fails, hangs or is killed becomes a row with that failure; nothing is raised for it. Within
`quiet`, only the processes that are given orders in the block may run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.measure.orders import Order
from fuselight.measure.pool import FLOAT64, ConfigurationPool
from fuselight.shared.configurations import EAGER, MODES
from fuselight.shared.report import MeasuredConfiguration, Skip, TuneCandidate, TuneOutcome
from fuselight.tune.knobs import Trait
from fuselight.tune.schedule import Budget, Knobs
from fuselight.tune.trial import COMPILE_ORDERS, SearchProcess, Trial
from fuselight.tune.turns import Turns

DEFAULT = MODES[0]
_ORDER_SECONDS = 60.0
"""Time limit of an order that only makes calls or reads what is known, besides 100 calls."""
_LEAST_SECONDS = 5.0
"""Time limit of such an order at the end of a search."""


@dataclass(kw_only=True)
class TrialPool(ConfigurationPool[SearchProcess, Trial]):
    """Every configuration of a search."""

    wait: Callable[[Sequence[SearchProcess]], None]
    """Waits a short time, at most until one of the processes has an answer."""
    budget: Budget
    turns: Turns = field(default_factory=Turns)
    """With other searches on this machine."""
    skipped: dict[str, TuneCandidate] = field(default_factory=dict)
    """Configurations that were not started."""
    traits: frozenset[Trait] = frozenset()
    """What the target and the machine have, once a first call was made."""
    _held: dict[Trial, float] = field(default_factory=dict)
    """Compiles that are paused for a more urgent one, and when that began."""

    @property
    def trials(self) -> dict[str, Trial]:
        """By name, in the order in which they were started."""
        return self.members

    @property
    def default(self) -> Trial:
        """The process of `default`."""
        return self.trials[DEFAULT]

    @property
    def baselines(self) -> list[Trial]:
        """`default` and eager, as far as they were started."""
        return [self.trials[name] for name in (DEFAULT, EAGER) if name in self.trials]

    @property
    def has_reference(self) -> bool:
        """Whether all is known that results are compared with."""
        return self.reference is None or not self.reference.is_alive

    @property
    def compiling(self) -> list[Trial]:
        """Configurations that are being compiled; eager is none."""
        return [trial for trial in self.trials.values() if trial.is_compiling and trial.name != EAGER]

    @property
    def working(self) -> list[Trial]:
        """Every process that works on an order."""
        return [trial for trial in self.alive if trial.asked]

    @property
    def running(self) -> list[Trial]:
        """Those of them that are not held."""
        return [trial for trial in self.working if trial not in self._held]

    @property
    def alive(self) -> list[Trial]:
        """Every process that has not been ended."""
        everything = (self.reference, *self.trials.values())
        return [trial for trial in everything if trial is not None and trial.is_alive]

    @property
    def contenders(self) -> list[Trial]:
        """Candidates that were timed and may still win, the fastest first."""
        timed = [
            trial
            for trial in self.trials.values()
            if trial.is_alive and trial.gain is not None and trial.outcome is None
        ]
        return sorted(timed, key=lambda trial: -(trial.gain or 0.0))

    @property
    def compiled(self) -> list[Trial]:
        """Compiled candidates that have not been timed."""
        return [
            trial
            for trial in self.trials.values()
            if trial.is_idle and trial.gain is None and trial.outcome is None
        ]

    def start_reference(self) -> None:
        """Start to compute the results in float64, in eager mode."""
        reference = self.launch_reference(lambda process: self._trial(FLOAT64, process, None))
        if reference is not None:
            reference.queue.append((Order.REFERENCE, {}))
            self._send(reference)

    def start(self, name: str, knobs: Knobs | None = None) -> Trial | None:
        """Start compiling a configuration; None if no process could be started, and its row says so."""
        trial = self.launch(name, lambda process: self._trial(name, process, knobs))
        if trial is None:
            row = self.not_started[name]
            self.skipped[name] = TuneCandidate(row, TuneOutcome.FAILED, tuple(sorted(knobs or ())))
            return None
        if name in {EAGER, DEFAULT}:
            trial.outcome = TuneOutcome.BASELINE
        trial.queue.extend((order, {}) for order in COMPILE_ORDERS)
        self._send(trial)
        return trial

    def skip(self, name: str, knobs: Knobs, why: Skip) -> None:
        """Record a configuration that is not started."""
        row = MeasuredConfiguration(name)
        self.skipped[name] = TuneCandidate(row, TuneOutcome.SKIPPED, tuple(sorted(knobs)), skipped=why)

    def collect(self) -> None:
        """Take the answers that have arrived; waits a short time for one, and while another search times calls."""
        working = self.running
        if self.turns.is_asked_to_wait():
            with self._paused():
                self.turns.make_way()
        self.wait([trial.process for trial in working])
        for trial in working:
            if trial.asked and trial.is_due():
                with self.recorded_end(trial):
                    self.take_answer(trial, *trial.accept_answer())
                self._send(trial)

    def give(self, trial: Trial, what: Order, **details: Any) -> None:
        """Give a waiting configuration an order whose answer `collect` takes."""
        trial.queue.append((what, details))
        trial.limit_by(self._seconds_for(trial))
        self._send(trial)

    def order(self, trial: Trial, what: Order, **details: Any) -> dict[str, Any] | None:
        """Give a waiting configuration an order and wait for the answer; None if it failed or does not wait."""
        if not trial.is_idle:
            return None
        with self.recorded_end(trial):
            return trial.order(what, self._seconds_for(trial), **details)
        return None

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Within the block, every process that works on an order is paused, and so are other searches."""
        with self._paused(), self.turns.timing():
            self.budget.excluded = self.turns.waited
            yield

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        working, began = self.running, self.budget.clock()
        for trial in working:
            trial.process.pause()
        try:
            yield
        finally:
            self.budget.excluded = self.turns.waited
            for trial in working:
                trial.process.resume()
                trial.postpone(self.budget.clock() - began)

    def hold(self, trials: Sequence[Trial]) -> None:
        """Pause compiles until `release`."""
        for trial in trials:
            if trial not in self._held:
                trial.process.pause()
                self._held[trial] = self.budget.clock()

    def release(self) -> None:
        """Let held compiles go on."""
        for trial, since in self._held.items():
            if trial.is_alive:
                trial.process.resume()
                trial.postpone(self.budget.clock() - since)
        self._held.clear()

    def retire(self, trial: Trial, outcome: TuneOutcome) -> None:
        """End a candidate, with its timings in its row."""
        self.refresh(trial)
        trial.end(outcome)

    def refresh(self, trial: Trial) -> None:
        """Have a waiting configuration send its row: rounds are answered without it."""
        self.order(trial, Order.READY)

    def end(self) -> None:
        """As in ConfigurationPool."""
        super().end()
        self.turns.close()

    def reads_machine(self, member: Trial) -> bool:
        """As in ConfigurationPool."""
        return member.name in {EAGER, DEFAULT}

    def take_answer(self, member: Trial, what: Order, answer: Mapping[str, Any]) -> None:
        """As in ConfigurationPool."""
        super().take_answer(member, what, answer)
        if what == Order.SETTLE:
            member.ready_s = self.budget.elapsed
            member.limit_by(0)
            self.changed()
        elif what == Order.FIRST:
            self.traits |= {Trait(trait) for trait in answer["traits"]}
            self.changed()

    def _trial(self, name: str, process: SearchProcess, knobs: Knobs | None) -> Trial:
        return Trial(name, process, self.budget.clock, self.budget.elapsed, self.limit_seconds, knobs)

    def _send(self, trial: Trial) -> None:
        with self.recorded_end(trial):
            trial.send_next()

    def _seconds_for(self, trial: Trial) -> float:
        """Time limit of an order that makes calls."""
        seconds = _ORDER_SECONDS + 100 * trial.us / 1e6
        seconds = min(seconds, max(_LEAST_SECONDS, self.budget.finish_left()))
        return min(seconds, self.limit_seconds) if self.limit_seconds else seconds
