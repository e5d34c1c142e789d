"""Fake processes of a benchmark's configurations, for tests of the coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.measure.coordinator import Measuring
from fuselight.measure.pool import EndedError
from fuselight.shared.codec import encode
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import (
    Accuracy,
    Clock,
    Culprit,
    Failure,
    Machine,
    Measured,
    MeasuredConfiguration,
    Profile,
    Timing,
)

TIMED = Timing(Clock.WALL, 100.0, 99.0, 101.0, 10, (100.0,))


def failure(kind: str = "exception", phase: str = "measure") -> Failure:
    return Failure(Culprit.USER, kind, f"{kind} in {phase}", "fix it", phase=phase)


@dataclass
class FakeClock:
    """A clock in seconds that only `wait_until` advances."""

    now: float = 0.0

    def perf_counter(self) -> float:
        return self.now

    def wait_until(self, then: float, seconds: float) -> None:
        """Advance to `then`, or by at most `seconds` and raise EndedError; 0 means no limit."""
        if seconds and then > self.now + seconds:
            self.now += seconds
            raise EndedError(failure("timeout"))
        self.now = max(self.now, then)


@dataclass
class FakeProcess:
    """The process of one configuration. `fails` maps the orders at which it ends to the failure."""

    name: str
    log: list[str]
    clock: FakeClock
    fails: dict[str, Failure] = field(default_factory=dict)
    wrong: bool = False
    unsteady: int = 0
    """Rounds until its time is steady."""
    takes: dict[str, float] = field(default_factory=dict)
    """Seconds that each order takes."""
    lacks_lines: bool = False
    """Whether its profile needs a call that shows lines, for which no other process may be active."""
    row: MeasuredConfiguration = field(init=False)
    ended: int = 0
    orders: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, Any], float]] = field(default_factory=list)
    waited: list[tuple[str, float]] = field(default_factory=list)
    """Orders, and the limit in seconds for their answers."""

    def __post_init__(self) -> None:
        self.row = MeasuredConfiguration(self.name)

    def ask(self, what: str, /, **details: Any) -> None:
        assert not self.ended
        self.log.append(f"{self.name} {what}?")
        self.orders.append((what, details))
        self.asked.append((what, details, self.clock.now))

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        self.log.append(f"{self.name} {what}")
        asked, details, began = self.asked.pop(0)
        assert what == asked, "answers must come in the order of the questions"
        self.waited.append((what, seconds))
        self.clock.wait_until(began + self.takes.get(what, 0.0), seconds)
        if what in self.fails:
            raise EndedError(self.fails[what])
        if what == "reference":
            return {"varies": "", "float64": "float64.pt"}
        answer: dict[str, Any] = {}
        if what == "first":
            answer = {"fresh": False, "work": "inference", "device": "cpu"}
            if self.name == "eager":
                answer["results"] = "eager.pt"
            self.row = replace(self.row, first_us=5e6)
        elif what == "warm":
            answer = {"us": 1000.0}
            self.row = replace(self.row, second_us=1100.0)
        elif what == "round":
            self.unsteady -= 1
            self.row = replace(self.row, wall=replace(TIMED, unsteady=self.unsteady >= 0))
        elif what in {"compare", "search"}:
            self.row = replace(self.row, accuracy=self.accuracy_after(what, details))
        elif what == "read":
            answer = {"again": self.lacks_lines and not details.get("alone", True)}
            profile = None if answer["again"] else Profile("CUPTI", 1, 10.0, 9.0, 9.0, 9.0)
            self.row = replace(self.row, profile=profile)
        if what == "first" or details.get("look"):
            answer["machine"] = encode(Machine("a device", notes=(what,)))
        return {**answer, "row": encode(self.row), "seconds": 0.5}

    def accuracy_after(self, what: str, details: dict[str, Any]) -> Accuracy:
        if what == "search":
            assert details["seconds"] <= 300.0
            return Accuracy(passed=False, first_operator="torch.relu")
        assert details == {"float64": "float64.pt", "eager": "eager.pt", "varies": "", "drawn": []}
        return Accuracy(passed=False, why="it differs") if self.wrong else Accuracy(passed=True)

    def end(self) -> None:
        self.ended += 1


@dataclass
class FakeProcesses:
    """All processes of one benchmark."""

    fails: dict[str, list[dict[str, Failure]]] = field(default_factory=dict)
    unsteady: dict[str, int] = field(default_factory=dict)
    """Rounds until the time of a configuration is steady."""
    wrong: tuple[str, ...] = ()
    """Configurations whose results differ from eager's."""
    without_lines: tuple[str, ...] = ()
    """Configurations whose profiles need a call that shows lines."""
    takes: dict[str, dict[str, float]] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    log: list[str] = field(default_factory=list)
    processes: list[FakeProcess] = field(default_factory=list)
    kept: list[Measured] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    started: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Names of the started processes, with the log at that time."""

    def start(self, name: str) -> FakeProcess:
        self.started.append((name, tuple(self.log)))
        waiting = self.fails.get(name, [])
        fails = waiting.pop(0) if waiting else {}
        self.processes.append(
            FakeProcess(
                name,
                self.log,
                self.clock,
                fails,
                name in self.wrong,
                self.unsteady.get(name, 0),
                self.takes.get(name, {}),
                name in self.without_lines,
            )
        )
        return self.processes[-1]

    def measure(self, *names: str, **plan: Any) -> Measured:
        measuring = Measuring(
            MeasurePlan(**plan), ("eager", *names), self.start, self.messages.append, self.kept.append,
            clock=self.clock.perf_counter,
        )  # fmt: skip
        return measuring.run()

    def orders_of(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """All orders to the process of a configuration."""
        return [order for process in self.processes if process.name == name for order in process.orders]

    def waited(self, name: str, what: str) -> float:
        """The limit in seconds for an answer of a process."""
        (seconds,) = [
            seconds
            for process in self.processes
            for order, seconds in process.waited
            if (process.name, order) == (name, what)
        ]
        return seconds


def without_questions(log: list[str]) -> list[str]:
    """The log without questions that are answered immediately."""
    return [line for line, later in zip(log, [*log[1:], ""], strict=True) if line != f"{later}?"]
