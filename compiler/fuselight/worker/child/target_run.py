"""A run of the user's target: imports the file, finds inputs, and passes them to the job.

Invariant: whatever ends the steps early becomes one failure in the report.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.triton_api.kernel_compiles import is_compile_call
from fuselight.capture import dynamo
from fuselight.capture.calls import importing, main_calls, rungs
from fuselight.capture.calls.calls import PlannedCall, Prepared, call_mode, call_outputs, module_of
from fuselight.capture.calls.changed_calls import with_changes
from fuselight.capture.calls.programs import run_program
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.refused_calls import attempt
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.calls.tensors import set_seeds
from fuselight.capture.calls.write_guard import WriteGuard
from fuselight.shared.inputs import UserCallError
from fuselight.shared.protocol import MeasureRequest, RunRequest, TuneRequest, VerifyRequest
from fuselight.shared.report import Call, Failure, Location, Note, Problem, Rung
from fuselight.shared.report.failure import is_out_of_memory
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.further_values import prepare_to_try, with_tried_values
from fuselight.worker.child.kernel_checks import check_launches, reason_for_fake
from fuselight.worker.child.originals import exit_now, getpid
from fuselight.worker.child.program_calls import MAX_KEPT, MAX_LOOKED, ProgramCalls
from fuselight.worker.child.state import RunState

_perf_counter = time.perf_counter  # bound before any user code runs

STEADY_CALLS = 10
"""Calls of one graph without a new compile after which the `__main__` block of a run on save has shown its inputs."""


class InputsCaptured(BaseException):
    """Raised in user code to end the `__main__` block of a run on save, once its calls are compiled."""


Climb = Callable[[], Answered]
"""Finds the inputs again, and the objects that they are called on."""


class RunStrategy(Protocol):
    """How a job uses the target."""

    runs_main: bool
    """Whether the whole `__main__` block runs where the target has no inputs of its own."""

    def compiling(self, state: RunState) -> AbstractContextManager[dynamo.CompileCalls]:
        """Within the block, torch.compile behaves as this job requires."""
        ...

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """Make calls with the inputs that were found; `names` are those of the user's file."""
        ...


@dataclass
class MakeCalls:
    """Makes each call of the target once, with a backend that takes the captured graphs."""

    backend: Callable[[RunState], Callable[..., Any]]
    runs_main: bool = True

    def compiling(self, state: RunState) -> AbstractContextManager[dynamo.CompileCalls]:
        """As in RunStrategy."""
        backend = self.backend(state)
        return dynamo.capture_only(until_steady(state, backend) if state.job.request.automatic else backend)

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb
        make_calls(state, answered, names)


def make_calls(
    state: RunState, answered: Answered, names: Mapping[str, Any] = types.MappingProxyType({})
) -> None:
    """Make each call of the target once, up to one that cannot be made."""
    for index, planned in enumerate(answered.calls):
        state.calls.append(Call(index, planned.text, planned.location))
        state.notes.extend(planned.notes)
        is_last = index == len(answered.calls) - 1
        if not _one_call(state, index, planned, is_last=is_last, names=names):
            return


def until_steady(state: RunState, backend: Callable[..., Any]) -> Callable[..., Any]:
    """Return `backend`, whose graphs end the `__main__` block when it goes on without compiling anything new."""
    calls: collections.Counter[int] = collections.Counter()

    @functools.wraps(backend)
    def capture(gm: Any, example_inputs: Any, **options: Any) -> Callable[..., Any]:
        forward = backend(gm, example_inputs, **options)
        calls.clear()
        number = state.progress.frame_count

        def counted(*args: Any) -> Any:
            if state.phase == "main" and getpid() == state.pid:
                calls[number] += 1
                if calls[number] > STEADY_CALLS:
                    raise InputsCaptured
            return forward(*args)

        return counted

    return capture


def run_target(state: RunState, strategy: RunStrategy) -> None:
    """Import the target, find its inputs and use them as the strategy says."""

    def work() -> None:
        heard = targets.heard_compile(state.roots.note_compile)
        with strategy.compiling(state) as state.asked, heard, state.recorder:
            _steps(state, strategy)

    guarded(state, work)


def guarded(state: RunState, work: Callable[[], None]) -> None:
    """Do `work`; whatever ends it early becomes a failure in the report."""
    roots = state.job.request.roots
    try:
        work()
    except child.StoppedError:
        pass  # the host knows which limit it was
    except InputsCaptured as done:
        state.notes.append(run_failures.ended_early(done, roots))
    except SystemExit as stop:
        if state.phase != "main" or stop.code not in (None, 0):
            state.originals.restore()  # user code has ended
            stack = run_failures.user_stack(stop, roots)
            state.failures.append(
                run_failures.exit_failure(stop.code, stack, call=state.call_index, phase=state.phase)
            )
    except rungs.DirectiveFault as fault:
        state.failures.append(run_failures.directive_failure(fault, call=state.call_index))
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        if not state.stopped:  # else the compiler's wrapping of what stopped it
            failure = child.failure_of(state, error)
            state.failures.append(run_failures.with_unknown_values(failure, state.kernel_launches.unknown))
    finally:
        if getpid() != state.pid:
            exit_now(0)  # a process that user code forked has come back to us


def _steps(state: RunState, strategy: RunStrategy) -> None:
    request = state.job.request
    for name, value in request.dynamo_config.items():
        try:
            settings.set_dynamo_config(name, value)
        except (AttributeError, TypeError, ValueError) as error:
            state.problems.append(Problem("settings", f"dynamo.config {name}", str(error)))
    prepare_to_try(state)
    is_main = request.target.kind == "main" or not request.target.name
    if is_main and not strategy.runs_main:
        state.failures.append(run_failures.whole_program(request.target))
        return
    importing.install(state.sources)
    path = request.inputs.main_path or request.target.path
    with _fake_tensors(state, state.job.fake), _guarded_writes(state):
        name, removed = importing.prepare_path(path, request.roots, state.job.started_with)
        state.originals.forget_modules(removed)
        state.sources.before_user_code = state.originals.accept_modules
        set_seeds()
        if is_main:
            _run_main(state)
            return
        if request.target.kind == "call":
            _repeat_calls(state, strategy)
            return
        sys.modules["__main__"] = types.ModuleType("__main__")
        sys.argv = [path, *request.argv]
        if strategy.runs_main and _may_be_script(request):
            state.recorded.listen()
        with state.step("import", os.path.basename(path), Location(path, request.target.line)):
            module = importing.import_file(path, name, state.sources)
        check_descriptors(state)
        names: Mapping[str, Any] = vars(module)
        own_name = request.target.name.rpartition("<locals>.")[2]
        with state.step("build", own_name, Location(path, request.target.line)):
            if not strategy.runs_main:
                set_seeds()  # as before each further time: the file may have drawn numbers of its own
            device = "cpu" if state.sources.redirect else None
            ladder = rungs.Ladder(request.target, request.inputs, names, device)
            answered, reasons = ladder.climb()
        if answered is not None:
            state.recorded.forget_calls()
        _use_inputs(state, strategy, _Climbed(ladder, answered, reasons, names))


def _repeat_calls(state: RunState, strategy: RunStrategy) -> None:
    """Pass calls of the program to the job. For further calls the program runs again."""
    request = state.job.request
    climb = functools.partial(_program_calls, state)
    try:
        answered = climb()
    except rungs.Silent as why:
        state.failures.append(run_failures.no_program_calls(request.target, str(why)))
        return
    state.rung, state.inputs_line = answered.rung, answered.line
    names = vars(sys.modules["__main__"])
    changed = functools.partial(with_changes, changes=request.changes, names=names)
    strategy.use(state, changed(answered), lambda: changed(climb()), names)


def _program_calls(state: RunState) -> Answered:
    """Run the program up to the calls of what it compiles. Raises Silent."""
    request = state.job.request
    set_seeds()
    is_timed = isinstance(request, (MeasureRequest, TuneRequest))
    # Each further call of a verification starts the program again, and varies its first call alone.
    is_varied = isinstance(request, VerifyRequest) and request.cases
    calls = ProgramCalls(
        request.target,
        state.roots,
        request.roots,
        most_looked=1 if is_timed else MAX_LOOKED,
        most_kept=1 if is_varied else MAX_KEPT,
    )
    rung = Rung.SCRIPT if request.inputs.is_script else Rung.MAIN
    with _main_step(state):
        run = functools.partial(importing.run_as_main, _program(request), state.sources, request.argv)
        return calls.collect(run, rung, request.inputs.main_line)


def _program(request: RunRequest) -> str:
    """Path of the file that runs as the program."""
    return request.inputs.main_path or request.target.path


@dataclass(frozen=True)
class _Climbed:
    """What the ladder of inputs gave for a target."""

    ladder: rungs.Ladder
    answered: Answered | None
    reasons: list[str]
    names: Mapping[str, Any]


def _use_inputs(state: RunState, strategy: RunStrategy, climbed: _Climbed) -> None:
    """Pass the inputs to the job: those of the ladder, else those of the file's program."""
    request, answered, names = state.job.request, climbed.answered, climbed.names
    climb: Climb = functools.partial(_climb_again, climbed.ladder)
    if answered is None:
        if strategy.runs_main and request.inputs.main_line is not None and not request.inputs.program:
            _run_main(state)
            return
        climb, answered, names = _first_call(state, climb, names, climbed.reasons)
    if answered is not None:
        state.rung, state.inputs_line = answered.rung, answered.line
        changed = functools.partial(with_changes, changes=request.changes, names=names)
        strategy.use(state, changed(answered), lambda: changed(climb()), names)
    elif strategy.runs_main and state.recorder.parts().compiles:
        state.rung, state.inputs_line = Rung.SCRIPT, request.target.line  # the import has made the calls
    else:
        example = rungs.example_call(request.target, names)
        state.failures.append(run_failures.no_inputs(request.target, climbed.reasons, example))


@contextlib.contextmanager
def _guarded_writes(state: RunState) -> Iterator[None]:
    """Keep the code of a run on save from writing into the workspace, and say what it would have written."""
    if not state.job.request.automatic:
        yield
        return
    guard = WriteGuard(state.job.request.roots, os.path.join(state.job.directory, "written"))
    with guard.active():
        try:
            yield
        finally:
            state.notes.extend(guard.notes())


def _first_call(
    state: RunState, climb: Climb, names: Mapping[str, Any], reasons: list[str]
) -> tuple[Climb, Answered | None, Mapping[str, Any]]:
    """Find inputs in the program that the user has chosen, else in the `__main__` block; `reasons` get why not.

    Returns how to find them again, the answer if there is one, and the names of the file that was run.
    """
    inputs = state.job.request.inputs
    if inputs.program:
        of_program: Climb = functools.partial(_first_call_of_program, state, names)
        try:
            answered = of_program()
        except rungs.Silent as why:
            reasons.append(str(why))
        else:
            state.inputs_path = inputs.program
            return of_program, answered, names
    if inputs.main_line is not None:
        of_main: Climb = functools.partial(_first_call_of_main, state)
        try:
            return of_main, of_main(), vars(sys.modules["__main__"])
        except rungs.Silent as why:
            reasons.append(str(why))
    return climb, None, names


def _climb_again(ladder: rungs.Ladder) -> Answered:
    answered, reasons = ladder.climb()
    if answered is None:
        raise rungs.Silent("; ".join(reasons))
    return answered


def _run_main(state: RunState) -> None:
    """Run the whole `__main__` block, and record the calls that it compiles for runs without it."""
    plan = state.job.request.inputs
    state.rung, state.inputs_line = Rung.SCRIPT if plan.is_script else Rung.MAIN, plan.main_line
    state.recorded.listen()
    try:
        with _main_step(state), state.around_main():
            importing.run_as_main(state.job.request.target.path, state.sources, state.job.request.argv)
    finally:
        if state.aot is not None and state.aot.skipped:
            state.notes.append(run_failures.without_aot(state.aot.skipped))


def _may_be_script(request: RunRequest) -> bool:
    """Whether the import of the file may make the calls: nothing else gives the target inputs."""
    plan = request.inputs
    return request.target.compiled and not (
        plan.directives or plan.provider or plan.recorded or plan.program or plan.main_line is not None
    )


def run_main_again(state: RunState) -> None:
    """Run the `__main__` block once more, as the run has done."""
    request = state.job.request
    with _fake_tensors(state, state.job.fake), _guarded_writes(state), _main_step(state), state.around_main():
        set_seeds()
        importing.run_as_main(request.target.path, state.sources, request.argv)


def _first_call_of_main(state: RunState) -> Answered:
    """Run the `__main__` block up to its first call of the target."""
    request = state.job.request
    if "." in request.target.name:  # of an object or inside a function: no name of the file stands for it
        with contextlib.suppress(rungs.Silent):
            return _program_calls(state)
    program = main_calls.Program(
        "the `__main__` block",
        request.target.path,
        run=lambda _: importing.run_as_main(request.target.path, state.sources, request.argv),
        names=lambda: vars(sys.modules["__main__"]),
        line=request.inputs.main_line,
    )
    set_seeds()
    with _main_step(state):
        return main_calls.first_call(request.target, program)


def _first_call_of_program(state: RunState, names: Mapping[str, Any]) -> Answered:
    """Run the program that the user has chosen up to its first call of the target."""
    request, path = state.job.request, state.job.request.inputs.program
    file = os.path.basename(path)
    program = main_calls.Program(
        file,
        path,
        run=lambda stop: run_program(path, state.sources, stop),
        names=lambda: names,
        rung=Rung.CALLER,
    )
    set_seeds()
    with state.step("program", file, Location(path, 1)):
        return main_calls.first_call(request.target, program)


def _main_step(state: RunState) -> AbstractContextManager[None]:
    request = state.job.request
    path = _program(request)
    location = Location(path, request.inputs.main_line or 1)
    return state.step("main", f"__main__ of {os.path.basename(path)}", location)


def _one_call(
    state: RunState, index: int, planned: PlannedCall, *, is_last: bool, names: Mapping[str, Any]
) -> bool:
    """Build and make one call, and ask for forecasts after the last. Returns whether the next one is worth making."""
    request = state.job.request
    asked = "the directive asks for it (fake=True)" if planned.fake else reason_for_fake(planned)
    with _fake_tensors(state, None if state.job.fake else asked):
        with state.step("build", planned.text, planned.location):
            try:
                with quick_random() as filled:
                    prepared = planned.build()
                state.notes.extend(filled.notes())
            except UserCallError as error:
                if not state.fake and is_out_of_memory(error.__cause__):
                    child.leave(run_failures.OUT_OF_MEMORY)
                state.failures.append(run_failures.build_failure(error, planned, request, call=index))
                return False
        check_descriptors(state)
        function = state.compiled_form(prepared)
        with state.step("call", planned.text, planned.location), call_mode(prepared):
            if state.grad is None:
                module = module_of(prepared.function)
                state.grad = torch.is_grad_enabled()
                state.training = module.training if module is not None else None
            if index == 0 and not is_compile_call(prepared.function):
                state.recorder.inspect_target(prepared.function)
            start = _perf_counter()
            try:
                with state.recorder.call(index):
                    state.notes.extend(call_outputs(prepared, function)[1])
                if is_last and not request.changes and state.recorder.has_facts:
                    _forecast(state)
                    state.forecasts = with_tried_values(state, prepared, function, names)
            except Exception as error:  # noqa: BLE001 - user code may raise anything; the next call may work
                if state.stopped:
                    return False
                failure = _failure_of_call(state, planned, prepared, error)
                unknown = state.kernel_launches.unknown
                state.failures.append(run_failures.with_unknown_values(failure, unknown))
            finally:
                seconds = _perf_counter() - start
                state.calls[index] = replace(state.calls[index], seconds=seconds)
        check_launches(state, planned, names, is_fake=bool(asked or state.job.fake))
    check_descriptors(state)
    return True


def _failure_of_call(state: RunState, planned: PlannedCall, prepared: Prepared, error: Exception) -> Failure:
    """Describe an exception of a call; where it fails without torch.compile too, its inputs may not fit."""
    failure = child.failure_of(state, error)
    if state.rung is not Rung.DIRECTIVE and not prepared.has_returned:
        return failure
    if not run_failures.may_be_of_inputs(failure):
        return failure
    start = _perf_counter()
    eager = attempt(planned.build() if prepared.is_live else prepared)
    state.phases["eager"] = _perf_counter() - start
    if prepared.is_live:
        return run_failures.not_repeatable(failure, eager)
    return run_failures.with_eager(failure, eager, planned, state.job.request.roots, error)


def _forecast(state: RunState) -> None:
    """Ask the guards what would compile again, in the modes of the last call."""
    start = _perf_counter()
    state.forecasts = state.recorder.forecasts()
    state.phases["forecast"] = _perf_counter() - start


@contextlib.contextmanager
def _fake_tensors(state: RunState, why: str | None) -> Iterator[None]:
    if why is None:
        yield
        return
    if not state.fake:
        state.fake = True
        state.notes.append(Note("fake_tensors", f"built and captured without data (on fake tensors): {why}"))
    with settings.fake_tensors():
        yield


def check_descriptors(state: RunState) -> None:
    """Report, once, that user code has closed a descriptor that it had not opened."""
    if state.progress.is_intact():
        return
    state.progress.close()
    report_descriptors(state)


def report_descriptors(state: RunState) -> None:
    """Report, once, that user code closed descriptors of ours."""
    if not any(failure.kind == "descriptors" for failure in state.failures):
        state.failures.append(
            run_failures.descriptors_failure(state.job.request, state.phase, state.call_index, state.calls)
        )
