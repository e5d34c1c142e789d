"""The process of one configuration: builds the target, and measures it as its coordinator orders.

Invariant: it answers each order once. Whatever the user's code raises ends it, with a report that says why.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from fuselight import dynamo, torch_api
from fuselight.codec import encode
from fuselight.configurations import EAGER, Configuration, parse_configuration
from fuselight.devices import find
from fuselight.measure import machine, results, timing
from fuselight.measure.configured import Compiled, configured
from fuselight.measure.judging import Judging
from fuselight.measure.measuring import FLOAT64
from fuselight.measure.one import One
from fuselight.measure.reference import Sparing, float64_results, varies
from fuselight.measure.results import Results
from fuselight.measure.working import Unit, on_device, work_of
from fuselight.protocol import MeasurePlan
from fuselight.report import Call, Culprit, Device, Failure, Work
from fuselight.target.calls import PlannedCall, Prepared, compiled_form
from fuselight.target.present import present_device
from fuselight.target.rungs import Answered
from fuselight.target.tensors import set_seeds
from fuselight.worker import child, endings, process, wire
from fuselight.worker.state import Job, RunState, identity, put

_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


def main(job: Job, name: str, channel: Connection, parent: int) -> None:
    """Serve until the coordinator closes; ends the process."""
    process.die_with_parent(parent)
    request = job.request
    kept = request.measure.keep_caches if request.measure is not None else ""
    caches = os.path.join(kept, name) if kept else job.directory
    for variable, folder in _CACHES.items():
        os.environ[variable] = os.path.join(caches, folder)
    request = replace(request, environment={**request.environment, **{n: os.environ[n] for n in _CACHES}})
    os.environ.update(request.environment)  # before Inductor reads its own
    torch_api.compile_with_all_workers()
    if hasattr(os, "register_at_fork"):  # a fork of the user's must not hold the channel, nor answer
        os.register_at_fork(after_in_child=channel.close)
    child.run(replace(job, request=request), Conduct(name, channel, identity(channel.fileno())))


@dataclass
class Conduct:
    """What one process of a benchmark does with the target (state.Conduct)."""

    name: str
    channel: Connection
    opened: tuple[int, int] | None
    """Which open file the channel is: its number may by now be a file of the user's."""
    compiled: Compiled = field(init=False)
    device: torch.device = field(init=False)
    one: One | None = None
    """What is measured; None in the reference's process."""
    before: machine.Look = field(init=False)

    @property
    def configuration(self) -> Configuration:
        """What torch.compile makes here; in the reference's process, nothing."""
        return parse_configuration(EAGER if self.name == FLOAT64 else self.name)

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """Choose the device, and have torch.compile do as the configuration says."""
        self.device = machine.choose(_plan(state).device)
        timing.load(self.device.type)
        target: Device | None = None
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            target = present_device(self.device.index)
        state.device = target or find("cpu")
        with configured(self.configuration, state.device) as self.compiled:
            yield dynamo.CompileCalls()

    def make(self, state: RunState, climb: Callable[[], Answered], names: Mapping[str, Any]) -> None:
        """Build the call, and do what is ordered until the coordinator is content."""
        plan = _plan(state)
        planned = _planned(climb(), plan)
        state.calls.append(Call(0, planned.text, planned.location))
        state.notes.extend(planned.notes)
        state.planned = 1
        if planned.fake:
            state.failures.append(_fake_inputs(planned.text))
            return

        there = [planned]

        def build() -> Prepared:
            set_seeds()
            made = there.pop() if there else _planned(climb(), plan)
            prepared = on_device(made.build(), names, self.device)
            training = work_of(plan.work, prepared) is not Work.INFERENCE
            return replace(prepared, options=replace(prepared.options, train=training))

        def compiled(prepared: Prepared) -> Callable[..., Any]:
            function, notes = compiled_form(
                prepared.function,
                by_source=state.job.request.target.compiled,
                dynamic=prepared.options.dynamic,
                roots=state.job.request.roots,
            )
            state.notes.extend(note for note in notes if note not in state.notes)
            return function

        state.phase = "measure"
        if self.name == FLOAT64:
            self._serve(state, {"reference": lambda: self._reference(state, build, plan.work)})
            return

        def built() -> None:
            with state.step("build", planned.text, planned.location):
                prepared = build()
            state.phase = "measure"
            unit = Unit(prepared, compiled(prepared), work_of(plan.work, prepared))
            one = self.one = One(
                plan,
                self.device,
                self.compiled,
                unit,
                state.job.request.roots,
                lambda text: state.tell("measure", f"{self.name}: {text}", None, None),
                lambda: state.frame_count,
            )
            judging = Judging(one, lambda: _results_of(build, compiled, plan.work))
            entered.enter_context(unit.mode())
            entered.enter_context(state.recorder.call(0))
            orders.update(
                {
                    "first": lambda: self._first(state),
                    "warm": self._warm,
                    "round": self._round,
                    "judge": judging.judge,
                    "weigh": one.weigh,
                    "profile": one.profile,
                    "read": functools.partial(self._read, state),
                    "isolate": one.isolate,
                    "search": judging.search,
                    "finish": lambda: self._learn(state),
                }
            )

        orders: dict[str, Callable[..., dict[str, Any] | None]] = {"ready": lambda: None, "build": built}
        with contextlib.ExitStack() as entered:
            self._serve(state, orders)

    def _serve(self, state: RunState, orders: Mapping[str, Callable[..., dict[str, Any] | None]]) -> None:
        """Answer orders until the other side closes, or the user's code has closed the channel."""
        while self._has_channel(state):
            try:
                said = wire.load(self.channel.recv_bytes())
            except (EOFError, OSError):
                return
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)  # again: the file may choose one of its own
            before = self.one.counted_us if self.one is not None else 0.0
            answer = orders[said.pop("do")](**said) or {}
            if self.one is not None:
                answer["row"] = encode(self.one.row)
                answer["seconds"] = (self.one.counted_us - before) / 1e6
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # the user's, by now
                    stream.flush()  # what was printed is not lost when this process is ended
            if not self._has_channel(state):
                return
            self.channel.send_bytes(wire.dump(answer))

    def _has_channel(self, state: RunState) -> bool:
        if self.channel.closed:  # a process that the target has forked, and that came back from it
            return False
        if identity(self.channel.fileno()) == self.opened:
            return True
        if not any(failure.kind == "descriptors" for failure in state.failures):
            state.failures.append(endings.descriptors_failure(state.job.request, state.phase, 0, state.calls))
        return False

    def _first(self, state: RunState) -> dict[str, Any]:
        one = self._measured
        self.before = machine.look(self.device)
        one.first()
        said = {"fresh": one.unit.fresh, "work": one.unit.work.value, "device": self.device.type}
        said["machine"] = encode(machine.machine_of(self.before, self.before))
        if self.name == EAGER and one.results is not None:
            one.results.save(_results(state))
            said["results"] = _results(state)
        return said

    def _warm(self) -> dict[str, Any]:
        self._measured.warm()
        return {"us": self._measured.us}

    @property
    def _measured(self) -> One:
        if self.one is None:
            raise RuntimeError("the reference's process measures nothing")
        return self.one

    def _reference(self, state: RunState, build: Callable[[], Prepared], work: Work | None) -> dict[str, Any]:
        """What the call gives in float64, and whether it gives something else each time; nothing is compiled here."""
        build = Sparing(build)
        state.tell("measure", "whether eager gives the same each time", None, None)
        said: dict[str, Any] = {"varies": varies(build, work)}
        state.tell("measure", "the reference in float64", None, None)
        made, why = float64_results(build, work)
        if made is None:
            said["why"] = why
        else:
            made.save(_results(state))
            said["float64"] = _results(state)
        return said

    def _round(self, calls: int) -> None:
        self._measured.round(calls)

    def _read(self, state: RunState, *, look: bool) -> dict[str, Any]:
        """Where the time of a call goes; and how the machine is now, which takes as long."""
        parts = state.recorder.parts()
        with ThreadPoolExecutor(1) as beside, _no_collection():
            looking = beside.submit(machine.look, self.device) if look else None
            self._measured.read(parts.breaks, parts.not_compiled)
        if looking is None:
            return {}
        return {"machine": encode(machine.machine_of(self.before, looking.result()))}

    def _learn(self, state: RunState) -> None:
        """Write down, once, what the recorder has learnt of the compile."""
        path = os.path.join(state.job.directory, "report.json")
        if os.path.exists(path):
            return
        parts = state.recorder.parts()
        self._measured.finish(parts.compiles, parts.frames, len(parts.breaks), len(parts.recompiles))
        state.problems.extend(self.compiled.problems)
        report = state.report()
        variables = {name: text for name, text in report.environment.variables.items() if name not in _CACHES}
        whole = replace(
            report,
            environment=replace(report.environment, variables=variables),
            texts={**report.texts, **self.compiled.texts},
        )
        put(path, wire.dump(encode(whole)))


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Inside, no garbage is looked for: that takes a third of the time, and the events are all needed."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _plan(state: RunState) -> MeasurePlan:
    return state.job.request.measure or MeasurePlan()


def _planned(answered: Answered, plan: MeasurePlan) -> PlannedCall:
    return answered.calls[min(plan.call, len(answered.calls) - 1)]


def _results_of(
    build: Callable[[], Prepared],
    compiled: Callable[[Prepared], Callable[..., Any]],
    work: Work | None,
) -> Results:
    prepared = build()
    return results.of_call(prepared, compiled(prepared), work)


def _results(state: RunState) -> str:
    return os.path.join(state.job.directory, "results.pt")


def _fake_inputs(text: str) -> Failure:
    return Failure(
        Culprit.USER,
        "inputs",
        f"{text} asks for fake tensors, which cannot be timed",
        "give a directive without fake=True, with sizes that this machine has memory for",
    )
