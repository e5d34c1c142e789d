"""A live run: records the arguments of the functions that Dynamo traces, then traces edited ones when it is asked to.

Each trace runs in a fork of this process, so that a crash, a hang or a side effect costs that one trace and the memory
is shared; without fork it runs here. A fresh fork is slow, as it copies each page that it writes to: so the next fork
is made after each trace, traces the function as it last ran, and waits. A live run sees no GPU: the target runs on the
CPU, as on a machine without one.

Invariant: each request is answered once, in the order in which they came; the process ends when the host closes the
pipe of requests, or when it has been idle for `LiveRequest.idle_seconds`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import importlib.util
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch

from fuselight.adapters.torch_api.dynamo import traces
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import call_mode, call_outputs
from fuselight.capture.calls.rungs import Answered
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.protocol import LiveReady, LiveRequest, Retrace, RunRequest, from_json, to_json
from fuselight.shared.report import Culprit, Failure, Report, Rung
from fuselight.worker.child import answers, run_failures
from fuselight.worker.child.originals import exit_now, getpid
from fuselight.worker.child.recorded_arguments import ArgumentRecorder, FunctionKey
from fuselight.worker.child.state import RunState, put
from fuselight.worker.child.target_run import (
    Climb,
    InputsCaptured,
    MakeCalls,
    guarded,
    run_main_again,
    run_target,
)
from fuselight.worker.live.edited_text import ParsedFile
from fuselight.worker.live.retrace import LiveRecording, RefusedError, retrace
from fuselight.worker.processes import children, fork_rules, process

_POLL = 0.005
"""Seconds between checks of a trace that runs."""


@dataclass
class RecordArguments(MakeCalls):
    """Makes the calls compiled, to know what Dynamo traces and how, then in eager mode, to record the arguments."""

    backend: Callable[[RunState], Callable[..., Any]] = field(default=lambda _: dynamo.capture_backend)
    recording: LiveRecording = field(default_factory=LiveRecording)

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        with super().compiling(state) as calls, traces.listen_to_traces(self.recording.heard):
            yield calls

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        super().use(state, answered, climb, names)
        recorder = ArgumentRecorder(self.wanted(state))
        with eager_recording(recorder, self.recording):
            for index, planned in enumerate(climb().calls):
                recorder.index = index
                prepared = planned.build()
                with call_mode(prepared), recorder.listening():
                    call_outputs(prepared, prepared.function)

    def wanted(self, state: RunState) -> set[FunctionKey]:
        """The functions of the workspace that Dynamo traced."""
        return {key for key in self.recording.traced if key[0] in state.sources.files}

    def record_main(self, state: RunState) -> None:
        """Run the `__main__` block in eager mode until each traced function was called."""
        recorder = ArgumentRecorder(self.wanted(state), done=InputsCaptured)
        if recorder.wanted:
            # `torch.compile` itself must not load the backend that it is given, although nothing is compiled.
            with dynamo.capture_only(), eager_recording(recorder, self.recording), recorder.listening():
                run_main_again(state)


@contextlib.contextmanager
def eager_recording(recorder: ArgumentRecorder, recording: LiveRecording) -> Iterator[None]:
    """Inside, compiled code runs in eager mode; what was recorded counts whatever ends the block."""
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        recording.calls.update(recorder.calls)
        recording.unkept.update(recorder.unkept)


def run_live(state: RunState) -> None:
    """Record, say that it is ready, and answer requests until the end."""
    strategy = RecordArguments()
    run_target(state, strategy)
    if state.rung is Rung.MAIN and not strategy.recording.calls and not state.stopped:
        failures = list(state.failures)
        guarded(state, lambda: strategy.record_main(state))
        state.failures[:] = failures  # those of the first time count
    if state.stopped:
        return
    state.originals.restore()
    recording = strategy.recording
    traces.forget_compiled()
    for path, data in state.sources.texts.items():
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            recording.texts[path] = ParsedFile(importlib.util.decode_source(data), path)
    recording.find_functions()
    recording.find_repeats()
    LiveRun(state, recording).serve()


@dataclass
class _Spare:
    """A fork that is made ahead of the next request."""

    pid: int
    requests: int
    """Descriptor that takes the number of the request."""
    ready: int
    """Descriptor from which a byte comes once it waits."""
    ends: float
    """When it must be ready, by `time.monotonic()`."""
    is_ready: bool = False

    def look(self) -> None:
        """See whether it waits by now."""
        with contextlib.suppress(BlockingIOError):
            self.is_ready = self.is_ready or bool(os.read(self.ready, 1))

    def close(self) -> None:
        """Close our ends of its pipes."""
        os.close(self.requests)
        os.close(self.ready)


@dataclass
class _Trace:
    """A trace in a process of its own."""

    request: Retrace
    pid: int
    ends: float
    """When it is ended, by `time.monotonic()`."""


@dataclass
class LiveRun:
    """Answers the requests of the host."""

    state: RunState
    recording: LiveRecording
    _waiting: collections.deque[int] = field(default_factory=collections.deque)
    _running: _Trace | None = None
    _spare: _Spare | None = None
    _open: bool = True

    def serve(self) -> None:
        """Announce what can be traced, and answer until the pipe is closed or nothing came for long."""
        job = self.state.job
        request, pipe = job.request, job.requests
        if pipe is None or not isinstance(request, LiveRequest):
            raise TypeError(f"{type(request).__name__} is no live run")
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page
        self.state.progress.send(to_json(LiveReady(request.id, tuple(self.recording.functions()))))
        reader = wire.FrameReader()
        while self._open:
            is_waiting = self._running or (self._spare and not self._spare.is_ready)
            timeout = _POLL if is_waiting else request.idle_seconds
            ready, _, _ = select.select([pipe], [], [], timeout)
            if ready:
                data = os.read(pipe, 1 << 16)
                self._open = bool(data)
                for payload in reader.feed(data):
                    self._take(wire.load(payload))
            elif not is_waiting:
                break  # idle for long
            self._look()
            self._look_at_spare()
            while self._waiting and self._running is None:
                self._begin(self._waiting.popleft())
        if self._running is not None:
            self._end(self._running.pid)
        self._end_spare()

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("cancel")
        if number is None:
            self._waiting.append(message["retrace"])
        elif number in self._waiting:
            self._waiting.remove(number)
        elif self._running is not None and self._running.request.id == number:
            self._end(self._running.pid)
            self._running = None

    def _begin(self, number: int) -> None:
        request = self._request(number)
        if not self.state.job.forked:
            self._tell(number, self._do(request))
            return
        pid = self._use_spare(number)
        if pid is None:
            process.flush_output()
            parent = getpid()
            pid = fork_rules.fork()
            if pid == 0:
                self._trace_here(parent, lambda: number)
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)
        self._running = _Trace(request, pid, time.monotonic() + request.seconds)

    def _request(self, number: int) -> Retrace:
        request = from_json(wire.load(children.read_file(self._path(number, "request")) or b""))
        if not isinstance(request, Retrace):
            raise TypeError("a live run answers requests to trace")
        return request

    def _trace_here(self, parent: int, wait: Callable[[], int | None]) -> NoReturn:
        """Be the process of one trace: of the request whose number `wait` returns; None if there is none any more."""
        number = None
        try:
            _become_trace(parent)
            number = wait()
            outcome = None if number is None else self._do(self._request(number))
            if getpid() != parent and number is not None and outcome is not None:
                put(self._path(number, "outcome"), wire.dump(outcome))
        except BaseException:  # noqa: BLE001 - the process ends here
            if number is not None:
                put(self._path(number, "outcome"), wire.dump(_failed()))
        finally:
            exit_now(0)

    # The fork for the next request

    def _make_spare(self, last: Retrace) -> None:
        """Fork ahead of the next request, which is likely to be for the function of the last one."""
        text = "\n".join(self.recording.texts[last.path].lines)
        warm_up = replace(last, text=text, functions=last.functions[:1])
        process.flush_output()
        requests, ours = os.pipe()
        ready, theirs = os.pipe()
        parent = getpid()
        pid = fork_rules.fork()
        if pid == 0:
            os.close(ours)
            os.close(ready)
            self._trace_here(parent, lambda: self._wait_warm(warm_up, requests, theirs))
        os.close(requests)
        os.close(theirs)
        os.set_blocking(ready, False)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._spare = _Spare(pid, ours, ready, time.monotonic() + last.seconds)

    def _wait_warm(self, warm_up: Retrace, requests: int, ready: int) -> int | None:
        """Copy the pages that a trace writes to, then wait for the number of a request."""
        with contextlib.suppress(RefusedError):
            retrace(warm_up, self.recording, self.state)
        traces.forget_compiled()
        os.write(ready, b"1")
        data = os.read(requests, 64)
        return int(data) if data else None

    def _use_spare(self, number: int) -> int | None:
        """Give a request to the fork that waits; returns its process, None if a new one is needed."""
        spare = self._spare
        if spare is None:
            return None
        spare.look()
        try:
            if spare.is_ready:
                os.write(spare.requests, b"%d" % number)
        except OSError:  # it was killed
            spare.is_ready = False
        if not spare.is_ready:
            self._end_spare()
            return None
        spare.close()
        self._spare = None
        return spare.pid

    def _look_at_spare(self) -> None:
        spare = self._spare
        if spare is None:
            return
        spare.look()
        if not spare.is_ready and time.monotonic() >= spare.ends:
            self._end_spare()

    def _end_spare(self) -> None:
        if self._spare is not None:
            spare, self._spare = self._spare, None
            spare.close()
            self._end(spare.pid)

    def _do(self, request: Retrace) -> dict[str, Any] | None:
        """Trace in this process. Returns what the host receives beyond the report."""
        process_id = getpid()
        try:
            on_break = functools.partial(self._tell_early, request.id, process_id) if request.early else None
            report = retrace(request, self.recording, self.state, on_break)
            if getpid() != process_id:  # a process that the traced code forked has come back to us
                exit_now(0)
            put(self._path(request.id, "report"), wire.dump(encode(report)))
        except RefusedError as refused:
            return {"reason": refused.reason, "failure": encode(refused.failure)}
        except Exception:  # noqa: BLE001 - a request has an answer whatever it meets
            return _failed()
        finally:
            if not self.state.job.forked:
                traces.forget_compiled()
        return None

    def _tell_early(self, number: int, process_id: int, report: Report) -> None:
        """Have the host pass on what a trace has found so far. Called in the process of the trace, inside a compile."""
        if getpid() == process_id:
            put(self._path(number, "early"), wire.dump(encode(report)))
            self.state.progress.send(
                {"type": answers.EARLY, "id": number}
            )  # so short that it is written as a whole

    def _look(self) -> None:
        """See whether the trace that runs has ended, or has to."""
        running = self._running
        if running is None:
            return
        number = running.request.id
        try:
            status = process.collect(running.pid)
        except ChildProcessError:
            status = 0  # user code ignores the end of children; the files tell
        if status is None:
            if time.monotonic() >= running.ends:
                self._end(running.pid)
                self._running = None
                self._tell(number, _too_slow(running.request))
            return
        self._running = None
        data = children.read_file(self._path(number, "outcome"))
        if data is not None:
            self._tell(number, wire.load(data))
        elif children.read_file(self._path(number, "report")) is not None:
            self._tell(number, None)
            if self._open and not self._waiting:
                self._make_spare(running.request)
        else:
            self._tell(number, _crashed(status, self.state.job.request))

    def _end(self, pid: int) -> None:
        """Kill a fork and all that it started."""
        below = process.descendants(pid)[1:]
        process.kill_group(pid)
        for number in below:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def _tell(self, number: int, outcome: dict[str, Any] | None) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(number, "outcome"))
        self.state.progress.send({"type": "Retraced", "id": number, **(outcome or {})})

    def _path(self, number: int, kind: str) -> str:
        return os.path.join(self.state.job.directory, f"retrace-{number}.{kind}")


def _become_trace(parent: int) -> None:
    """Turn this fresh fork into the process of one trace: what it prints is dropped."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    process.die_with_parent(parent)
    gc.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def _failed() -> dict[str, Any]:
    return {"reason": "failed", "failure": encode(run_failures.internal_failure(traceback.format_exc()))}


def _too_slow(request: Retrace) -> dict[str, Any]:
    failure = Failure(
        Culprit.USER,
        "timeout",
        f"the trace of the edited function took longer than {request.seconds:g} s",
        "Save the file: the next run has the time that fuselight.limits.seconds allows.",
    )
    return {"reason": "timeout", "failure": encode(failure)}


def _crashed(status: int, request: RunRequest) -> dict[str, Any]:
    if status < 0:
        failure = run_failures.signal_failure(-status, request, (), "trace", None)
    else:
        failure = run_failures.exit_failure(status, (), call=None, phase="trace")
    return {"reason": "crashed", "failure": encode(failure)}
