"""A program whose compiled calls are compared, for tests of what is asked of the worker and what is said.

The program is scripted by its faults: each says which call is wrong, from which backend on, and which setting cures it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import (
    STAGE_BACKENDS,
    Accuracy,
    Aspect,
    ComparedCall,
    Difference,
    KernelReplay,
    Location,
    Problem,
    RandomDraws,
    Report,
    ResultComparison,
    Stage,
    TensorError,
)
from tests.support.reports import FILE, at, report

RIGHT = Accuracy(passed=True, tolerance=1e-4, against="float64", compared=2)
WRONG = Accuracy(
    passed=False,
    why="output differs (root mean square error 0.8 from float64, where eager's is 1.2e-07)",
    tolerance=1e-4,
    against="float64",
    compared=2,
    tensors=(TensorError("output", 0.6, 1.905, 3.0, passed=False),),
)
UNDECIDED = Accuracy(passed=None, why="the call draws random numbers, and compiled code draws others")
STATE = (Difference(Aspect.STATE, "state: self.count was 2, is 1"),)
RANDOM = "torch._inductor.config.fallback_random"


def compared_call(index: int, accuracy: Accuracy = RIGHT, **changes: Any) -> ComparedCall:
    """A call of `Net`, defined on line 10, from line 40."""
    call = ComparedCall(index, "Net", at(10), at(40), accuracy, eager_seconds=0.002, compiled_seconds=0.004)
    return replace(call, **changes)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a call."""

    stage: Stage = Stage.CODE
    cures: tuple[str, ...] = ()
    """Settings, by the end of the name."""
    cured_jointly: bool = False
    """Whether only all of them together cure."""
    cured_by: str = "nothing"
    """A part of a changed file that cures it."""
    times: int | None = None
    """In how many runs the call is wrong; None: in all."""
    line: int = 12
    """Of the first operator that differs."""


@dataclass
class ScriptedProgram:
    """Answers each AccuracyRequest as a program with these faults does, and any other request with a plain report."""

    faults: dict[int, Fault] = field(default_factory=dict)
    calls: int = 3
    functions: dict[int, str] = field(default_factory=dict)
    random: frozenset[int] = frozenset()
    draws: RandomDraws | None = None
    """What the random numbers of these calls show as distributions."""
    other_numbers: frozenset[int] = frozenset()
    """Random calls that draw other numbers with eager mode's generator, too."""
    unknown: tuple[str, ...] = ()
    """Settings that its torch lacks, by the end of the name."""
    broken: tuple[str, ...] = ()
    """Backends with which nothing can be compared."""
    slower: float = 1.0
    """Compiled calls take so much longer if a setting is changed."""
    against: str = ""
    """The configuration that calls are compared with."""
    replaced: tuple[str, ...] = ()
    """Parts of the compiler that the program replaces."""
    requests: list[AccuracyRequest] = field(default_factory=list)

    def answer(self, request: Any) -> Report:
        """The report of a run."""
        target = replace(report().target, path=request.target.path, name=request.target.name)
        plain = report(target=target, roots=request.roots or ("/w",))
        if not isinstance(request, AccuracyRequest):
            return plain
        self.requests.append(request)
        due = [index for index in range(self.calls) if not request.calls or index in request.calls]
        calls = tuple(self._call(index, request) for index in due)
        lacking = [name for name in request.settings if name.rpartition(".")[2] in self.unknown]
        results = ResultComparison(
            calls,
            self.calls,
            backend=request.backend,
            settings=dict(request.settings),
            against=self.against,
            replaced=self.replaced,
        )
        problems = tuple(Problem("settings", name, "there is no such setting") for name in lacking)
        return replace(plain, results=results, problems=problems)

    def _call(self, index: int, request: AccuracyRequest) -> ComparedCall:
        call = self._placed(compared_call(index, is_random=index in self.random), request)
        if request.backend in self.broken and request.backend:
            return replace(call, accuracy=Accuracy(passed=None, why="it cannot be compared"))
        if index in self.random and (index in self.other_numbers or RANDOM not in request.settings):
            return replace(call, accuracy=UNDECIDED, draws=self.draws)
        if not self._is_wrong(index, request):
            replay = KernelReplay(judged=3) if request.kernels else None
            return replace(call, accuracy=replace(call.accuracy, replay=replay))
        accuracy = WRONG
        if request.locate_seconds and index == min(set(request.calls) & self.faults.keys()):
            fault = self.faults[index]
            first = (Location(call.location.path if call.location else FILE, fault.line),)
            accuracy = replace(WRONG, first=first, first_operator="torch.flip")
        return replace(call, accuracy=accuracy)

    def _placed(self, call: ComparedCall, request: AccuracyRequest) -> ComparedCall:
        path = request.target.path
        seconds = 0.004 * (self.slower if request.settings else 1.0)
        return replace(
            call,
            name=self.functions.get(call.index, "Net"),
            location=Location(path, 10),
            caller=Location(path, 40),
            compiled_seconds=seconds,
        )

    def _is_wrong(self, index: int, request: AccuracyRequest) -> bool:
        fault = self.faults.get(index)
        if fault is None:
            return False
        cures = [any(name.endswith(cure) for name in request.settings) for cure in fault.cures]
        if all(cures) and cures if fault.cured_jointly else any(cures):
            return False
        if any(fault.cured_by in text for text in request.overlays.values()):
            return False
        if fault.times is not None and len(self.requests) > fault.times:
            return False
        backends = [*STAGE_BACKENDS.values(), ""]
        stages = list(Stage)
        return backends.index(request.backend) >= stages.index(fault.stage)
