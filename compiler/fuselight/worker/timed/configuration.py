"""The process of one configuration: builds the target, and measures it as its coordinator orders.

Invariant: it answers each order once. An exception of user code ends it, with a report that says why.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
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
from fuselight.capture.calls.calls import PlannedCall
from fuselight.capture.calls.present_device import present_device
from fuselight.capture.calls.rungs import Answered
from fuselight.measure import timing
from fuselight.measure.compile_configuration import Compiled, configured
from fuselight.measure.machine import conditions
from fuselight.measure.orders import Order
from fuselight.measure.pool import FLOAT64
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.configurations import EAGER, configuration_title, parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.inputs import UserCallError
from fuselight.shared.report import Call, Culprit, Device, Failure
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.progress import identity
from fuselight.worker.child.state import ChildJob, RunState
from fuselight.worker.child.target_run import Climb, report_descriptors, run_target
from fuselight.worker.processes import process
from fuselight.worker.timed.estimated_peaks import ESTIMATE, estimate
from fuselight.worker.timed.order_handlers import (
    CACHES,
    ConfigurationOrders,
    OrderHandlers,
    ReferenceOrders,
    TargetCalls,
    planned_call,
)

_WITHOUT_ROW = frozenset({Order.SAMPLE})
"""Orders whose answer is small, because many follow each other."""
_MULTIPLICATIONS, _CHOICES = "multiplications", "choices"
"""Folders of what processes share: timings of multiplications, and what was chosen by other timings."""


def main(job: ChildJob, name: str, channel: Connection, parent: int) -> None:
    """Serve orders until the coordinator closes the channel; ends the process."""
    process.die_with_parent(parent)
    if name == ESTIMATE:
        channel.close()
        estimate(job)
    request = job.request
    kept, shared = job.plan.keep_caches, job.plan.inductor_cache
    own_caches = vector_units.own_caches()
    caches = os.path.join(kept, name) if kept else shared or job.directory
    for variable, folder in CACHES.items():
        os.environ[variable] = os.path.join(caches, folder)
    if job.plan.kernel_cache:
        os.environ["TRITON_CACHE_DIR"] = job.plan.kernel_cache
    if job.plan.timings and parse_configuration(name).times_kernels:
        shared = os.path.join(job.plan.timings, _MULTIPLICATIONS)
        settings.share_timings(os.environ["TORCHINDUCTOR_CACHE_DIR"], shared)
    request = replace(request, environment={**request.environment, **{n: os.environ[n] for n in CACHES}})
    os.environ.update(request.environment)  # before Inductor reads its own
    settings.compile_with_all_workers(job.plan.compile_threads)
    if hasattr(os, "register_at_fork"):  # a fork of the user's must not hold the channel, nor answer
        os.register_at_fork(after_in_child=channel.close)
    strategy = MeasureCalls(name, channel, identity(channel.fileno()), own_caches)

    def work(state: RunState) -> None:
        state.progress.label = configuration_title(name)
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
        planned = planned_call(answered, state.job.plan)
        state.calls.append(Call(0, planned.text, planned.location))
        state.notes.extend(planned.notes)
        if planned.fake:
            why = f"{planned.text} asks for fake tensors, which have no data to time"
            step = "give a directive without fake=True, with sizes that this machine has memory for"
            state.failures.append(Failure(Culprit.USER, "inputs", why, step))
            return
        calls = TargetCalls(state, planned, climb, names, self.device, self.compiled)
        state.phase = "measure"
        if self.name == FLOAT64:
            self._serve(state, ReferenceOrders(calls))
            return
        with contextlib.ExitStack() as entered, _recorded_build(state, planned):
            start_workers = functools.partial(self._start_compile_workers, state)
            self._serve(state, ConfigurationOrders(self.name, calls, entered, self.tuning, start_workers))

    def _start_compile_workers(self, state: RunState) -> None:
        """Where compiles need not be as in the user's own program, start what compiles kernels in a shorter time."""
        if self._forks_compile_workers(state.job):
            settings.fork_compile_workers()

    def _forks_compile_workers(self, job: ChildJob) -> bool:
        has_kernels = self.device.type == "cuda" and self.name not in {EAGER, FLOAT64}
        return bool(job.plan.kernel_cache) and job.forked and has_kernels

    def _serve(self, state: RunState, orders: OrderHandlers) -> None:
        """Answer orders until the coordinator closes the channel, or user code has closed it."""
        while self._has_channel(state):
            try:
                details = wire.load(self.channel.recv_bytes())
            except (EOFError, OSError):
                return
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)  # again: the file may choose one of its own
            answer = _follow(orders, Order(details.pop("do")), details)
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


def _follow(orders: OrderHandlers, order: Order, details: Mapping[str, Any]) -> dict[str, Any]:
    """Do what an order says; once the target is built, the answer has the row and the seconds of timed calls."""
    before = orders.session.counted_us if orders.session is not None else 0.0
    answer = orders.handlers()[order](**details) or {}
    session = orders.session
    if session is not None:
        if order not in _WITHOUT_ROW:
            answer["row"] = encode(session.row)
        answer["seconds"] = (session.counted_us - before) / 1e6
    return answer


@contextlib.contextmanager
def _recorded_build(state: RunState, planned: PlannedCall) -> Iterator[None]:
    """Record an exception of the code that the call's text names, as one of the user's."""
    try:
        yield
    except UserCallError as error:
        state.failures.append(run_failures.build_failure(error, planned, state.job.request, call=0))
