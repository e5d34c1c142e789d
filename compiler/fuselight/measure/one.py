"""One configuration in its own process: its first calls, its rounds of timed calls, its results, its profile.

Invariant: it does what it is told, one thing after the other, and measures nothing while another one may be measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.measure import compile_steps, memory, steady, timing
from fuselight.measure.configured import Compiled
from fuselight.measure.joining import read_profile
from fuselight.measure.profiling import NotProfiledError, Trace, read_calls, record_lines, trace_calls
from fuselight.measure.results import CHANGED, Results, Taking
from fuselight.measure.working import Unit
from fuselight.protocol import MeasurePlan
from fuselight.report import (
    Accuracy,
    Break,
    Clock,
    Compile,
    Frame,
    MeasuredConfiguration,
    NotCompiled,
    Profile,
    Timing,
    Work,
)
from fuselight.target.tensors import SEED, set_seeds

_WARM_UP = 0.5
"""Part of `MeasurePlan.seconds` that the warm-up may take, at the most."""
_PROFILED_LEAST = 3
_PROFILED_MOST = 30
_PROFILED_FRESH = 5
"""Where each has copies of the inputs, which are there before the first."""
_PROFILED_BESIDE = 1
"""Calls that a profile makes beside those that it reads."""
_NOT_PROFILED = "not profiled"
_JOINED = 0.99
"""Part of the kernels' time that is joined; below it, one more call is made that tells the lines of eager work."""


@dataclass
class One:
    """One configuration of one target."""

    plan: MeasurePlan
    device: torch.device
    compiled: Compiled
    unit: Unit
    roots: tuple[str, ...]
    tell: Callable[[str], None]
    """Says in words what is being done."""
    compiled_so_far: Callable[[], int]
    """How many frames Dynamo has begun with."""
    row: MeasuredConfiguration = field(init=False)
    us: float = 0.0
    """What one steady call takes by the host's clock, waited for."""
    counted_us: float = 0.0
    """Time spent in calls of the target."""
    results: Results | None = None
    """Of the first call."""
    replayed: Results | None = None
    """Of a steady call, where CUDA graphs are replayed: the first one is not. None where it may rightly differ."""
    watched: compile_steps.Watched | None = None
    _rounds: dict[Clock, list[timing.Taken]] = field(default_factory=dict)
    _trace: Trace | None = None
    """Of profiled calls, until it is read."""

    def __post_init__(self) -> None:
        self.row = MeasuredConfiguration(self.compiled.configuration.name)

    def first(self) -> None:
        """Make the first call, on copies of the inputs: it may change them."""
        eager = self.compiled.configuration.eager
        self.tell("first call" if eager else "compiling, first call")
        prepared = self.unit.copied()
        taking = Taking(prepared)
        set_seeds(SEED)
        timing.wait(self.device)
        with self.unit.noticing_changes(prepared):
            if eager:
                first, outputs = self._timed(lambda: self.unit.made(prepared))
            else:
                with compile_steps.watching_compiles(self.roots) as self.watched:
                    first, outputs = self._timed(lambda: self.unit.made(prepared))
        if self.plan.accuracy:
            self.results = taking.outputs(outputs)
        self.counted_us += first
        self.row = replace(self.row, first_us=first)

    def warm(self) -> None:
        """Make the second call, and go on until the time is steady."""
        self.tell("second call")
        second = timing.once(self.unit.prepare, self.device)
        self.row = replace(self.row, second_us=second)
        self.tell("warming up until the time is steady")
        warm = steady.warm_up(
            lambda: timing.once(self.unit.prepare, self.device),
            seconds=self.plan.seconds * _WARM_UP,
            compiled=self.compiled_so_far,
        )
        self.us = steady.quartiles(warm[-steady.WINDOW :])[1]
        self.counted_us += second + sum(warm)
        if self._may_be_replayed():
            taking = Taking(self.unit.prepared)
            set_seeds(SEED)
            self.replayed = taking.outputs(self.unit.prepare()())
        self.row = replace(self.row, warm_up_calls=len(warm))

    def _may_be_replayed(self) -> bool:
        """Whether a steady call replays a CUDA graph, and has to give what the first one gave."""
        if not self.compiled.cudagraphs or self.results is None or self.unit.work is not Work.INFERENCE:
            return False
        return not any(one.name.endswith(CHANGED) for one in self.results.values)

    def _timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        start = timing.now()
        outputs = call()
        timing.wait(self.device)
        return (timing.now() - start) * 1e6, outputs

    def weigh(self) -> None:
        """Measure the peak of memory in one call."""
        peak, own = memory.peak_of(self.unit.prepare(), self.device, replayed=bool(self.compiled.cudagraphs))
        self.counted_us += self.us
        self.row = replace(self.row, peak_bytes=peak, own_bytes=own)

    def round(self, calls: int) -> None:
        """Time one round of calls."""
        start, compiled = timing.now(), self.compiled_so_far()
        taken = timing.round_of(
            self.unit.prepare, calls, self.device, cold_cache=self.plan.cold_cache, fresh=self.unit.fresh
        )
        self.counted_us += (timing.now() - start) * 1e6
        if self.compiled_so_far() > compiled:
            self._note("compiled again while it was timed: the spread has that in it")
        for clock, times in taken.items():
            self._rounds.setdefault(clock, []).append(times)
        self.row = replace(self.row, wall=self._timing(Clock.WALL), device=self._timing(Clock.DEVICE))

    def _timing(self, clock: Clock) -> Timing | None:
        rounds = self._rounds.get(clock, [])
        return steady.timing(clock, [one.us for one in rounds], sum(one.calls for one in rounds))

    def profile(self) -> None:
        """Profile calls; where there can be no profile, a note says why."""
        most = _PROFILED_FRESH if self.unit.fresh else _PROFILED_MOST
        calls = max(_PROFILED_LEAST, min(most, int(self.plan.seconds * 1e6 / max(self.us, 1.0))))
        ready = iter(
            [self.unit.prepare() for _ in range(calls + _PROFILED_BESIDE)] if self.unit.fresh else ()
        )

        def call() -> object:
            made = next(ready, None) or self.unit.prepare()  # copies of inputs are not made while it records
            return made()

        try:
            self._trace = trace_calls(call, calls, self.device)
        except (NotProfiledError, ValueError) as error:
            self._note(f"{_NOT_PROFILED}: {error}")

    def read(self, breaks: Sequence[Break], not_compiled: Sequence[NotCompiled]) -> None:
        """Read what was profiled. May make one call more, which tells lines alone: others may be busy meanwhile."""
        trace, self._trace = self._trace, None
        if trace is None:
            return
        try:
            profile = self._read(trace, breaks, not_compiled)
        except (NotProfiledError, ValueError) as error:
            self._note(f"{_NOT_PROFILED}: {error}")
            return
        self.counted_us += profile.wall_us * profile.calls
        self.row = replace(self.row, profile=profile)

    def _read(self, trace: Trace, breaks: Sequence[Break], not_compiled: Sequence[NotCompiled]) -> Profile:
        recording = read_calls(trace)
        if self.compiled.configuration.eager:
            operators = record_lines(self.unit.prepare(), self.device, compiled=False)
            recording = replace(recording, operators=operators)
        # Another backend's graphs run within the regions that end at breaks, as eager work at the breaks does.
        lines = breaks if self.compiled.by_inductor else ()
        profile = read_profile(recording, self.compiled.graphs, breaks=lines, not_compiled=not_compiled)
        if not self.compiled.by_inductor or profile.joined_us >= _JOINED * profile.device_us:
            return profile
        operators = record_lines(self.unit.prepare(), self.device, compiled=True)
        recording = replace(recording, operators=operators)
        return read_profile(recording, self.compiled.graphs, breaks=lines, not_compiled=not_compiled)

    def isolate(self) -> None:
        """Run the generated kernels alone as well."""
        profile = self.row.profile
        if profile is None:
            return
        self.tell("each kernel alone")
        if self.compiled.cudagraphs:
            self._note("no isolated times: CUDA graphs are replayed whole, and launch no kernel by itself")
            return
        from fuselight.measure.isolated import isolated_times, with_isolated  # noqa: PLC0415 - with Inductor

        try:
            times = isolated_times(
                self.compiled.by_inductor, self.unit.prepare(), self.device, cold_cache=self.plan.cold_cache
            )
        except RuntimeError as error:  # what it keeps of each launch may be more than there is memory for
            self._note(f"no isolated times: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
            return
        self.row = replace(self.row, profile=with_isolated(profile, times))

    def _note(self, text: str) -> None:
        if text not in self.row.notes:
            self.row = replace(self.row, notes=(*self.row.notes, text))

    def judged(self, accuracy: Accuracy | None) -> None:
        """Take what a comparison of the results came to."""
        self.row = replace(self.row, accuracy=accuracy)

    def finish(
        self, compiles: Sequence[Compile], frames: Sequence[Frame], breaks: int, recompiles: int
    ) -> None:
        """Take what the recorder learnt of the compile."""
        eager = self.compiled.configuration.eager
        watched = self.watched
        steps = compile_steps.steps(watched, compiles, frames) if watched is not None else ()
        lacks = compile_steps.lacks(watched) if watched is not None else ()
        self.row = replace(
            self.row,
            generated=self.compiled.graphs,
            compile_steps=steps,
            graph_breaks=None if eager else breaks,
            compiles=None if eager else len(compiles),
            recompiles=None if eager else recompiles,
            cudagraphs=self.compiled.cudagraphs,
            notes=(*self.row.notes, *self.unit.notes, *lacks),
        )
