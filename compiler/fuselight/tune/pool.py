"""The processes of a search: starts them, hands out orders, takes answers, and pauses them while others are timed.

Invariant: a process that fails, hangs or is killed becomes a row with that failure; nothing is raised for it. Within
`quiet`, only the processes that are given orders in the block may run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.measure.coordinator import FLOAT64, EndedError, no_process
from fuselight.measure.orders import Order
from fuselight.shared.codec import decode
from fuselight.shared.configurations import EAGER, MODES
from fuselight.shared.report import (
    Machine,
    MeasuredConfiguration,
    Skip,
    TuneCandidate,
    TuneOutcome,
    Work,
)
from fuselight.tune.knobs import Trait
from fuselight.tune.schedule import Budget, Knobs
from fuselight.tune.trial import COMPILE_ORDERS, SearchProcess, Trial
from fuselight.tune.turns import Turns

DEFAULT = MODES[0]
_ORDER_SECONDS = 60.0
"""Time limit of an order that only makes calls or reads what is known, besides 100 calls."""
_LEAST_SECONDS = 5.0
"""Time limit of such an order at the end of a search."""


@dataclass
class TrialPool:
    """Every configuration that a search has started, and the process of the reference."""

    start_process: Callable[[str], SearchProcess]
    """Starts the process of a configuration, or of the reference. Raises OSError."""
    wait: Callable[[Sequence[SearchProcess]], None]
    """Waits a short time, at most until one of the processes has an answer."""
    budget: Budget
    limit_seconds: float
    """Time limit of one configuration; 0 means no limit."""
    work: Work
    """What a call does: as requested, until the first call says it."""
    changed: Callable[[], None] = lambda: None
    """Called after each failure and each first call."""
    turns: Turns = field(default_factory=Turns)
    """With other searches on this machine."""
    trials: dict[str, Trial] = field(default_factory=dict)
    """By name, in the order in which they were started."""
    skipped: dict[str, TuneCandidate] = field(default_factory=dict)
    """Configurations that were not started."""
    machine: Machine = field(default_factory=lambda: Machine("?"))
    compared: dict[str, Any] = field(default_factory=dict)
    """What results are compared with: paths of eager's results and of the reference, or why there is none."""
    traits: frozenset[Trait] = frozenset()
    """What the target and the machine have, once a first call was made."""
    varies: str = ""
    """How eager's results differ from call to call, if they do."""
    _held: dict[Trial, float] = field(default_factory=dict)
    """Compiles that are paused for a more urgent one, and when that began."""
    _reference: Trial | None = None

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
        return self._reference is None or not self._reference.is_alive

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
        everything = (self._reference, *self.trials.values())
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
        try:
            process = self.start_process(FLOAT64)
        except OSError as error:
            self.compared["why"] = no_process(error).message
            return
        self._reference = self._trial(FLOAT64, process, None)
        self._reference.queue.append((Order.REFERENCE, {}))
        self._send(self._reference)

    def start(self, name: str, knobs: Knobs | None = None) -> Trial | None:
        """Start compiling a configuration; None if no process could be started, and its row says so."""
        try:
            process = self.start_process(name)
        except OSError as error:
            row = MeasuredConfiguration(name, failure=no_process(error))
            self.skipped[name] = TuneCandidate(row, TuneOutcome.FAILED, tuple(sorted(knobs or ())))
            return None
        trial = self.trials[name] = self._trial(name, process, knobs)
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
                with self._recorded_end(trial):
                    self._take(trial, *trial.accept())
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
        with self._recorded_end(trial):
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
        """End every process."""
        for trial in self.alive:
            trial.end()
        self.turns.close()

    def _trial(self, name: str, process: SearchProcess, knobs: Knobs | None) -> Trial:
        return Trial(name, process, self.budget.clock, self.budget.elapsed, self.limit_seconds, knobs)

    def _send(self, trial: Trial) -> None:
        with self._recorded_end(trial):
            trial.send_next()

    @contextlib.contextmanager
    def _recorded_end(self, trial: Trial) -> Iterator[None]:
        """Record the failure of a process that ends within the block."""
        try:
            yield
        except EndedError as ended:
            trial.fail(ended.failure)
            if trial is self._reference:
                self.compared["why"] = ended.failure.message
            self.changed()

    def _take(self, trial: Trial, what: Order, said: Mapping[str, Any]) -> None:
        """Store an answer."""
        if what == Order.REFERENCE:
            self.varies = said["varies"]
            self.compared.update({key: said[key] for key in ("float64", "why") if key in said})
            trial.end()
        elif what == Order.SETTLE:
            trial.ready_s = self.budget.elapsed
            trial.limit_by(0)
            self.changed()
        elif what == Order.FIRST:
            self.work = Work(said["work"])
            self.traits |= {Trait(one) for one in said["traits"]}
            if trial.name in {EAGER, DEFAULT}:
                self.machine = decode(Machine, said["machine"])
            if "results" in said:
                self.compared["eager"] = said["results"]
            self.changed()

    def _seconds_for(self, trial: Trial) -> float:
        """Time limit of an order that makes calls."""
        seconds = _ORDER_SECONDS + 100 * trial.us / 1e6
        seconds = min(seconds, max(_LEAST_SECONDS, self.budget.finish_left()))
        return min(seconds, self.limit_seconds) if self.limit_seconds else seconds
