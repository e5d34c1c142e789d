"""One run: import the file, build the target, make its calls under the recorder, write down what was learnt.

Invariant: `run` never returns control to user code and always ends the process, with an answer in its folder. What
was learnt so far is kept there after each compile, as any step may not come back.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import signal
import sys
import time
import traceback
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from fuselight import dynamo, torch_api
from fuselight.codec import encode
from fuselight.report import Call, Culprit, Failure, Location, Note, Problem, Rung
from fuselight.target import importing, rungs
from fuselight.target.calls import PlannedCall, call_mode, compiled_form, make_call, module_of
from fuselight.target.filling import quick_random
from fuselight.target.tensors import set_seeds
from fuselight.worker import backends, endings, process, wire
from fuselight.worker.state import Conduct, Job, RunState, finish, getpid, identity, keep, put

_COLLECT_EVERY = 50_000
"""New objects between two looks for garbage. A compile makes millions, nearly all of which stay until its end: at
Python's own pace of 700 a tenth of a run is spent looking."""
_USUAL = gc.get_threshold()
"""Python's own pace: what is timed is timed with it, as it runs elsewhere."""


class _Stopped(BaseException):
    """A limit was reached: raised where the user's code is, so that what was learnt is kept."""


def run(job: Job, conduct: Conduct | None = None) -> None:
    """Do the run and end the process. The process must be a fresh one, or a fresh fork of the host.

    `conduct` does something else with the target than to make its calls.
    """
    state: RunState | None = None
    try:
        measures = job.request.measure is not None
        state = _prepare(job, forks=measures and conduct is None, timed=measures and conduct is not None)
        state.conduct = conduct
        if job.request.measure is not None and conduct is None:
            benchmark = importlib.import_module("fuselight.worker.benchmark")  # not for a capture
            with contextlib.suppress(_Stopped):  # the host knows which limit it was
                benchmark.coordinate(state)
        else:
            _guarded(state)
        finish(state, "answer.json")
    except BaseException:  # noqa: BLE001 - the process ends here, and the host must hear why
        if state is None or getpid() == state.pid:
            with contextlib.suppress(OSError):
                put(
                    os.path.join(job.directory, "internal.txt"),
                    traceback.format_exc().encode("utf-8", "replace"),
                )
            _leave(endings.INTERNAL)
    _leave(0)


def _leave(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    _really_exit(status)


_really_exit = os._exit


def _prepare(job: Job, *, forks: bool, timed: bool) -> RunState:
    """Get ready; a process that `forks` others asks the driver for nothing, or none of them could use it."""
    request = job.request
    process.allow_sampling()
    if not forks:
        torch_api.use_driver()
    if timed:
        gc.unfreeze()
        gc.set_threshold(*_USUAL)
    else:
        gc.set_threshold(_COLLECT_EVERY, *_USUAL[1:])
    faults = open(os.path.join(job.directory, "faults.txt"), "wb", buffering=0)  # noqa: SIM115 - open until the end
    faulthandler.enable(file=faults)
    os.environ.update(request.environment)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    redirect = not forks and not torch.cuda.is_available()
    sources = importing.Sources(request.roots, request.overlays, redirect=redirect)
    state: RunState | None = None

    def frame_started(count: int, path: str, line: int) -> None:
        if state is not None:
            state.frame_started(count, path, line)

    def line_reached(path: str, line: int) -> None:
        if state is not None:
            state.line_reached(path, line)

    def compiled() -> None:
        if state is not None:
            keep(state)

    recorder = dynamo.Recorder(
        roots=request.roots, on_frame=frame_started, on_line=line_reached, on_compiled=compiled
    )
    state = RunState(job, recorder, sources, getpid(), progress_identity=identity(job.progress))
    stopping = state
    # Disabled, or Dynamo would compile our handler where it interrupts code of the user's that runs in eager.
    stop: Any = torch.compiler.disable(lambda _, frame: _stop(stopping, frame))  # type: ignore[no-untyped-call]
    signal.signal(process.SOFT_SIGNAL, stop)
    faulthandler.register(process.SOFT_SIGNAL, file=faults, chain=True)
    faulthandler.register(process.SAMPLE_SIGNAL, file=faults)
    # Disabled, or Dynamo would try to compile it when compiled code calls `os._exit`.
    endings.note_exit(
        torch.compiler.disable(lambda status, frame: _exited(stopping, status, frame))  # type: ignore[no-untyped-call]
    )
    return state


def _stop(state: RunState, frame: types.FrameType | None) -> None:
    """Write down where the run is, then end the user's code, which may not let itself be ended."""
    state.stopped = True
    stack = endings.stack_of(traceback.extract_stack(frame), state.job.request.roots)
    traced = endings.stack_of(torch_api.user_stack(), state.job.request.roots)
    where = Failure(
        Culprit.USER,
        "stopped",
        "stopped at a limit",
        stack=(*stack, *traced),
        call=_call_index(state),
        phase=state.phase,
    )
    put(os.path.join(state.job.directory, "stopped.json"), wire.dump(encode(where)))
    raise _Stopped


def _exited(state: RunState, status: int, frame: types.FrameType) -> None:
    """Keep what was learnt when user code calls `os._exit`, which nothing else survives."""
    if getpid() == state.pid:
        stack = endings.stack_of(traceback.extract_stack(frame), state.job.request.roots)
        state.failures.append(endings.exit_failure(status, stack, call=_call_index(state), phase=state.phase))
        finish(state, "answer.json")


def _guarded(state: RunState) -> None:
    """Do the steps; whatever ends them early becomes a failure in the report."""
    roots = state.job.request.roots
    try:
        with _compiling(state) as state.asked, state.recorder:
            _steps(state)
    except _Stopped:
        pass  # the host knows which limit it was
    except SystemExit as stop:
        if state.phase != "main" or stop.code not in (None, 0):
            stack = endings.user_stack(stop, roots)
            state.failures.append(
                endings.exit_failure(stop.code, stack, call=_call_index(state), phase=state.phase)
            )
    except rungs.DirectiveFault as fault:
        state.failures.append(endings.directive_failure(fault, call=_call_index(state)))
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        if not state.stopped:  # else the compiler's wrapping of what stopped it
            state.failures.append(_failure(state, error))
    if getpid() != state.pid:
        _really_exit(0)  # a process that user code forked has come back to us


def _compiling(state: RunState) -> AbstractContextManager[dynamo.CompileCalls]:
    """What every torch.compile makes in this run."""
    if state.conduct is not None:
        return state.conduct.compiling(state)
    return dynamo.capture_only(backends.backend_of(state))


def _steps(state: RunState) -> None:
    request = state.job.request
    if request.assemble:
        backends.assemble(state)
        return
    for name, value in request.dynamo_config.items():
        try:
            torch_api.set_dynamo_config(name, value)
        except (AttributeError, TypeError, ValueError) as error:
            state.problems.append(Problem("settings", f"dynamo.config {name}", str(error)))
    is_main = request.target.kind == "main" or not request.target.name
    if is_main and state.conduct is not None:
        state.failures.append(endings.whole_program(request.target))
        return
    importing.install(state.sources)
    path = request.target.path
    with _fake_tensors(state, state.job.fake):
        name = importing.prepare_path(path, request.roots, state.job.started_with)
        set_seeds()
        if is_main:
            _run_main(state)
            return
        sys.modules["__main__"] = types.ModuleType("__main__")
        sys.argv = [path, *request.argv]
        with state.step("import", os.path.basename(path), Location(path, request.target.line)):
            module = importing.import_file(path, name, state.sources)
        _check_descriptors(state)
        names = vars(module)
        with state.step("build", request.target.name, Location(path, request.target.line)):
            device = "cpu" if state.sources.redirect else None
            if state.conduct is not None:
                set_seeds()  # as before each further time: the file may have drawn numbers of its own
            answered, reasons = rungs.climb(request.target, request.inputs, names, device)
        if answered is not None and state.conduct is not None:
            state.rung, state.inputs_line = answered.rung, answered.line
            there = [answered]  # what a provider gave may have taken long to make
            state.conduct.make(state, lambda: there.pop() if there else _climb_again(state, names), names)
        elif answered is not None:
            _make_calls(state, answered)
        elif request.inputs.main_line is not None and state.conduct is None:
            _run_main(state)
        else:
            state.failures.append(
                endings.no_inputs(request.target, reasons, rungs.example_call(request.target, names))
            )


def _climb_again(state: RunState, names: dict[str, Any]) -> rungs.Answered:
    """The inputs anew, and the objects that they are called on."""
    request = state.job.request
    answered, reasons = rungs.climb(
        request.target, request.inputs, names, "cpu" if state.sources.redirect else None
    )
    if answered is None:
        raise rungs.Silent("; ".join(map(str, reasons)))
    return answered


def _run_main(state: RunState) -> None:
    request = state.job.request
    state.rung, state.inputs_line = Rung.MAIN, request.inputs.main_line
    path = request.target.path
    state.phase = "main"
    location = Location(path, request.inputs.main_line or 1)
    with state.step("main", f"__main__ of {os.path.basename(path)}", location):
        importing.run_as_main(path, state.sources, request.argv)


def _make_calls(state: RunState, answered: rungs.Answered) -> None:
    state.rung, state.inputs_line = answered.rung, answered.line
    state.planned = len(answered.calls)
    for index, planned in enumerate(answered.calls):
        state.calls.append(Call(index, planned.text, planned.location))
        state.notes.extend(planned.notes)
        if not _one_call(state, index, planned):
            return


def _one_call(state: RunState, index: int, planned: PlannedCall) -> bool:
    """Build and make one call. Returns whether the next one is worth making."""
    request = state.job.request
    asked = "the directive asks for it (fake=True)" if planned.fake and not state.fake else None
    with _fake_tensors(state, asked):
        with state.step("build", planned.text, planned.location):
            try:
                with quick_random() as filled:
                    prepared = planned.build()
                state.notes.extend(filled.notes())
            except endings.UserCallError as error:
                if not state.fake and endings.is_out_of_memory(error.__cause__):
                    _leave(endings.OUT_OF_MEMORY)
                state.failures.append(endings.build_failure(error, planned, request, call=index))
                return False
        _check_descriptors(state)
        dynamic, by_source = prepared.options.dynamic, request.target.compiled
        function, notes = compiled_form(
            prepared.function, by_source=by_source, dynamic=dynamic, roots=request.roots
        )
        state.notes.extend(note for note in notes if note not in state.notes)
        with state.step("call", planned.text, planned.location), call_mode(prepared):
            if state.grad is None:
                module = module_of(prepared.function)
                state.grad = torch.is_grad_enabled()
                state.training = module.training if module is not None else None
            if index == 0:
                state.recorder.inspect_target(prepared.function)
            start = time.perf_counter()
            try:
                with state.recorder.call(index):
                    state.notes.extend(make_call(prepared, function))
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the next call may work
                if state.stopped:
                    return False
                state.failures.append(_failure(state, error))
            finally:
                state.calls[index] = replace(state.calls[index], seconds=time.perf_counter() - start)
    _check_descriptors(state)
    return True


@contextlib.contextmanager
def _fake_tensors(state: RunState, why: str | None) -> Iterator[None]:
    if why is None:
        yield
        return
    if not state.fake:
        state.fake = True
        state.notes.append(Note("fake_tensors", f"built and captured on fake tensors: {why}"))
    with torch_api.fake_tensors():
        yield


def _failure(state: RunState, error: BaseException) -> Failure:
    roots = state.job.request.roots
    known = getattr(error, "failure", None)
    if isinstance(known, Failure):  # one of ours: a device that is not there
        return replace(known, phase=state.phase)
    return dynamo.failure_of(error, roots=roots, call=_call_index(state), phase=state.phase)


def _call_index(state: RunState) -> int | None:
    return state.calls[-1].index if state.calls else None


def _check_descriptors(state: RunState) -> None:
    """Tell, once, that user code has closed a descriptor that was not its own."""
    if identity(state.job.progress) == state.progress_identity:
        return
    state.progress_identity = None
    if not any(failure.kind == "descriptors" for failure in state.failures):
        state.failures.append(
            endings.descriptors_failure(state.job.request, state.phase, _call_index(state), state.calls)
        )


def warm_up() -> None:
    """Trace a tiny function under the recorder, so that a run's first trace finds everything loaded."""
    with dynamo.capture_only(), dynamo.Recorder(roots=()) as recorder:
        torch_api.warm_up()
    recorder.parts()
