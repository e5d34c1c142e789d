"""A live run: records the arguments of the functions that Dynamo traces, then traces edited ones when it is asked to.

Each trace runs in a fork of this process, so that a crash, a hang or a side effect costs that one trace and the memory
is shared; without fork it runs here. It sees no GPU: the target runs on the CPU, as on a machine without one.
Invariant: each request is answered once, in the order in which they came; the process ends when the host closes the
pipe of requests, or when it has been idle for `LiveRequest.idle_seconds`.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import importlib.util
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight import dynamo
from fuselight.codec import encode
from fuselight.protocol import LiveReady, LiveRequest, Retrace, from_json, to_json
from fuselight.report import Culprit, Failure, Rung
from fuselight.target.calls import call_mode, call_outputs
from fuselight.target.rungs import Answered
from fuselight.torch_api import traces
from fuselight.worker import children, fork_rules, process, run_failures, wire
from fuselight.worker.edited_text import ParsedFile
from fuselight.worker.recorded_arguments import ArgumentRecorder, FunctionKey
from fuselight.worker.retrace import LiveRecording, RefusedError, retrace
from fuselight.worker.state import RunState, exit_now, getpid, put
from fuselight.worker.target_run import Climb, InputsCaptured, MakeCalls, guarded, run_main_again, run_target

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
        with super().compiling(state) as made, traces.listen_to_traces(self.recording.heard):
            yield made

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
    _cancelled: set[int] = field(default_factory=set)
    _running: _Trace | None = None
    _open: bool = True

    def serve(self) -> None:
        """Announce what can be traced, and answer until the pipe is closed or nothing came for long."""
        job = self.state.job
        request, pipe = job.request, job.requests
        if pipe is None or not isinstance(request, LiveRequest):
            raise TypeError(f"{type(request).__name__} is no live run")
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page
        self.state.send(to_json(LiveReady(request.id, tuple(self.recording.functions()))))
        reader = wire.FrameReader()
        while self._open:
            timeout = _POLL if self._running else request.idle_seconds
            ready, _, _ = select.select([pipe], [], [], timeout)
            if ready:
                data = os.read(pipe, 1 << 16)
                self._open = bool(data)
                for payload in reader.feed(data):
                    self._take(wire.load(payload))
            elif not self._running:
                break  # idle for long
            self._look()
            while self._waiting and self._running is None:
                self._begin(self._waiting.popleft())
        if self._running is not None:
            self._end(self._running)

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("cancel")
        if number is None:
            self._waiting.append(message["retrace"])
        elif number in self._waiting:
            self._waiting.remove(number)
        elif self._running is not None and self._running.request.id == number:
            self._end(self._running)
            self._running = None

    def _begin(self, number: int) -> None:
        data = children.read_file(self._path(number, "request"))
        request = from_json(wire.load(data or b""))
        if not isinstance(request, Retrace):
            raise TypeError("a live run answers requests to trace")
        if not self.state.job.forked:
            self._tell(number, self._do(request))
            return
        process.flush_output()
        parent = getpid()
        pid = fork_rules.fork()
        if pid == 0:
            try:
                _become_trace(parent)
                outcome = self._do(request)
                if getpid() != parent and outcome is not None:
                    put(self._path(number, "outcome"), wire.dump(outcome))
            except BaseException:  # noqa: BLE001 - the process ends here
                put(self._path(number, "outcome"), wire.dump(_failed()))
            finally:
                exit_now(0)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._running = _Trace(request, pid, time.monotonic() + request.seconds)

    def _do(self, request: Retrace) -> dict[str, Any] | None:
        """Trace in this process. Returns what the host receives beyond the report."""
        process_id = getpid()
        try:
            report = retrace(request, self.recording, self.state)
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
                self._end(running)
                self._running = None
                self._tell(number, _too_slow(running.request))
            return
        self._running = None
        data = children.read_file(self._path(number, "outcome"))
        if data is not None:
            self._tell(number, wire.load(data))
        elif children.read_file(self._path(number, "report")) is not None:
            self._tell(number, None)
        else:
            self._tell(number, _crashed(status))

    def _end(self, running: _Trace) -> None:
        """Kill a trace and all that it started."""
        below = process.descendants(running.pid)[1:]
        process.kill_group(running.pid)
        for pid in below:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(running.pid, 0)

    def _tell(self, number: int, outcome: dict[str, Any] | None) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(number, "outcome"))
        self.state.send({"type": "Retraced", "id": number, **(outcome or {})})

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


def _crashed(status: int) -> dict[str, Any]:
    if status < 0:
        failure = run_failures.signal_failure(-status, (), "trace", None)
    else:
        failure = run_failures.exit_failure(status, (), call=None, phase="trace")
    return {"reason": "crashed", "failure": encode(failure)}
