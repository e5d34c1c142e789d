"""The process of one run: prepares it, does its work, writes its answer and exits.

Invariant: `run` never returns to its caller and always ends the process, with an answer in its folder. The partial
report is written after each compile, because any later step may crash.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import traceback
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from fuselight.adapters.torch_api import devices
from fuselight.adapters.torch_api.dynamo import frames
from fuselight.capture import dynamo
from fuselight.capture.calls import importing
from fuselight.capture.dynamo import stacks
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.protocol import AssembleRequest, GenerateRequest, LiveRequest, MemoryRequest, RunRequest
from fuselight.shared.report import Culprit, Failure, is_user_file
from fuselight.worker.child import answers, run_failures
from fuselight.worker.child.launch_modes import (
    compile_own_kernels,
    measured_without_gpu,
    with_gpu,
    without_gpu,
)
from fuselight.worker.child.originals import Loaded, exit_now, getpid, names_of
from fuselight.worker.child.reads import ReadRecorder
from fuselight.worker.child.state import ChildJob, RunState, finish, put
from fuselight.worker.child.tensor_holders import tensor_holders, with_holders
from fuselight.worker.processes import limits, process

_COLLECT_EVERY = 50_000
"""Allocations between two garbage collections. A compile makes millions of objects, nearly all of which stay until its
end: with Python's default of 700, collections take a tenth of a run."""
_DEFAULT_THRESHOLD = gc.get_threshold()


class StoppedError(BaseException):
    """A limit was reached: raised in user code, so that the report can be written."""


def run(job: ChildJob, work: Callable[[RunState], None], *, forks: bool = False, timed: bool = False) -> None:
    """Do `work` and end the process, which must be a new process or a new fork of the host.

    `forks`: it forks other processes and must not initialize the GPU driver, which would break it for them. `timed`: it
    times calls.
    """
    state: RunState | None = None
    try:
        state = _prepare(job, forks=forks, timed=timed)
        answers_for_gpu: AbstractContextManager[None] = contextlib.nullcontext()
        if state.sources.redirect:
            answers_for_gpu = measured_without_gpu() if timed else without_gpu(state)
        elif not timed and not forks:
            answers_for_gpu = with_gpu(state)
        with contextlib.suppress(StoppedError), answers_for_gpu:  # the host knows which limit it was
            work(state)
        state.originals.restore()
        state.loaded.limits.restore()
        limits.make_room(job.progress)
        if not state.stopped:
            compile_own_kernels(state)
        finish(state)
    except BaseException as error:  # noqa: BLE001 - the process ends here, and the host must hear why
        try:
            if state is None or getpid() == state.pid:
                _tell_end(job, state, error)
        finally:
            leave(run_failures.INTERNAL)
    leave(0)


def _tell_end(job: ChildJob, state: RunState | None, error: BaseException) -> None:
    """Write why there is no answer, or send it where no file can be written any more."""
    failure = None
    if state is not None:
        failure = limits.failure_of(error, state.job.request.target, state.loaded.limits)
        if failure is None and (
            state.originals.restore() or _passes_user_code(error, state.job.request.roots)
        ):
            failure = failure_of(state, error)
        if failure is not None:
            state.progress.send({"type": answers.ENDED, "failure": encode(failure)})
            return
    put(os.path.join(job.directory, "internal.txt"), traceback.format_exc().encode("utf-8", "replace"))


def _passes_user_code(error: BaseException, roots: Sequence[str]) -> bool:
    """Whether any frame of a traceback is user code."""
    return any(
        is_user_file(frame.f_code.co_filename, roots) for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def leave(status: int) -> None:
    """End the process, with what it printed flushed."""
    try:
        process.flush_output()
    finally:
        exit_now(status)


def _prepare(job: ChildJob, *, forks: bool, timed: bool) -> RunState:
    request = job.request
    process.allow_sampling()
    is_live = isinstance(request, LiveRequest)
    in_world = request.world is not None
    if is_live or (in_world and not isinstance(request, (GenerateRequest, AssembleRequest))):
        devices.hide()  # it lives long, or is one of many, and must not hold memory of the GPU that the user needs
    elif not forks:
        devices.use_driver()
    if timed:
        gc.unfreeze()
        gc.set_threshold(*_DEFAULT_THRESHOLD)  # as where the program runs by itself
    else:
        gc.set_threshold(_COLLECT_EVERY, *_DEFAULT_THRESHOLD[1:])
    faults = open(os.path.join(job.directory, "faults.txt"), "wb", buffering=0)  # noqa: SIM115 - open until the end
    faulthandler.enable(file=faults)
    os.environ.update(request.environment)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    # An estimate is made on fake tensors of the CPU, with or without a GPU.
    is_estimate = isinstance(request, MemoryRequest) and not request.measures
    redirect = not forks and (in_world or is_estimate or not torch.cuda.is_available())
    sources = importing.Sources(
        request.roots,
        request.overlays,
        redirect=redirect,
        redirect_numbers=in_world,
        keeps_texts=is_live,
        kept=job.kept_texts,
        target=_line_of_target(request),
    )
    state: RunState
    run_failures.note_exit(
        torch.compiler.disable(lambda status, frame: _exited(state, status, frame))  # type: ignore[no-untyped-call]
    )
    state = RunState(job, sources, getpid(), loaded=job.loaded or Loaded())
    state.progress.open()
    if request.records_reads:
        state.reads = ReadRecorder(own=(job.directory,))
        state.reads.start()
    state.originals.save("os", "_exit")  # our own
    # Disabled, or Dynamo would compile our handlers where they interrupt code of the user's.
    stop: Any = torch.compiler.disable(lambda _, frame: _stop(state, frame))  # type: ignore[no-untyped-call]
    signal.signal(process.SOFT_SIGNAL, stop)
    # Not of all threads: to read those that run, as Triton's compiles do, can be what crashes the process.
    faulthandler.register(process.SOFT_SIGNAL, file=faults, chain=True, all_threads=False)
    faulthandler.register(process.SAMPLE_SIGNAL, file=faults, all_threads=False)
    return state


def _line_of_target(request: RunRequest) -> tuple[str, int] | None:
    """Where the target is defined; None where the calls that a whole program makes are wanted."""
    target, inputs = request.target, request.inputs
    if target.kind in {"main", "call"} or inputs.main_line is not None or inputs.program == target.path:
        return None
    return target.path, target.line


def _stop(state: RunState, frame: types.FrameType | None) -> None:
    """Record where the run is, then interrupt user code, which may resist."""
    state.stopped = True
    replaced = state.originals.restore()
    try:
        stack = run_failures.stack_of(traceback.extract_stack(frame), state.job.request.roots)
        traced = run_failures.stack_of(frames.user_stack(), state.job.request.roots)
        where = Failure(
            Culprit.USER,
            "stopped",
            "stopped at a limit",
            stack=(*stack, *traced),
            call=state.call_index,
            phase=state.phase,
        )
        path = os.path.join(state.job.directory, "stopped.json")
        put(path, wire.dump(encode(where)))
        with contextlib.suppress(Exception):  # the position is known without it
            holders = tensor_holders(stacks.frames_from(frame), state.job.request.roots)
            put(path, wire.dump(encode(replace(where, holders=holders))))
    finally:
        state.originals.put_back(replaced)
    raise StoppedError


def _exited(state: RunState, status: int, frame: types.FrameType) -> None:
    """Write the report when user code calls `os._exit`, which skips all other handlers."""
    if getpid() == state.pid:
        state.originals.restore()
        stack = run_failures.stack_of(traceback.extract_stack(frame), state.job.request.roots)
        state.failures.append(
            run_failures.exit_failure(status, stack, call=state.call_index, phase=state.phase)
        )
        finish(state)


def failure_of(state: RunState, error: BaseException) -> Failure:
    """Describe an exception that ended the run or one call of it.

    If user code replaced functions of Python's own and other code failed because of it, user code is the culprit.
    """
    replaced = state.originals.restore()
    try:
        with contextlib.suppress(Exception):  # an attribute of the user's may raise anything
            known = getattr(error, "failure", None)
            if isinstance(known, Failure):  # one of ours: a device that is missing, a world of another size
                stack = run_failures.user_stack(error, state.job.request.roots)
                return replace(
                    known, phase=state.phase, stack=stack if known.kind == "world" else known.stack
                )
        roots = state.job.request.roots
        failure = dynamo.failure_of(error, roots=roots, call=state.call_index, phase=state.phase)
        folders = (os.path.dirname(state.job.request.target.path), *roots)
        if failure.kind == "memory":
            failure = with_holders(failure, error, roots)
        shadowed = run_failures.shadowed_failure(failure, error, folders)
        if shadowed is not None:
            return shadowed
        names = names_of(replaced, roots)
        is_halted = isinstance(error, ImportError) and f'sys.modules["{error.name}"]' in names
        if names and (is_halted or not _raised_in(error, roots)):
            failure = run_failures.replaced_failure(failure, names, state.job.request.target)
        return failure
    finally:
        state.originals.put_back(replaced)


def _raised_in(error: BaseException, roots: Sequence[str]) -> bool:
    """Whether the innermost frame is user code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and is_user_file(frames[-1].f_code.co_filename, roots)
