"""The peaks of a benchmark's configurations, estimated on fake tensors in a process of their own.

Invariant: the step that is estimated is the measured one: as long as a benchmark holds outputs, so does the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuselight.adapters.torch_api.fake_numbers import assumed_sizes
from fuselight.capture.calls.calls import call_mode
from fuselight.capture.calls.present_device import present_device
from fuselight.capture.calls.rungs import Answered
from fuselight.measure.machine import conditions
from fuselight.measure.measured_call import Unit, work_of
from fuselight.shared.configurations import EAGER, MODES, WRITTEN
from fuselight.shared.devices import find
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import (
    Device,
    Machine,
    Measured,
    MeasuredConfiguration,
    MemoryPeak,
    StepPhase,
    Work,
)
from fuselight.worker.child import child
from fuselight.worker.child.request_results import TimedResult
from fuselight.worker.child.state import ChildJob, RunState
from fuselight.worker.child.target_run import Climb, run_target
from fuselight.worker.memory.estimate_run import EstimateMemory
from fuselight.worker.memory.steps import Step, StepObserver
from fuselight.worker.timed.order_handlers import planned_call

ESTIMATE = "estimate"
"""Name of the process; it is not a configuration."""


def estimate(job: ChildJob) -> None:
    """Estimate the peaks of a job's target, and end the process; its report has a row of each known configuration."""
    plan = job.plan
    request = job.request.of_kind(MemoryRequest)
    fake = replace(job, request=request, fake="memory is estimated without allocating it")
    child.run(fake, lambda state: run_target(state, EstimateConfigurations(_device(plan), plan=plan)))


def _device(plan: MeasurePlan) -> Device:
    chosen = conditions.choose(plan.device)
    return (present_device(chosen.index) if chosen.type == "cuda" else None) or find("cpu")


@dataclass
class EstimateConfigurations(EstimateMemory):
    """Makes the measured call twice in eager mode and twice compiled (target_run.RunStrategy)."""

    plan: MeasurePlan = MeasurePlan()  # noqa: RUF009 - frozen

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb, names
        planned = planned_call(answered, self.plan)
        with state.step("build", planned.text, planned.location):
            prepared = planned.build()
        work = work_of(self.plan.work, prepared)
        training = work is not Work.INFERENCE
        prepared = replace(prepared, options=replace(prepared.options, train=training))
        with (
            state.step("call", planned.text, planned.location),
            call_mode(prepared),
            assumed_sizes(lambda: None),
        ):
            step = BenchmarkStep(prepared, training, work=work)
            eager, compiled = self._eager(state, step, prepared), self._compiled(state, step, prepared)
        rows = [_row(EAGER, eager.peak), *(_row(name, compiled.peak) for name in compiled_names(state))]
        state.result = TimedResult(measured=Measured(work, Machine("?"), tuple(rows)))


def compiled_names(state: RunState) -> Sequence[str]:
    """The configurations that compile as the source does: also `default` if the source asks for nothing else."""
    asked = state.asked.calls
    is_plain = all(
        call.mode in {None, MODES[0]} and not call.options and call.backend in {None, "inductor"}
        for call in asked
    )
    return [WRITTEN, *([MODES[0]] if is_plain else [])]


def _row(name: str, peak: MemoryPeak | None) -> MeasuredConfiguration:
    return MeasuredConfiguration(name, estimated_bytes=peak.bytes if peak is not None else None)


@dataclass
class BenchmarkStep(Step):
    """The call that a benchmark measures: its outputs are alive until its end."""

    work: Work = Work.INFERENCE

    def make(self, function: Callable[..., Any], observer: StepObserver) -> None:
        """As in Step, but all is one part: the peak is estimated without its lines."""
        observer.began(StepPhase.FORWARD)
        unit = Unit(self.prepared, function, self.work)
        unit.call_with(unit.prepared)


def with_estimates(
    rows: Sequence[MeasuredConfiguration], estimated: Measured | None
) -> tuple[MeasuredConfiguration, ...]:
    """The configurations with what was estimated of them."""
    known = (
        {row.name: row.estimated_bytes for row in estimated.configurations} if estimated is not None else {}
    )
    return tuple(replace(row, estimated_bytes=known.get(row.name)) for row in rows)
