"""Coordinates a benchmark: starts a process per configuration, measures in interleaved rounds, and joins the results.

Invariant: only one call is timed at a time. A configuration that fails, hangs or is killed becomes a row with that
failure, and the others continue. `keep` receives the state after each step, so that an early end shows an unfinished
result. A configuration's time limit starts when it gets an order, even while the coordinator waits for others; it is
charged only for the time that the coordinator waited for its own answers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fuselight.measure import steady_state
from fuselight.measure.accuracy import RANDOM
from fuselight.measure.accuracy.narrowing import SECONDS
from fuselight.measure.orders import Order
from fuselight.shared.codec import decode
from fuselight.shared.configurations import EAGER
from fuselight.shared.protocol import MeasurePlan
from fuselight.shared.report import (
    Accuracy,
    Culprit,
    Failure,
    Machine,
    Measured,
    MeasuredConfiguration,
    Work,
)

now = time.perf_counter
_LEAST_SECONDS = 1.0
"""Minimum wait for an answer, whatever time is left: it may have arrived already."""
_MORE_SECONDS = 30.0
"""Extra seconds that a trial of a bisection may take beyond the prediction."""
_REPEATS = 2
"""Maximum repetitions of all rounds if times vary too much."""
FLOAT64 = "float64"
"""Name of the process that computes the reference; it is not a configuration."""


class EndedError(Exception):
    """The process will not answer any more; the message says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RemoteConfiguration(Protocol):
    """The process of one configuration, from the coordinator's side."""

    def ask(self, what: Order, /, **details: Any) -> None:
        """Send an order. Answers arrive in the order of the requests. Raises EndedError."""
        ...

    def answer(self, what: Order, seconds: float, /) -> dict[str, Any]:
        """Wait up to `seconds` (0: without limit) for the answer to an order. Raises EndedError."""
        ...

    def end(self) -> None:
        """End the process and everything that it has started."""
        ...


@dataclass
class ResultRow:
    """One configuration and its process."""

    other: RemoteConfiguration
    measured: MeasuredConfiguration
    us: float = 0.0
    """Time of one steady call, after warm-up."""
    left: float = 0.0
    """Seconds that it may still use; 0 means no limit."""
    imported: bool = False
    """Whether the process is ready for its first order."""
    _due: float = 0.0
    """Clock time at which its limit expires if it works on the current order."""

    def ask(self, what: Order, details: Mapping[str, Any]) -> None:
        """Send an order. Raises EndedError."""
        self.other.ask(what, **details)
        self._due = now() + self.left

    def answer(self, what: Order) -> dict[str, Any]:
        """Wait for the answer, and store its measurements. Raises EndedError."""
        began = now()
        said = self.other.answer(what, max(_LEAST_SECONDS, self._due - began) if self.left else 0.0)
        if self.left:
            self.left = max(_LEAST_SECONDS, self.left - (now() - began))
        self.take(said)
        return said

    def take(self, said: Mapping[str, Any]) -> None:
        """Store the measurements in an answer, if it has any."""
        if "row" in said:
            self.measured = replace(decode(MeasuredConfiguration, said["row"]), alone=self.measured.alone)


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
    _waiting: dict[str, ResultRow] = field(default_factory=dict)
    """Started processes that have not been given work."""
    _rows: dict[str, ResultRow] = field(default_factory=dict)
    _done: dict[str, MeasuredConfiguration] = field(default_factory=dict)
    _machine: Machine = field(default_factory=lambda: Machine("?"))
    _work: Work = Work.INFERENCE
    _fresh: bool = False
    _varies: str = ""
    _random: bool | None = None
    _looks: str = ""
    """The configuration whose process reads the machine's state: the first that could be started."""
    _cold: bool = False
    _compared: dict[str, Any] = field(default_factory=dict)
    """What results are compared with: paths of eager's results and of the reference, or why there is none."""
    _rounds: int = 0
    _counted: float = 0.0
    _began: float = field(default_factory=time.perf_counter)
    _when: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    _retry: list[str] = field(default_factory=list)

    def run(self) -> Measured:
        """Measure all configurations. A failure is stored in the row of its configuration."""
        try:
            if self.plan.accuracy:
                self._compared = self._reference()
            else:
                self._launch()
            for name in self.names:
                if EAGER not in self._done or not _is_hopeless(self._done[EAGER].failure):
                    self._await_imports()
                    self._begin(name)
            self._rounds = self._take_turns(list(self._rows))
            self._measure_longer()
            self._conclude(list(self._rows))
            for name in list(self._retry):
                self._alone(name)
        finally:
            for row in (*self._waiting.values(), *self._rows.values()):
                row.other.end()
        return self.measured(finished=True)

    def measured(self, *, finished: bool = False) -> Measured:
        """Return the state so far."""
        known = {**{name: row.measured for name, row in self._rows.items()}, **self._done}
        return Measured(
            work=self._work,
            machine=self._machine,
            configurations=tuple(known[name] for name in self.names if name in known),
            rounds=self._rounds,
            cold_cache=self._cold,
            fresh_inputs=self._fresh,
            random=self._random,
            seconds=time.perf_counter() - self._began,
            counted_seconds=self._counted,
            finished=finished,
            started=self._when,
            order=tuple(self.names),
        )

    def _reference(self) -> dict[str, Any]:
        """Compute the reference in its own process, which ends afterwards."""
        self.tell("the reference")
        try:
            other = self.start(FLOAT64)
        except OSError as error:
            return {"why": no_process(error).message}
        try:
            other.ask(Order.REFERENCE)
            self._launch()
            made = other.answer(Order.REFERENCE, self.plan.limit_seconds)
        except EndedError as ended:
            if _is_hopeless(ended.failure):
                self._done[EAGER] = MeasuredConfiguration(EAGER, failure=ended.failure)
            return {"why": ended.failure.message}
        finally:
            other.end()
        self._varies = made["varies"]
        self._random = bool(self._varies)
        return {key: made[key] for key in ("float64", "why") if key in made}

    def _launch(self) -> None:
        """Start all processes: they import the file in parallel, before anything is measured.

        No process builds a module or makes inputs before it is ordered to, except for provider functions, because the
        reference may need all memory.
        """
        self.ahead()
        for name in self.names:
            self._start(name)

    def _start(self, name: str, *, alone: bool = False) -> None:
        measured = MeasuredConfiguration(name, alone=alone)
        try:
            row = self._waiting[name] = ResultRow(self.start(name), measured, left=self.plan.limit_seconds)
        except OSError as error:
            self._done[name] = replace(measured, failure=no_process(error))
            return
        with contextlib.suppress(EndedError):  # it tells why when it is to answer
            row.ask(Order.READY, {})

    def _await_imports(self) -> None:
        """Wait until every process has finished importing: from here on one step runs at a time."""
        for name, row in list(self._waiting.items()):
            if row.imported:
                continue
            try:
                row.answer(Order.READY)
                row.imported = True
            except EndedError as ended:
                self._waiting.pop(name).other.end()
                self._done[name] = replace(row.measured, failure=ended.failure)

    def _begin(self, name: str) -> None:
        """Start measuring a configuration: first calls and warm-up, alone on the machine."""
        if name not in self._waiting:
            return
        self.tell(f"{name}: starting")
        row = self._rows[name] = self._waiting.pop(name)
        if self._order(name, Order.BUILD) is None:
            return
        said = self._order(name, Order.FIRST)
        if said is not None:
            self._fresh = self._fresh or bool(said["fresh"])
            self._work = Work(said["work"])
            self._cold = self.plan.cold_cache and said["device"] == "cuda"
            if not self._looks:
                self._looks, self._machine = name, decode(Machine, said["machine"])
            if "results" in said:
                self._compared["eager"] = said["results"]
            self._known()
            said = self._order(name, Order.WARM)
        if said is not None:
            row.us = float(said["us"])
        self._known()

    def _order(self, name: str, what: Order, **details: Any) -> dict[str, Any] | None:
        """Send an order to a configuration; None if it failed, in which case its row has the failure."""
        with self._recorded_end(name):
            self._rows[name].ask(what, details)
            return self._answer(name, what)
        return None

    def _together(self, asked: Mapping[str, Sequence[tuple[Order, Mapping[str, Any]]]]) -> None:
        """Run several configurations in parallel, for orders that time nothing."""
        parallel = len(self._rows) > 1
        for name, orders in asked.items():
            for what, details in orders:
                if name in self._rows:
                    with self._recorded_end(name, parallel=parallel):
                        self._rows[name].ask(what, details)
        for name, orders in asked.items():
            for what, _ in orders:
                if name in self._rows:
                    with self._recorded_end(name, parallel=parallel):
                        self._answer(name, what)

    def _answer(self, name: str, what: Order) -> dict[str, Any]:
        said = self._rows[name].answer(what)
        if "machine" in said and name == self._looks:
            self._machine = decode(Machine, said["machine"])
        self._counted += said.get("seconds", 0.0)
        return said

    @contextlib.contextmanager
    def _recorded_end(self, name: str, *, parallel: bool = False) -> Iterator[None]:
        """Record the failure of a configuration that ends within the block; `parallel`: others are active as well."""
        try:
            yield
        except EndedError as ended:
            row = self._rows.pop(name)
            row.other.end()
            if ended.failure.kind == "memory" and (parallel or self._rows) and not row.measured.alone:
                self._retry.append(name)
            if name == self._looks:
                self._looks = next(iter(self._rows), "")  # another process takes over
            self._done[name] = replace(row.measured, failure=ended.failure)
            self._known()

    def _take_turns(self, names: list[str]) -> int:
        """Run interleaved rounds of timed calls in rotating order. Returns the number of rounds."""
        plan = self.plan
        rounds = {
            name: steady_state.rounds_of(self._rows[name].us, seconds=plan.seconds, rounds=plan.rounds)
            for name in names
            if name in self._rows
        }
        number: dict[str, int] = {}
        for name in steady_state.turns([name for name in names if name in rounds], rounds):
            if name not in self._rows:
                continue
            number[name] = number.get(name, 0) + 1
            self.tell(f"{name}: round {number[name]} of {rounds[name]}")
            share = plan.seconds * rounds[name] / max(plan.rounds, 1)
            calls = steady_state.calls_of_round(self._rows[name].us, seconds=share, rounds=rounds[name])
            self._order(name, Order.ROUND, calls=calls)
        self._known()
        return max(rounds.values(), default=0)

    def _measure_longer(self) -> None:
        """Repeat the rounds of all configurations while one of them varies too much to compare."""
        for _ in range(_REPEATS):
            timings = [row.measured.device or row.measured.wall for row in self._rows.values()]
            if not any(timing is not None and timing.unsteady for timing in timings):
                return
            self._rounds += self._take_turns(list(self._rows))

    def _conclude(self, names: Sequence[str]) -> None:
        """After the timed rounds: measure memory, profile, check accuracy, then end each process."""
        for name in names:
            self.tell(f"{name}: memory")
            self._order(name, Order.WEIGH)
            if self.plan.profile and name in self._rows:
                self.tell(f"{name}: profiling")
                self._order(name, Order.PROFILE)
        names = [name for name in names if name in self._rows]
        self._read(names)
        self._isolate(names)
        self._close(names)

    def _read(self, names: Sequence[str]) -> None:
        """Compare results and read profiles in all processes in parallel; no call is timed during this step."""
        compares = self.plan.accuracy and any(name != EAGER for name in names)
        steps = [*["comparing results"] * compares, *["reading profiles"] * self.plan.profile]
        if steps:
            self.tell(" and ".join(steps))
        judge = (Order.JUDGE, {**self._compared, "varies": self._varies})
        looks = "" if self.plan.isolated else self._looks
        self._together(
            {  # the long answer after the short one: it may fill the pipe, and is read in turn
                name: [*[judge] * (compares and name != EAGER), (Order.READ, {"look": name == looks})]
                for name in names
            }
        )

    def _isolate(self, names: Sequence[str]) -> None:
        """Time each kernel alone, if requested, with no other process active; then read the machine's state."""
        if not self.plan.isolated:
            return
        self._known()
        for name in names:
            if name != EAGER and name in self._rows:
                self._order(name, Order.ISOLATE)
        if self._looks in names and self._looks in self._rows:
            self._order(self._looks, Order.READ, look=True)

    def _close(self, names: Sequence[str]) -> None:
        """Collect what each process recorded of the compile, search for errors, and end each process."""
        for name in names:
            if name in self._rows:
                self._order(name, Order.FINISH)
        if self._varies == RANDOM:
            self._compare_with_eagers_numbers(names)
        self._known()
        judged = {name: row.measured.accuracy for name, row in self._rows.items() if self.plan.bisect}
        wrong = {name: found for name, found in judged.items() if found is not None and found.passed is False}
        for name in sorted(self._rows, key=wrong.__contains__):  # passing ones first: they free memory
            row = self._rows[name]
            found = wrong.get(name)
            if found is not None:
                self._search(row, found)
            row.other.end()
            self._done[name] = self._rows.pop(name).measured
            if found is not None:
                self._known()

    def _compare_with_eagers_numbers(self, names: Sequence[str]) -> None:
        """Compile again with eager's random numbers and compare results. The timings stay, whatever the outcome."""
        self.tell("comparing results with eager's random numbers")
        for name in names:
            row = self._rows.get(name)
            if row is None or name == EAGER or row.measured.accuracy is None:
                continue
            with contextlib.suppress(EndedError):
                row.ask(Order.JUDGE_RANDOM, self._compared)
                row.answer(Order.JUDGE_RANDOM)

    def _search(self, row: ResultRow, found: Accuracy) -> None:
        """Search for the first line that differs. The measurements stay, whatever the outcome."""
        self.tell(f"{row.measured.name}: looking for the first line that differs")
        seconds = min(filter(None, (row.left, SECONDS)))
        try:
            row.other.ask(Order.SEARCH, seconds=seconds)
            row.take(row.other.answer(Order.SEARCH, seconds + _MORE_SECONDS))
        except EndedError as ended:
            why = f"{found.why}; the first line that differs is not known: {ended.failure.message}"
            row.measured = replace(row.measured, accuracy=replace(found, why=why))

    def _alone(self, name: str) -> None:
        """Measure configurations again that ran out of memory alongside the others, now that those have ended."""
        self._done.pop(name, None)
        self._start(name, alone=True)
        self._await_imports()
        self._begin(name)
        self._rounds = max(self._rounds, self._take_turns([name]))
        self._conclude(list(self._rows))

    def _known(self) -> None:
        self.keep(self.measured())


def no_process(error: OSError) -> Failure:
    """Describe a configuration for which the system could not start a process."""
    return Failure(
        Culprit.ENVIRONMENT,
        "internal",
        f"no process could be started for it: {error}",
        "check the limits on processes, memory and disk space of this machine",
    )


def _is_hopeless(failure: Failure | None) -> bool:
    """Whether every other process would fail the same way: the file or the inputs are not available."""
    return (
        failure is not None
        and failure.phase in {"import", "build", "main", "program"}
        and failure.kind != "memory"
    )
