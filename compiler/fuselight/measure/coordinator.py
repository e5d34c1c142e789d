"""Coordinates a benchmark: starts a process per configuration, measures in interleaved rounds, and joins the results.

Invariant: only one call is timed at a time. A configuration that fails, hangs or is killed becomes a row with that
failure, and the others continue. `keep` receives the state after each step, so that an early end shows an unfinished
result.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fuselight.measure import steady_state
from fuselight.measure.accuracy import RANDOM
from fuselight.measure.accuracy.narrowing import SECONDS
from fuselight.measure.benchmark_pool import BenchmarkPool, ResultRow
from fuselight.measure.orders import Order
from fuselight.measure.pool import EndedError, RemoteConfiguration
from fuselight.shared.configurations import EAGER, configuration_title
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import Accuracy, Failure, Measured, MeasuredConfiguration

_MORE_SECONDS = 30.0
"""Extra seconds that a trial of a bisection may take beyond the prediction."""
_REPEATS = 2
"""Maximum repetitions of all rounds if times vary too much."""


@dataclass
class Measuring:
    """One benchmark."""

    plan: MeasurePlan
    names: Sequence[str]
    """Names of the configurations, eager first."""
    start: Callable[[str], RemoteConfiguration]
    """Starts the process of a configuration, or of the reference. Raises OSError."""
    tell: Callable[[str], None]
    """Reports the current step."""
    keep: Callable[[Measured], None]
    """Receives the state so far."""
    ahead: Callable[[], object] = lambda: None
    """Imports what every process except the reference needs, once, while the reference is computed."""
    clock: Callable[[], float] = time.perf_counter
    """Seconds."""
    _fresh: bool = False
    _random: bool | None = None
    _cold: bool = False
    _rounds: int = 0
    _when: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._pool = BenchmarkPool(
            start_process=self.start,
            limit_seconds=self.plan.limit_seconds,
            changed=self._known,
            clock=self.clock,
        )

    def run(self) -> Measured:
        """Measure all configurations. A failure is stored in the row of its configuration."""
        pool = self._pool
        try:
            if self.plan.accuracy:
                self._reference()
            else:
                self._launch()
            for name in self.names:
                if not self._is_hopeless():
                    pool.await_imports()
                    self._begin(name)
            self._rounds = self._take_turns(pool.active)
            self._measure_longer()
            self._conclude(pool.active)
            for name in list(pool.retry):
                self._alone(name)
        finally:
            pool.end()
        return self.measured(finished=True)

    def measured(self, *, finished: bool = False) -> Measured:
        """Return the state so far."""
        pool, rows = self._pool, self._pool.rows
        return Measured(
            work=pool.work,
            machine=pool.machine,
            configurations=tuple(rows[name] for name in self.names if name in rows),
            rounds=self._rounds,
            cold_cache=self._cold,
            fresh_inputs=self._fresh,
            random=self._random,
            seconds=self.clock() - self._began,
            counted_seconds=pool.counted_seconds,
            finished=finished,
            started=self._when,
            order=tuple(self.names),
        )

    def _reference(self) -> None:
        """Compute the reference in its own process, which ends afterwards."""
        self.tell("the reference")
        pool = self._pool
        reference = pool.start_reference()
        self._launch()
        if reference is None:
            return
        if reference.is_alive:
            with pool.recorded_end(reference):
                pool.take_answer(reference, *reference.accept_answer(self.plan.limit_seconds))
                self._random = bool(pool.varies)
        if _is_hopeless(reference.row.failure):
            self._eager_fails(reference.row.failure)

    def _launch(self) -> None:
        """Start all processes: they import the file in parallel, before anything is measured.

        No process builds a module or makes inputs before it is ordered to, except for provider functions, because the
        reference may need all memory.
        """
        self.ahead()
        for name in self.names:
            self._pool.start(name)

    def _is_hopeless(self) -> bool:
        """Whether eager has failed in a way in which all others would."""
        eager = self._pool.rows.get(EAGER)
        return eager is not None and _is_hopeless(eager.failure)

    def _eager_fails(self, failure: Failure | None) -> None:
        """Record for eager why the reference failed: it would fail in the same way."""
        pool = self._pool
        pool.not_started[EAGER] = MeasuredConfiguration(EAGER, failure=failure)
        if (eager := pool.members.pop(EAGER, None)) is not None:
            eager.end()

    def _begin(self, name: str) -> None:
        """Start measuring a configuration: first calls and warm-up, alone on the machine."""
        pool = self._pool
        row = pool.members.get(name)
        if row is None or row not in pool.waiting:
            return
        self._tell_of(name, "starting")
        row.has_begun = True
        if pool.order(row, Order.BUILD) is None:
            return
        answer = pool.order(row, Order.FIRST)
        if answer is not None:
            self._fresh = self._fresh or bool(answer["fresh"])
            self._cold = self.plan.cold_cache and answer["device"] == "cuda"
            self._known()
            answer = pool.order(row, Order.WARM)
        if answer is not None:
            row.us = float(answer["us"])
        self._known()

    def _take_turns(self, rows: Sequence[ResultRow]) -> int:
        """Run interleaved rounds of timed calls in rotating order. Returns the number of rounds."""
        plan = self.plan
        active = {row.name: row for row in rows if row.is_alive}
        rounds = {
            name: steady_state.rounds_of(row.us, seconds=plan.seconds, rounds=plan.rounds)
            for name, row in active.items()
        }
        number: dict[str, int] = {}
        for name in steady_state.turns(list(rounds), rounds):
            row = active[name]
            if not row.is_alive:
                continue
            number[name] = number.get(name, 0) + 1
            self._tell_of(name, f"round {number[name]} of {rounds[name]}")
            share = plan.seconds * rounds[name] / max(plan.rounds, 1)
            calls = steady_state.calls_of_round(row.us, seconds=share, rounds=rounds[name])
            self._pool.order(row, Order.ROUND, calls=calls)
        self._known()
        return max(rounds.values(), default=0)

    def _measure_longer(self) -> None:
        """Repeat the rounds of all configurations while one of them varies too much to compare."""
        for _ in range(_REPEATS):
            timings = [row.row.device or row.row.wall for row in self._pool.active]
            if not any(timing is not None and timing.unsteady for timing in timings):
                return
            self._rounds += self._take_turns(self._pool.active)

    def _conclude(self, rows: Sequence[ResultRow]) -> None:
        """After the timed rounds: measure memory, profile, check accuracy, then end each process."""
        for row in rows:
            self._tell_of(row.name, "memory")
            self._pool.order(row, Order.WEIGH)
            if self.plan.profile and row.is_alive:
                self._tell_of(row.name, "profiling")
                self._pool.order(row, Order.PROFILE)
        rows = [row for row in rows if row.is_alive]
        self._read(rows)
        self._isolate(rows)
        self._close(rows)

    def _read(self, rows: Sequence[ResultRow]) -> None:
        """Compare results and read profiles in all processes in parallel; no call is timed during this step.

        A process that has to make a call to find lines makes it afterwards, while the others wait.
        """
        pool = self._pool
        compares = self.plan.accuracy and any(row.name != EAGER for row in rows)
        steps = [*["comparing results"] * compares, *["reading profiles"] * self.plan.profile]

        def tell(done: int) -> None:
            if steps:
                end = f": {done} of {len(rows)} configurations done" if done else ""
                self.tell(f"{' and '.join(steps)}{end}")

        tell(0)
        comparison = (Order.COMPARE, pool.comparison)
        reader = None if self.plan.isolated else pool.machine_reader
        answers = pool.together(
            {  # the long answer after the short one: it may fill the pipe, and is read in turn
                row: [
                    *[comparison] * (compares and row.name != EAGER),
                    (Order.READ, {"look": row is reader, "alone": len(rows) == 1}),
                ]
                for row in rows
            },
            tell,
        )
        for row, answer in answers.items():
            if answer.get("again"):
                self._tell_of(row.name, "reading the profile again, for lines")
                pool.order(row, Order.READ, look=False)

    def _isolate(self, rows: Sequence[ResultRow]) -> None:
        """Time each kernel alone, if requested, with no other process active; then read the machine's state."""
        if not self.plan.isolated:
            return
        self._known()
        for row in rows:
            if row.name != EAGER:
                self._pool.order(row, Order.ISOLATE)
        reader = self._pool.machine_reader
        if reader is not None and reader in rows:
            self._pool.order(reader, Order.READ, look=True)

    def _close(self, rows: Sequence[ResultRow]) -> None:
        """Collect what each process recorded of the compile, search for errors, and end each process."""
        pool = self._pool
        for row in rows:
            self._tell_of(row.name, "collecting what was compiled")
            pool.order(row, Order.FINISH)
        if pool.varies == RANDOM:
            self._compare_with_eagers_numbers(rows)
        self._known()
        compared = {row: row.row.accuracy for row in pool.active if self.plan.bisect}
        wrong = {
            row: accuracy
            for row, accuracy in compared.items()
            if accuracy is not None and accuracy.passed is False
        }
        for row in sorted(pool.active, key=wrong.__contains__):  # passing ones first: they free memory
            accuracy = wrong.get(row)
            if accuracy is not None:
                self._search(row, accuracy)
            row.end()
            if accuracy is not None:
                self._known()

    def _compare_with_eagers_numbers(self, rows: Sequence[ResultRow]) -> None:
        """Compile again with eager's random numbers and compare results. The timings stay, whatever the outcome."""
        self.tell("comparing results with eager's random numbers")
        for row in rows:
            if not row.is_alive or row.name == EAGER or row.row.accuracy is None:
                continue
            with contextlib.suppress(EndedError):
                row.ask(Order.COMPARE_RANDOM, **self._pool.compared)
                row.accept_answer()

    def _search(self, row: ResultRow, accuracy: Accuracy) -> None:
        """Search for the first line that differs. The measurements stay, whatever the outcome."""
        self._tell_of(row.name, "looking for the first line that differs")
        seconds = min(filter(None, (row.left, SECONDS)))
        try:
            row.ask(Order.SEARCH, seconds=seconds)
            row.accept_answer(seconds + _MORE_SECONDS)
        except EndedError as ended:
            why = f"{accuracy.why}; the first line that differs is not known: {ended.failure.message}"
            row.row = replace(row.row, accuracy=replace(accuracy, why=why))

    def _alone(self, name: str) -> None:
        """Measure configurations again that ran out of memory alongside the others, now that those have ended."""
        pool = self._pool
        pool.start(name, alone=True)
        pool.await_imports()
        self._begin(name)
        self._rounds = max(self._rounds, self._take_turns(pool.active))
        self._conclude(pool.active)

    def _tell_of(self, name: str, step: str) -> None:
        self.tell(f"{configuration_title(name)}: {step}")

    def _known(self) -> None:
        self.keep(self.measured())


def _is_hopeless(failure: Failure | None) -> bool:
    """Whether every other process would fail the same way: the file or the inputs are not available."""
    return (
        failure is not None
        and failure.phase in {"import", "build", "main", "program"}
        and failure.kind != "memory"
    )
