"""The process of one configuration: builds the target, and measures it as its coordinator orders.

Invariant: it answers each order once. An exception of user code ends it, with a report that says why.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.choices.kernel_choices import ChoiceRecorder
from fuselight.adapters.torch_api.choices.launch_tuning import LaunchTuning
from fuselight.adapters.torch_api.choices.timing_ahead import timing_ahead
from fuselight.adapters.torch_api.inductor import vector_units
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import PlannedCall, Prepared
from fuselight.capture.calls.present_device import present_device
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.calls.tensors import set_seeds
from fuselight.measure import timing
from fuselight.measure.accuracy import results
from fuselight.measure.accuracy.check import AccuracyCheck
from fuselight.measure.accuracy.reference import ReusedBuild, float64_results, varies
from fuselight.measure.accuracy.results import CallResults
from fuselight.measure.artifacts import save_artifacts
from fuselight.measure.compile_configuration import Compiled, configured
from fuselight.measure.coordinator import FLOAT64
from fuselight.measure.machine import conditions
from fuselight.measure.measured_call import Unit, on_device, work_of
from fuselight.measure.session import ConfigurationSession
from fuselight.replay.machine_key import machine_key
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.configurations import EAGER, ConfigurationError, parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.inputs import UserCallError
from fuselight.shared.protocol import MeasurePlan
from fuselight.shared.report import Call, Culprit, Device, Failure, Work
from fuselight.tune.knobs import Trait
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.compiled_blocks import compile_blocks, find_blocks
from fuselight.worker.child.state import ChildJob, RunState, identity, put, put_ahead
from fuselight.worker.child.target_run import Climb, report_descriptors, run_target
from fuselight.worker.processes import process

_WITHOUT_ROW = frozenset({"sample"})
"""Orders whose answer is small, because many follow each other."""
_HOPPER = (9, 0)
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
_MULTIPLICATIONS, _CHOICES = "multiplications", "choices"
"""Folders of what processes share: timings of multiplications, and what was chosen by other timings."""


def main(job: ChildJob, name: str, channel: Connection, parent: int) -> None:
    """Serve orders until the coordinator closes the channel; ends the process."""
    process.die_with_parent(parent)
    request = job.request
    kept, shared = job.plan.keep_caches, job.plan.inductor_cache
    own_caches = vector_units.own_caches()
    caches = os.path.join(kept, name) if kept else shared or job.directory
    for variable, folder in _CACHES.items():
        os.environ[variable] = os.path.join(caches, folder)
    if job.plan.kernel_cache:
        os.environ["TRITON_CACHE_DIR"] = job.plan.kernel_cache
    if job.plan.timings and parse_configuration(name).times_kernels:
        shared = os.path.join(job.plan.timings, _MULTIPLICATIONS)
        settings.share_timings(os.environ["TORCHINDUCTOR_CACHE_DIR"], shared)
    request = replace(request, environment={**request.environment, **{n: os.environ[n] for n in _CACHES}})
    os.environ.update(request.environment)  # before Inductor reads its own
    settings.compile_with_all_workers(job.plan.compile_threads)
    if hasattr(os, "register_at_fork"):  # a fork of the user's must not hold the channel, nor answer
        os.register_at_fork(after_in_child=channel.close)
    strategy = MeasureCalls(name, channel, identity(channel.fileno()), own_caches)

    def work(state: RunState) -> None:
        state.label = name
        run_target(state, strategy)

    child.run(replace(job, request=request), work, timed=True)


@dataclass
class MeasureCalls:
    """Measures one call in one configuration, in the steps that the coordinator orders (target_run.RunStrategy)."""

    name: str
    channel: Connection
    channel_identity: tuple[int, int] | None
    """Identity of the channel's open file: user code may have reused its descriptor."""
    own_caches: str = field(default_factory=vector_units.own_caches)
    """Where a program of this user has Inductor's caches: those of this process end with it."""
    runs_main: bool = False
    tuning: LaunchTuning = field(default_factory=LaunchTuning)
    compiled: Compiled = field(init=False)
    device: torch.device = field(init=False)
    session: ConfigurationSession | None = None
    """None in the reference process."""
    before: conditions.Look = field(init=False)
    repeated_blocks: tuple[str, ...] = ()
    """Names of the model's repeated blocks."""
    blocks: tuple[str, ...] = ()
    """Names of the blocks that are compiled one by one instead of the whole."""

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """Choose the device, and make torch.compile follow the configuration."""
        self.device = conditions.choose(state.job.plan.device)
        timing.load(self.device.type)
        target: Device | None = None
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            target = present_device(self.device.index)
        state.device = target or find("cpu")
        name = EAGER if self.name == FLOAT64 else self.name  # the reference process compiles nothing
        configuration = parse_configuration(name)
        timings = state.job.plan.timings
        choices = ChoiceRecorder(
            os.path.join(timings, _CHOICES) if timings else "", configuration.times_kernels
        )
        with contextlib.ExitStack() as entered:
            if self._forks_compile_workers(state.job):
                entered.enter_context(self.tuning.active())
            if timings:
                entered.enter_context(timing_ahead())
            if self.device.type == "cpu" and not configuration.eager:
                entered.enter_context(vector_units.tested_in(self.own_caches))
            self.compiled = entered.enter_context(configured(configuration, state.device, choices))
            yield dynamo.CompileCalls()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """Build the call, and follow orders until the coordinator closes the channel."""
        plan = state.job.plan
        planned = _planned(answered, plan)
        state.calls.append(Call(0, planned.text, planned.location))
        state.notes.extend(planned.notes)
        if planned.fake:
            why = f"{planned.text} asks for fake tensors, which cannot be timed"
            step = "give a directive without fake=True, with sizes that this machine has memory for"
            state.failures.append(Failure(Culprit.USER, "inputs", why, step))
            return

        available = [planned]  # what a provider returned may have taken long to make

        def build() -> Prepared:
            set_seeds()
            made = available.pop() if available else _planned(climb(), plan)
            prepared = on_device(made.build(), names, self.device)
            training = work_of(plan.work, prepared) is not Work.INFERENCE
            return replace(prepared, options=replace(prepared.options, train=training))

        def form(prepared: Prepared) -> Callable[..., Any]:
            if not self.compiled.configuration.blocks:
                return state.compiled_form(prepared)
            self.blocks = compile_blocks(prepared)
            return prepared.function

        def results_of(seed: int) -> CallResults:
            prepared = build()
            return results.of_call(
                prepared,
                form(prepared),
                plan.work,
                seed=seed,
                compiles_optimizer=self.compiled.configuration.optimizer,
            )

        state.phase = "measure"
        if self.name == FLOAT64:
            self._serve(state, {"reference": lambda: self._reference(state, build, plan.work)})
            return

        def built() -> None:
            with state.step("build", planned.text, planned.location):
                prepared = build()
            state.phase = "measure"
            self._start_compile_workers(state)
            work = work_of(plan.work, prepared)
            compiles_optimizer = self.compiled.configuration.optimizer
            if compiles_optimizer and work is not Work.TRAINING_STEP:
                raise ConfigurationError(
                    f"`optimizer` changes nothing: {work.value.replace('_', ' ')} has no optimizer's step"
                )
            self.repeated_blocks = tuple(find_blocks(prepared))
            unit = Unit(prepared, form(prepared), work, compiles_optimizer=compiles_optimizer)
            session = self.session = ConfigurationSession(
                plan,
                self.device,
                self.compiled,
                unit,
                state.job.request.roots,
                lambda text: state.tell("measure", f"{self.name}: {text}"),
                lambda: state.frame_count,
            )
            check = AccuracyCheck(session, results_of)

            def warm() -> dict[str, Any]:
                session.warm()
                return {"us": session.us}

            entered.enter_context(unit.mode())
            entered.enter_context(state.recorder.call(0))
            orders.update(
                {
                    "first": lambda: self._first(state, session),
                    "settle": session.settle,
                    "warm": warm,
                    "round": session.round,
                    "sample": lambda calls: {"us": session.sample(calls)},
                    "judge": check.judge,
                    "judge_random": check.judge_random,
                    "weigh": session.weigh,
                    "profile": session.profile,
                    "read": functools.partial(self._read, state, session),
                    "isolate": session.isolate,
                    "search": check.search,
                    "replay": functools.partial(self._replay, session),
                    "finish": lambda: self._write_report(state, session),
                }
            )

        orders: dict[str, Callable[..., dict[str, Any] | None]] = {"ready": lambda: None, "build": built}
        with contextlib.ExitStack() as entered, _recorded_build(state, planned):
            self._serve(state, orders)

    def _start_compile_workers(self, state: RunState) -> None:
        """Where compiles need not be as in the user's own program, start what compiles kernels in a shorter time."""
        if self._forks_compile_workers(state.job):
            settings.fork_compile_workers()

    def _forks_compile_workers(self, job: ChildJob) -> bool:
        has_kernels = self.device.type == "cuda" and self.name not in {EAGER, FLOAT64}
        return bool(job.plan.kernel_cache) and job.forked and has_kernels

    def _serve(self, state: RunState, orders: Mapping[str, Callable[..., dict[str, Any] | None]]) -> None:
        """Answer orders until the coordinator closes the channel, or user code has closed it."""
        while self._has_channel(state):
            try:
                said = wire.load(self.channel.recv_bytes())
            except (EOFError, OSError):
                return
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)  # again: the file may choose one of its own
            before = self.session.counted_us if self.session is not None else 0.0
            order = said.pop("do")
            answer = orders[order](**said) or {}
            if self.session is not None:
                if order not in _WITHOUT_ROW:
                    answer["row"] = encode(self.session.row)
                answer["seconds"] = (self.session.counted_us - before) / 1e6
            process.flush_output()  # what was printed is not lost when this process is ended
            if not self._has_channel(state):
                return
            self.channel.send_bytes(wire.dump(answer))

    def _has_channel(self, state: RunState) -> bool:
        if self.channel.closed:  # a process that the target has forked, and that came back from it
            return False
        if identity(self.channel.fileno()) == self.channel_identity:
            return True
        report_descriptors(state)
        return False

    def _first(self, state: RunState, session: ConfigurationSession) -> dict[str, Any]:
        self.before = conditions.look(self.device)
        try:
            session.first()
        finally:
            self.tuning.end()
        self.compiled.choices.share()
        answer: dict[str, Any] = {
            "fresh": session.unit.fresh,
            "work": session.unit.work.value,
            "device": self.device.type,
        }
        answer["machine"] = encode(conditions.machine_of(self.before, self.before))
        answer["traits"] = [trait.value for trait in self._traits(state)]
        if self.name == EAGER and session.results is not None:
            session.results.save(_results(state))
            answer["results"] = _results(state)
        return answer

    def _reference(self, state: RunState, build: Callable[[], Prepared], work: Work | None) -> dict[str, Any]:
        """Results of the call in float64, and whether eager's results vary; compiles nothing."""
        build = ReusedBuild(build)
        state.tell("measure", "whether eager gives the same each time")
        said: dict[str, Any] = {"varies": varies(build, work)}
        state.tell("measure", "the reference in float64")
        made, why = float64_results(build, work)
        if made is None:
            said["why"] = why
        else:
            made.save(_results(state))
            said["float64"] = _results(state)
        return said

    def _traits(self, state: RunState) -> Iterator[Trait]:
        """What the target and the machine have that some knobs of a search need."""
        if self.repeated_blocks:
            yield Trait.BLOCKS
        if state.device is not None and state.device.backend == "cuda" and state.device.capability >= _HOPPER:
            yield Trait.HOPPER
        if "AVX512" in torch.backends.cpu.get_cpu_capability():
            yield Trait.AVX512

    def _replay(self, session: ConfigurationSession, *, artifacts: str = "") -> dict[str, Any]:
        """What a program needs to run this configuration: parts of `report.tuned.TunedResult`, encoded.

        `artifacts` is a folder for saved cache artifacts, empty for none; saving them compiles again.
        """
        said: dict[str, Any] = {
            "graphs": encode(tuple(self.compiled.captured.values())),
            "options": self.compiled.options,
            "capability": machine_key(self.device).capability,
            "blocks": list(self.blocks),
            "kernels": self.compiled.choices.found,
        }
        if artifacts and self.compiled.by_inductor:
            call = session.unit.prepare()
            said["artifacts"] = save_artifacts(self.compiled, call, artifacts)
        return said

    def _read(self, state: RunState, session: ConfigurationSession, *, look: bool) -> dict[str, Any]:
        """Read the profile and, with `look`, the machine's state."""
        parts = state.recorder.parts()
        with ThreadPoolExecutor(1) as thread, _no_collection():
            looking = thread.submit(conditions.look, self.device) if look else None
            session.read(parts.breaks, parts.not_compiled)
        if looking is None:
            return {}
        return {"machine": encode(conditions.machine_of(self.before, looking.result()))}

    def _write_report(self, state: RunState, session: ConfigurationSession) -> None:
        path = os.path.join(state.job.directory, "report.json")
        if os.path.exists(path):
            return
        parts = state.recorder.parts()
        session.finish(parts.compiles, parts.frames, len(parts.breaks), len(parts.recompiles))
        state.problems.extend(self.compiled.problems)
        report = state.report()
        variables = {name: text for name, text in report.environment.variables.items() if name not in _CACHES}
        complete = replace(
            report,
            environment=replace(report.environment, variables=variables),
            texts={**report.texts, **self.compiled.texts},
        )
        put(path, wire.dump(encode(complete)))
        put_ahead(state)


@contextlib.contextmanager
def _recorded_build(state: RunState, planned: PlannedCall) -> Iterator[None]:
    """Record an exception of the code that the call's text names, as one of the user's."""
    try:
        yield
    except UserCallError as error:
        state.failures.append(run_failures.build_failure(error, planned, state.job.request, call=0))


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


def _planned(answered: Answered, plan: MeasurePlan) -> PlannedCall:
    return answered.calls[min(plan.call, len(answered.calls) - 1)]


def _results(state: RunState) -> str:
    return os.path.join(state.job.directory, "results.pt")
