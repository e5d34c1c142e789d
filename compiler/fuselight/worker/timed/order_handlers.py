"""What the process of a configuration does for each order of its coordinator.

Invariant: every call of the target is built by `TargetCalls`, in the same way and with the same seeds.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from fuselight.adapters.torch_api.choices.launch_tuning import LaunchTuning
from fuselight.capture.calls.calls import PlannedCall, Prepared
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.calls.tensors import set_seeds
from fuselight.measure.accuracy import RANDOM, results
from fuselight.measure.accuracy.check import AccuracyCheck
from fuselight.measure.accuracy.drawn_numbers import drawn_by
from fuselight.measure.accuracy.reference import ReusedBuild, float64_results, varies
from fuselight.measure.accuracy.results import CallResults
from fuselight.measure.artifacts import save_artifacts
from fuselight.measure.compile_configuration import Compiled
from fuselight.measure.machine import conditions
from fuselight.measure.measured_call import Unit, on_device, work_of
from fuselight.measure.orders import Order
from fuselight.measure.session import ConfigurationSession
from fuselight.replay.machine_key import machine_key
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.configurations import EAGER, ConfigurationError, configuration_title
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import Work
from fuselight.tune.knobs import Trait
from fuselight.worker.child.compiled_blocks import compile_blocks, find_blocks
from fuselight.worker.child.state import RunState, put, put_ahead
from fuselight.worker.child.target_run import Climb

CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
"""Variables that name folders of caches, and the folders in that of a configuration."""
_HOPPER = (9, 0)
Handler = Callable[..., dict[str, Any] | None]
"""Takes the details of an order as keywords, and returns the answer besides the row."""


class OrderHandlers(Protocol):
    """Follows the orders of a coordinator."""

    @property
    def session(self) -> ConfigurationSession | None:
        """The measurements; None before the target is built, and in the reference process."""
        ...

    def handlers(self) -> Mapping[Order, Handler]:
        """The orders that it can follow now."""
        ...


def planned_call(answered: Answered, plan: MeasurePlan) -> PlannedCall:
    """The call that is measured."""
    return answered.calls[min(plan.call, len(answered.calls) - 1)]


@dataclass
class TargetCalls:
    """Builds the call that is measured, as often as it is needed."""

    state: RunState
    planned: PlannedCall
    climb: Climb
    names: Mapping[str, Any]
    """Those of the user's file."""
    device: torch.device
    compiled: Compiled
    blocks: tuple[str, ...] = ()
    """Names of the blocks that are compiled one by one instead of the whole."""
    _is_unused: bool = True
    """Whether `planned` was not built yet: what a provider returned may have taken long to make."""

    @property
    def plan(self) -> MeasurePlan:
        """What to measure."""
        return self.state.job.plan

    def build(self) -> Prepared:
        """Build the target and its inputs on the device."""
        set_seeds()
        planned = self.planned if self._is_unused else planned_call(self.climb(), self.plan)
        self._is_unused = False
        prepared = on_device(planned.build(), self.names, self.device)
        training = work_of(self.plan.work, prepared) is not Work.INFERENCE
        return replace(prepared, options=replace(prepared.options, train=training))

    def form(self, prepared: Prepared) -> Callable[..., Any]:
        """What to call: the compiled form of the target, or the target with compiled blocks."""
        if not self.compiled.configuration.blocks:
            return self.state.compiled_form(prepared)
        self.blocks = compile_blocks(prepared)
        return prepared.function

    def results_of(self, seed: int) -> CallResults:
        """The results of a first call, built again."""
        prepared = self.build()
        return results.of_call(
            prepared,
            self.form(prepared),
            self.plan.work,
            seed=seed,
            compiles_optimizer=self.compiled.configuration.optimizer,
        )

    @property
    def results_path(self) -> str:
        """File in which other processes find this process's results."""
        return os.path.join(self.state.job.directory, "results.pt")


@dataclass
class ReferenceOrders:
    """The orders of the process that computes the reference; it compiles nothing."""

    calls: TargetCalls
    session: None = None

    def handlers(self) -> Mapping[Order, Handler]:
        """As in OrderHandlers."""
        return {Order.REFERENCE: self.reference}

    def reference(self) -> dict[str, Any]:
        """Results of the call in float64, and whether eager's results vary."""
        calls, state = self.calls, self.calls.state
        build, work = ReusedBuild(calls.build), calls.plan.work
        state.progress.tell("measure", "whether eager gives the same each time")
        answer: dict[str, Any] = {"varies": varies(build, work)}
        if answer["varies"] == RANDOM:
            answer["drawn"] = drawn_by(calls.build, work)
        state.progress.tell("measure", "the reference in float64")
        reference, why = float64_results(build, work)
        if reference is None:
            answer["why"] = why
        else:
            reference.save(calls.results_path)
            answer["float64"] = calls.results_path
        return answer


@dataclass
class ConfigurationOrders:
    """The orders of the process of a configuration, once its file is imported."""

    name: str
    calls: TargetCalls
    entered: contextlib.ExitStack
    """Holds what stays active until the last order."""
    tuning: LaunchTuning
    start_compile_workers: Callable[[], None]
    built: BuiltOrders | None = None

    @property
    def session(self) -> ConfigurationSession | None:
        """As in OrderHandlers."""
        return self.built.session if self.built is not None else None

    def handlers(self) -> Mapping[Order, Handler]:
        """As in OrderHandlers."""
        after = self.built.handlers() if self.built is not None else {}
        return {Order.READY: lambda: None, Order.BUILD: self.build, **after}

    def build(self) -> None:
        """Build the target; from here on it can be called and measured."""
        calls, state = self.calls, self.calls.state
        with state.step("build", calls.planned.text, calls.planned.location):
            prepared = calls.build()
        state.phase = "measure"
        self.start_compile_workers()
        work = work_of(calls.plan.work, prepared)
        compiles_optimizer = calls.compiled.configuration.optimizer
        if compiles_optimizer and work is not Work.TRAINING_STEP:
            raise ConfigurationError(
                f"`optimizer` changes nothing: {work.value.replace('_', ' ')} has no optimizer's step"
            )
        repeated_blocks = tuple(find_blocks(prepared))
        unit = Unit(prepared, calls.form(prepared), work, compiles_optimizer=compiles_optimizer)
        session = ConfigurationSession(
            calls.plan,
            calls.device,
            calls.compiled,
            unit,
            state.job.request.roots,
            lambda text: state.progress.tell("measure", f"{configuration_title(self.name)}: {text}"),
            lambda: state.progress.frame_count,
        )
        self.entered.enter_context(unit.mode())
        self.entered.enter_context(state.recorder.call(0))
        self.built = BuiltOrders(self.name, calls, session, self.tuning, repeated_blocks)


@dataclass
class BuiltOrders:
    """The orders that need a built target."""

    name: str
    calls: TargetCalls
    session: ConfigurationSession
    tuning: LaunchTuning
    repeated_blocks: tuple[str, ...]
    """Names of the model's repeated blocks."""
    before: conditions.Look = field(init=False)
    """The machine's state before the first call."""

    def __post_init__(self) -> None:
        session, check = self.session, AccuracyCheck(self.session, self.calls.results_of)
        self._handlers: Mapping[Order, Handler] = {
            Order.FIRST: self.first,
            Order.SETTLE: session.settle,
            Order.WARM: self.warm,
            Order.ROUND: session.round,
            Order.SAMPLE: self.sample,
            Order.COMPARE: check.compare,
            Order.COMPARE_RANDOM: check.compare_random,
            Order.WEIGH: session.weigh,
            Order.PROFILE: session.profile,
            Order.READ: self.read,
            Order.ISOLATE: session.isolate,
            Order.SEARCH: check.search,
            Order.REPLAY: self.replay,
            Order.FINISH: self.write_report,
        }

    def handlers(self) -> Mapping[Order, Handler]:
        """The handler of each order."""
        return self._handlers

    def first(self) -> dict[str, Any]:
        """Make the first call."""
        calls, session = self.calls, self.session
        self.before = conditions.look(calls.device)
        try:
            session.first()
        finally:
            self.tuning.end()
        calls.compiled.choices.share()
        answer: dict[str, Any] = {
            "fresh": session.unit.fresh,
            "work": session.unit.work.value,
            "device": calls.device.type,
            "machine": encode(conditions.machine_of(self.before, self.before)),
            "traits": [trait.value for trait in self._traits()],
        }
        if self.name == EAGER and session.results is not None:
            session.results.save(calls.results_path)
            answer["results"] = calls.results_path
        return answer

    def warm(self) -> dict[str, Any]:
        """Make calls until their time is steady."""
        self.session.warm()
        return {"us": self.session.us}

    def sample(self, calls: int) -> dict[str, Any]:
        """Time a round of calls."""
        return {"us": self.session.sample(calls)}

    def read(self, *, look: bool, alone: bool = True) -> dict[str, Any]:
        """Read the profile and, with `look`, the machine's state; `again` says that it is to be read again, alone."""
        parts = self.calls.state.recorder.parts()
        with ThreadPoolExecutor(1) as thread, _no_collection():
            looking = thread.submit(conditions.look, self.calls.device) if look else None
            again = self.session.read(parts.breaks, parts.not_compiled, alone=alone)
        if looking is None:
            return {"again": again}
        return {"again": again, "machine": encode(conditions.machine_of(self.before, looking.result()))}

    def replay(self, *, artifacts: str = "") -> dict[str, Any]:
        """What a program needs to run this configuration: parts of `report.tuned.TunedResult`, encoded.

        `artifacts` is a folder for saved cache artifacts, empty for none; saving them compiles again.
        """
        compiled = self.calls.compiled
        answer: dict[str, Any] = {
            "graphs": encode(tuple(compiled.captured.values())),
            "options": compiled.options,
            "capability": machine_key(self.calls.device).capability,
            "blocks": list(self.calls.blocks),
            "kernels": compiled.choices.by_family,
        }
        if artifacts and compiled.by_inductor:
            call = self.session.unit.prepare()
            answer["artifacts"] = save_artifacts(compiled, call, artifacts)
        return answer

    def write_report(self) -> None:
        """Write the report, once."""
        state, compiled = self.calls.state, self.calls.compiled
        path = os.path.join(state.job.directory, "report.json")
        if os.path.exists(path):
            return
        parts = state.recorder.parts()
        self.session.store_compiles(parts.compiles, parts.frames, len(parts.breaks), len(parts.recompiles))
        state.problems.extend(compiled.problems)
        report = state.report_so_far()
        variables = {name: text for name, text in report.environment.variables.items() if name not in CACHES}
        complete = replace(
            report,
            environment=replace(report.environment, variables=variables),
            texts={**report.texts, **compiled.texts},
        )
        put(path, wire.dump(encode(complete)))
        put_ahead(state)

    def _traits(self) -> Iterator[Trait]:
        """What the target and the machine have that some knobs of a search need."""
        device = self.calls.state.device
        if self.repeated_blocks:
            yield Trait.BLOCKS
        if device is not None and device.backend == "cuda" and device.capability >= _HOPPER:
            yield Trait.HOPPER
        if "AVX512" in torch.backends.cpu.get_cpu_capability():
            yield Trait.AVX512


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection inside the block: it would take a third of the time and free nothing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
