"""Fake processes of a search, on a clock of their own: compiles, rounds and failures as a test says."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.measure.pool import FLOAT64, EndedError
from fuselight.shared.codec import encode
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import (
    Accuracy,
    Clock,
    Culprit,
    Failure,
    Gap,
    GapKind,
    LaunchKind,
    Machine,
    MeasuredConfiguration,
    MeasuredLaunch,
    Profile,
    Timing,
    TuneCandidate,
    Tuned,
    TunedResult,
)
from fuselight.tune.coordinator import Search
from fuselight.tune.turns import Turns

OPTIONS: dict[str, Any] = {
    "triton.cudagraphs": False,
    "freezing": False,
    "cpp_wrapper": False,
    "coordinate_descent_tuning": False,
    "combo_kernels": False,
    "max_autotune_gemm": False,
}
STEADY = ("ready", "build")
"""Orders that take a short time in every process."""
GRAPHS = "default+triton.cudagraphs=True"
TUNED = f"{GRAPHS}+coordinate_descent_tuning=True"
FROZEN = f"{GRAPHS}+freezing=True"
COMBO = f"{GRAPHS}+combo_kernels=True"
GEMM = f"{GRAPHS}+max_autotune_gemm=True+longest=32"
NAMES = (GRAPHS, TUNED, FROZEN, GEMM, COMBO, "default+combo_kernels=True")


def rows(tuned: Tuned) -> dict[str, TuneCandidate]:
    return {candidate.configuration.name: candidate for candidate in tuned.candidates}


def times(tuned: Tuned, name: str) -> MeasuredConfiguration:
    return rows(tuned)[name].configuration


def failed(kind: str = "exception") -> Failure:
    return Failure(Culprit.USER, kind, f"{kind} in the compile", "fix it")


@dataclass
class FakeTarget:
    """How every configuration of a target behaves, by its name or, for those without an entry, as `default`."""

    us: Mapping[str, float] = field(default_factory=dict)
    """Microseconds of a call."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """What each option multiplies the time of a call with, for configurations that `us` has not."""
    compile_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the first call; infinity: it hangs."""
    fails: Mapping[str, Failure] = field(default_factory=dict)
    """Configurations whose first call fails."""
    wrong: frozenset[str] = frozenset()
    """Configurations whose results differ."""
    jitter: float = 0.0
    """Relative standard deviation of a round."""
    drift: float = 0.0
    """The largest relative slowdown of the machine, which changes slowly."""
    idle: float = 0.5
    """The part of a call of `default` without kernels."""
    varies: str = ""
    reference_s: float = 1.0
    compare_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds in which results are compared, 0.05 if there is no entry."""
    slower_after: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds after which a configuration is slower, and by which factor."""
    faster_rounds: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Which rounds of a configuration are faster, each second or third one, and by which factor."""
    order_s: float = 0.05
    """Seconds of an order that makes few calls or reads what is known."""
    seed: int = 0

    def us_of(self, name: str) -> float:
        if name in self.us:
            return self.us[name]
        slower = [factor for option, factor in self.factors.items() if option in name]
        return self.us.get("default", 1000.0) * math.prod(slower)


class FakeMachine:
    """The clock, and everything that has been started."""

    def __init__(self, target: FakeTarget) -> None:
        self.target = target
        self.now = 0.0
        self.random = random.Random(target.seed)  # noqa: S311 - of a test
        self.processes: list[FakeSearchProcess] = []
        self.kept: list[Tuned] = []
        self.messages: list[str] = []
        self.most_compiles = 0
        self.most_raced = 0
        """Candidates that were alive at the same time after a race."""

    def clock(self) -> float:
        return self.now

    def start(self, name: str) -> FakeSearchProcess:
        self.processes.append(FakeSearchProcess(self, name))
        return self.processes[-1]

    def wait(self, processes: Sequence[Any]) -> None:
        """Advance to the next answer, at most by a second."""
        compiling = [
            process for process in self.processes if process.asked == "first" and process.name != "eager"
        ]
        self.most_compiles = max(self.most_compiles, len(compiling))
        raced = [
            process
            for process in self.processes
            if process.rounds and not process.is_ended and process.name not in {"eager", "default"}
        ]
        self.most_raced = max(self.most_raced, len(raced))
        then = min([process.due for process in processes if process.asked], default=self.now)
        self.now = min(max(self.now, then), self.now + 1.0)

    def search(
        self,
        device: str = "cuda",
        jobs: int = 3,
        cores: float = 0.0,
        began: float | None = None,
        **plan: Any,
    ) -> Tuned:
        plan = {"budget_seconds": 100.0, "seconds": 0.5, "rounds": 8, **plan}
        search = Search(
            TunePlan(**plan), device, self.start, self.messages.append, self.kept.append, self.wait,
            lambda result, answer: replace(result, target="Net", capability=str(answer["capability"])),
            OPTIONS, jobs=jobs, cores=cores, clock=self.clock, began=began, turns=Turns(clock=self.clock),
        )  # fmt: skip
        return search.run()

    def names(self) -> list[str]:
        return [process.name for process in self.processes]


@dataclass
class FakeSearchProcess:
    """The process of one configuration."""

    machine: FakeMachine
    name: str
    asked: str = ""
    due: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    is_ended: bool = False
    paused: float | None = None
    """When it was paused."""
    paused_s: float = 0.0
    """Seconds for which it was paused."""
    orders: list[str] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)

    @property
    def us(self) -> float:
        return self.machine.target.us_of(self.name)

    def ask(self, what: str, /, **details: Any) -> None:
        assert not self.is_ended
        assert not self.asked, "one order at a time"
        assert self.paused is None
        self.orders.append(what)
        self.asked, self.details = what, details
        self.due = self.machine.now + self._seconds(what)

    def _seconds(self, what: str) -> float:
        target = self.machine.target
        if what in STEADY:
            return 0.2
        if what == "first":
            return 0.1 if self.name == "eager" else target.compile_s.get(self.name, 5.0)
        if what == "reference":
            return target.reference_s
        if what == "sample":
            return float(self.details["calls"]) * self.us * self._slower() / 1e6
        if what == "replay" and self.details["artifacts"]:
            return target.compile_s.get(self.name, 5.0)
        return target.compare_s.get(self.name, 0.05) if what == "compare" else target.order_s

    def _slower(self) -> float:
        since, factor = self.machine.target.slower_after.get(self.name, (math.inf, 1.0))
        each, faster = self.machine.target.faster_rounds.get(self.name, (0, 1.0))
        is_faster = each and len(self.rounds) % each == each - 1
        return (factor if self.machine.now >= since else 1.0) / (faster if is_faster else 1.0)

    def has_answer(self) -> bool:
        return bool(self.asked) and self.paused is None and self.machine.now >= self.due

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        assert what == self.asked
        assert self.paused is None, "a paused process answers nothing"
        busy = [
            process.name
            for process in self.machine.processes
            if process is not self and process.asked and not process.is_ended
        ]
        if what in {"sample", "warm", "profile"}:
            running = [
                process
                for process in self.machine.processes
                if process.name in busy and process.paused is None
            ]
            assert not running, f"{[process.name for process in running]} run while {self.name} is timed"
        if seconds and self.due > self.machine.now + seconds:
            self.machine.now += seconds
            raise EndedError(failed("timeout"))
        self.machine.now = max(self.machine.now, self.due)
        self.asked = ""
        answer = self._answer_to(what)
        return answer if what == "sample" else {**answer, "row": encode(self._row(what))}

    def _answer_to(self, what: str) -> dict[str, Any]:
        target = self.machine.target
        if what == "first" and self.name in target.fails:
            raise EndedError(target.fails[self.name])
        if what == "reference":
            return {"varies": target.varies, "float64": "float64.pt"}
        if what == "first":
            answer: dict[str, Any] = {
                "work": "inference",
                "machine": encode(Machine("a device")),
                "traits": ["blocks"],
            }
            return {**answer, "results": "eager.pt"} if self.name == "eager" else answer
        if what == "warm":
            return {"us": self.us}
        if what == "sample":
            drift = 1 + target.drift * abs((self.machine.now / 10) % 2 - 1)
            drift *= self._slower()
            self.rounds.append(self.us * drift * max(0.2, self.machine.random.gauss(1, target.jitter)))
            return {"us": self.rounds[-1]}
        return (
            {"capability": "9.0", "graphs": [{"key": "a", "inputs": ["f32[8, 64]"]}]}
            if what == "replay"
            else {}
        )

    def _row(self, what: str) -> MeasuredConfiguration:
        target = self.machine.target
        seconds = target.compile_s.get(self.name, 5.0)
        row = MeasuredConfiguration(self.name, first_us=1e6 * seconds if math.isfinite(seconds) else None)
        if self.rounds:
            middle = sorted(self.rounds)[len(self.rounds) // 2]
            spread = middle * target.jitter
            timing = Timing(Clock.DEVICE, middle, middle - spread, middle + spread, 10, tuple(self.rounds))
            row = replace(row, device=timing, wall=replace(timing, clock=Clock.WALL))
        compared = "compare_random" if target.varies else "compare"
        if compared in self.orders:
            row = replace(row, accuracy=Accuracy(passed=self.name not in target.wrong, against="float64"))
        elif "compare" in self.orders:
            row = replace(row, accuracy=Accuracy(passed=None, why="eager's results differ between calls"))
        if "read" in self.orders:
            row = replace(row, profile=_profile(self.us, target.idle))
        del what
        return row

    def pause(self) -> None:
        assert self.paused is None
        self.paused = self.machine.now

    def resume(self) -> None:
        assert self.paused is not None
        self.due += self.machine.now - self.paused
        self.paused_s += self.machine.now - self.paused
        self.paused = None

    def end(self) -> None:
        self.is_ended, self.asked, self.paused = True, "", None


def _profile(us: float, idle: float) -> Profile:
    busy = us * (1 - idle)
    launches = (
        MeasuredLaunch("triton_poi_fused", LaunchKind.KERNEL, busy / 2, busy / 2, busy / 2, 4),
        MeasuredLaunch(
            "sm90_gemm", LaunchKind.KERNEL, busy / 2, busy / 2, busy / 2, 2, operator="aten::addmm"
        ),
    )
    gaps = (Gap(GapKind.LAUNCH, us - busy, 6),)
    return Profile("CUPTI", 10, us, busy, busy, busy, launches, gaps)


__all__ = ["FLOAT64", "FakeMachine", "FakeTarget", "TunedResult", "failed"]
