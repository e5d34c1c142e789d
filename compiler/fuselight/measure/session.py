"""One configuration in its own process: first calls, timed rounds, results, and profile.

Invariant: it executes one order at a time, and measures nothing while another process may be measuring.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from fuselight.capture.calls.tensors import SEED, set_seeds
from fuselight.measure import steady_state, timing
from fuselight.measure.accuracy.results import CHANGED, CallResults, ResultCollector
from fuselight.measure.compile_configuration import Compiled
from fuselight.measure.machine import memory
from fuselight.measure.measured_call import Unit
from fuselight.measure.profile import compile_steps
from fuselight.measure.profile.join import read_profile
from fuselight.measure.profile.profiler import (
    NotProfiledError,
    Trace,
    detach,
    read_calls,
    record_lines,
    trace_calls,
)
from fuselight.measure.profile.recording import PlacedOperator, Recording
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import (
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

_SETTLING = 8
"""Calls after the first one in which a target may go on to compile: as often as Dynamo compiles one frame again."""
_WARM_UP = 0.5
"""Maximum fraction of `MeasurePlan.seconds` for the warm-up."""
_PROFILED_LEAST = 3
_PROFILED_MAX = 30
_PROFILED_FRESH = 5
"""Profiled calls if each needs copies of the inputs, all made before the first call."""
_PROFILED_EXTRA = 1
"""Calls that a profile makes in addition to those that it reads."""
_NOT_PROFILED = "not profiled"
_JOINED = 0.99
"""Fraction of the kernels' time that is joined; below it, one more call is made to find the lines of eager work."""


@dataclass
class ConfigurationSession:
    """One configuration of one target."""

    plan: MeasurePlan
    device: torch.device
    compiled: Compiled
    unit: Unit
    roots: tuple[str, ...]
    tell: Callable[[str], None]
    """Reports the current step."""
    compiled_so_far: Callable[[], int]
    """Number of frames whose compilation has begun."""
    row: MeasuredConfiguration = field(init=False)
    us: float = 0.0
    """Time of one steady call by the host's clock, including the wait."""
    counted_us: float = 0.0
    """Time spent in calls of the target."""
    results: CallResults | None = None
    """Results of the first call."""
    replayed: CallResults | None = None
    """Results of a steady call if CUDA graphs are replayed, which the first call does not do. None if they may
    legitimately differ."""
    watched: compile_steps.Watched | None = None
    _rounds: dict[Clock, list[timing.Taken]] = field(default_factory=dict)
    _trace: Trace | None = None
    """Trace of the profiled calls until it is read."""
    _recording: Recording | None = None
    """The profiled calls, parsed, until they are read to the end."""
    _operators: tuple[PlacedOperator, ...] | None = None
    """Eager operators with their lines; None before the call that records them."""
    _detaches: bool = False
    """Whether the profiler is to be detached once it is read."""

    def __post_init__(self) -> None:
        self.row = MeasuredConfiguration(self.compiled.configuration.name)

    def first(self) -> None:
        """Make the first call, on copies of the inputs because it may change them."""
        eager = self.compiled.configuration.eager
        self.tell("first call" if eager else "compiling, first call")
        prepared = self.unit.copied()
        collector = ResultCollector(prepared)
        set_seeds(SEED)
        timing.wait(self.device)
        watch: contextlib.AbstractContextManager[compile_steps.Watched | None] = (
            contextlib.nullcontext() if eager else compile_steps.watching_compiles(self.roots)
        )
        with self.unit.noticing_changes(prepared), watch as self.watched:
            start = timing.now()
            outputs = self.unit.call_with(prepared)
            timing.wait(self.device)
            first = (timing.now() - start) * 1e6
        if self.plan.accuracy:
            self.results = collector.outputs(outputs)
        self.counted_us += first
        self.row = replace(self.row, first_us=first)

    def settle(self) -> None:
        """Make the second call, and further ones until a call compiles nothing: later ones can be timed."""
        self.tell("second call")
        for number in range(_SETTLING):
            before = self.compiled_so_far()
            us = timing.once(self.unit.prepare, self.device)
            self.counted_us += us
            if number == 0:
                self.row = replace(self.row, second_us=us)
            if self.compiled_so_far() == before:
                return

    def warm(self) -> None:
        """Make calls until the time is steady; the second call first, unless it was made."""
        if self.row.second_us is None:
            self.tell("second call")
            second = timing.once(self.unit.prepare, self.device)
            self.counted_us += second
            self.row = replace(self.row, second_us=second)
        self.tell("warming up until the time is steady")
        warm = steady_state.warm_up(
            lambda: timing.once(self.unit.prepare, self.device),
            seconds=self.plan.seconds * _WARM_UP,
            compiled=self.compiled_so_far,
        )
        self.us = steady_state.quartiles(warm[-steady_state.WINDOW :])[1]
        self.counted_us += sum(warm)
        if self._may_be_replayed():
            collector = ResultCollector(self.unit.prepared)
            set_seeds(SEED)
            self.replayed = collector.outputs(self.unit.prepare()())
        self.row = replace(self.row, warm_up_calls=len(warm))

    def _may_be_replayed(self) -> bool:
        """Whether a steady call replays a CUDA graph and must return what the first call returned."""
        if not self.compiled.cudagraphs or self.results is None or self.unit.work is not Work.INFERENCE:
            return False
        return not any(value.name.endswith(CHANGED) for value in self.results.values)

    def weigh(self) -> None:
        """Measure the peak memory of one call."""
        measured = memory.memory_of(
            self._unburdened_call,
            self.device,
            replayed=bool(self.compiled.cudagraphs),
            lasting=self.unit.lasting_tensors,
        )
        self.counted_us += self.us
        self.row = replace(
            self.row, peak_bytes=measured.peak, own_bytes=measured.own, memory=measured.tensors
        )

    def _unburdened_call(self) -> Callable[[], object]:
        """A call before which no gradients are left, of whose end a CPU's allocator would not hear."""
        self.unit.drop_gradients()
        return self.unit.prepare()

    def round(self, calls: int) -> None:
        """Time one round of calls."""
        start, compiled = timing.now(), self.compiled_so_far()
        taken = timing.round_of(
            self.unit.prepare, calls, self.device, cold_cache=self.plan.cold_cache, fresh=self.unit.fresh
        )
        self.counted_us += (timing.now() - start) * 1e6
        if self.compiled_so_far() > compiled:
            self._note("recompiled during the timed calls: the spread includes that")
        for clock, times in taken.items():
            self._rounds.setdefault(clock, []).append(times)
        self.row = replace(self.row, wall=self._timing(Clock.WALL), device=self._timing(Clock.DEVICE))

    def sample(self, calls: int) -> float:
        """Time one round of calls; returns its median in microseconds, by the device's clock if it has one."""
        self.round(calls)
        timing_of_rounds = self.row.device or self.row.wall
        if timing_of_rounds is None:  # a round has at least one call
            raise RuntimeError("the round has no time")
        return timing_of_rounds.rounds_us[-1]

    def _timing(self, clock: Clock) -> Timing | None:
        rounds = self._rounds.get(clock, [])
        return steady_state.timing(
            clock,
            [round_times.us for round_times in rounds],
            sum(round_times.calls for round_times in rounds),
        )

    def profile(self, *, timed_later: bool = False) -> None:
        """Profile calls; if that is not possible, a note says why. Follow it by `read`.

        In eager, one more call records the lines of operators: all work needs them.
        `timed_later`: calls will be timed in this process afterwards, so that no profiler may stay attached.
        """
        most = _PROFILED_FRESH if self.unit.fresh else _PROFILED_MAX
        self._detaches = timed_later and not self.compiled.cudagraphs
        calls = max(_PROFILED_LEAST, min(most, int(self.plan.seconds * 1e6 / max(self.us, 1.0))))
        ready = iter([self.unit.prepare() for _ in range(calls + _PROFILED_EXTRA)] if self.unit.fresh else ())

        def call() -> object:
            prepared_call = (
                next(ready, None) or self.unit.prepare()
            )  # make no copies while the profiler records
            return prepared_call()

        try:
            self._trace = trace_calls(call, calls, self.device)
        except (NotProfiledError, ValueError) as error:
            self._note(f"{_NOT_PROFILED}: {error}")
            return
        if self.compiled.configuration.eager:
            self._record_lines()

    def read(
        self, breaks: Sequence[Break], not_compiled: Sequence[NotCompiled], *, alone: bool = True
    ) -> bool:
        """Read the profile; returns whether it is to be read again, alone.

        `alone`: no other process is active, so that one untimed call may be made to find lines. Next to a busy process,
        each parallel operator of such a call waits for a thread that is not scheduled: a call of 9,000 operators took
        35 seconds.
        """
        is_finished = True
        try:
            is_finished = self._read(breaks, not_compiled, alone=alone)
        except (NotProfiledError, ValueError) as error:
            self._note(f"{_NOT_PROFILED}: {error}")
        if is_finished:
            self._trace = self._recording = None
            if self._detaches:
                self._detaches = False
                detach(self.unit.prepare(), self.device)
        return not is_finished

    def _read(self, breaks: Sequence[Break], not_compiled: Sequence[NotCompiled], *, alone: bool) -> bool:
        """Read the profile, if there is one; returns whether nothing is left to do."""
        if self._trace is not None:
            self.tell("reading the profile")
            self._recording, self._trace = read_calls(self._trace), None
        recording = self._recording
        if recording is None:
            return True
        profile = self._joined(recording, breaks, not_compiled)
        if self._lacks_lines(profile):
            if not alone:
                return False
            self._record_lines()
            profile = self._joined(recording, breaks, not_compiled)
        self._keep(profile)
        return True

    def _keep(self, profile: Profile) -> None:
        self.counted_us += profile.wall_us * profile.calls
        note = steady_state.host_bound_note(profile, self.us) if self.device.type == "cuda" else None
        self.row = replace(self.row, profile=profile, host_bound=note is not None)
        if note is not None:
            self._note(note)

    def _joined(
        self, recording: Recording, breaks: Sequence[Break], not_compiled: Sequence[NotCompiled]
    ) -> Profile:
        self.tell(f"reading the profile, {len(recording.events):,} events")
        return read_profile(
            replace(recording, operators=self._operators or ()),
            self.compiled.graphs,
            # Other backends' graphs run within regions that end at breaks, as eager work at the breaks does.
            breaks=breaks if self.compiled.by_inductor else (),
            not_compiled=not_compiled,
        )

    def _lacks_lines(self, profile: Profile) -> bool:
        """Whether so much eager work has no line that a call to find it is worthwhile."""
        return (
            self._operators is None
            and bool(self.compiled.by_inductor)
            and profile.joined_us < _JOINED * profile.device_us
        )

    def _record_lines(self) -> None:
        self.tell("finding the lines of eager operators")
        compiled = not self.compiled.configuration.eager
        self._operators = record_lines(self.unit.prepare(), self.device, compiled=compiled)

    def isolate(self) -> None:
        """Also run the generated kernels alone."""
        profile = self.row.profile
        if profile is None:
            return
        self.tell("each kernel alone")
        if self.compiled.cudagraphs:
            self._note("no isolated times: CUDA graphs are replayed whole, and launch no kernel by itself")
            return
        from fuselight.measure.profile.isolated import isolated_times, with_isolated  # noqa: PLC0415 - with Inductor

        try:
            times = isolated_times(
                self.compiled.by_inductor, self.unit.prepare(), self.device, cold_cache=self.plan.cold_cache
            )
        except RuntimeError as error:  # the stored launch arguments may need more memory than is free
            self._note(f"no isolated times: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
            return
        self.row = replace(self.row, profile=with_isolated(profile, times))

    def _note(self, text: str) -> None:
        if text not in self.row.notes:
            self.row = replace(self.row, notes=(*self.row.notes, text))

    def store_accuracy(self, accuracy: Accuracy | None) -> None:
        """Store the outcome of the accuracy comparison."""
        self.row = replace(self.row, accuracy=accuracy)

    def store_compiles(
        self, compiles: Sequence[Compile], frames: Sequence[Frame], breaks: int, recompiles: int
    ) -> None:
        """Store what the recorder learned about the compile."""
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
            notes=(*self.row.notes, *self.unit.notes, *self.compiled.notes, *lacks),
        )
