"""The host: imports torch once, forks one child per run, and answers each request exactly once.

Invariant: no user code runs in this process, and the fork rules (fork_rules.py) hold at each fork. It has one thread
and one loop that never blocks. Without fork, it starts a new process for each run in advance.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from fuselight.adapters.environment import versions
from fuselight.shared import wire
from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.protocol import (
    PROTOCOL,
    Cancel,
    Hello,
    LiveReady,
    LiveRequest,
    Locate,
    Log,
    Progress,
    Refused,
    Retrace,
    RunRequest,
    Shutdown,
    Started,
    ToServer,
    from_json,
    to_json,
)
from fuselight.shared.report import Culprit, Failure
from fuselight.worker.child import answers
from fuselight.worker.host import preload, warm
from fuselight.worker.processes import children, fork_rules, process
from fuselight.worker.processes.children import RunningChild

if TYPE_CHECKING:
    from fuselight.worker.child.originals import Loaded

_POLL = 0.1
"""Seconds between checks of time and memory while a run is active."""


def main(started_with: frozenset[str]) -> int:
    """Serve until the server closes the pipe. Reserves descriptors 0 and 1 for the protocol."""
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    fork_rules.renew_locks_in_forks()
    host = Host(incoming, outgoing, started_with)
    try:
        if host.greet():
            host.serve()
    finally:
        host.close()
    return 0


_INSTALLED = ("site-packages", "dist-packages")


def has_packages(folder: str) -> bool:
    """Whether packages are installed in a folder of sys.path: also in others, which a `.pth` file may add."""
    if os.path.basename(folder) in _INSTALLED:
        return True
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder)) if folder else False
    except OSError:  # an archive, or no folder any more
        return False


class Host:
    """The state of the loop: the active runs by id, and the handler of each descriptor."""

    def __init__(self, incoming: int, outgoing: int, started_with: frozenset[str]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._started_with = started_with
        self._reader = wire.FrameReader()
        self._selector = selectors.DefaultSelector()
        self._runs: dict[int, RunningChild] = {}
        self._environment = dict(os.environ)
        self._folder = children.HostFolder()
        self._forks = sys.platform.startswith("linux") and not os.environ.get("FUSELIGHT_NO_FORK")
        self._preload = preload.Preload(self._folder)
        self._spare: tuple[subprocess.Popen[bytes], str, children.Pipes] | None = None
        self._open = True
        self._is_terminated = False
        self._closing: tuple[int, ...] = ()
        self._loaded: Loaded | None = None

    def greet(self) -> bool:
        """Import torch and say hello. Returns whether runs can work here."""
        hello = functools.partial(Hello, PROTOCOL, pid=os.getpid(), forks=self._forks)
        try:
            self._warm = warm.warm_up(forks=self._forks)
        except warm.Unusable as unusable:
            self._send(hello(versions=versions(), problem=unusable.failure))
            return False
        packages = tuple(filter(has_packages, sys.path))
        self._send(hello(versions=self._warm.versions, packages=packages))
        for broken in self._warm.violations:
            self._log("warning", f"fork rule broken while getting ready: {broken}")
        return True

    def serve(self) -> None:
        """Handle messages, children and limits until the server closes the pipe or requests the shutdown."""
        process.outlive_owner()
        process.adopt_orphans()
        wake_read, wake_write = os.pipe()
        for descriptor in (wake_read, wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        self._closing = (self._incoming, self._outgoing, wake_read, wake_write, self._selector.fileno())
        self._selector.register(self._incoming, selectors.EVENT_READ, self._read_requests)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: children.read_available(wake_read))
        if not self._forks:
            self._spare = children.spawn_process(self._folder, self._environment)
        while self._open:
            busy = any(not running.is_idle for running in self._runs.values())
            timeout = _POLL if busy else self._preload.patience()
            for key, _ in self._selector.select(timeout):
                handle: Callable[[], Any] = key.data
                handle()
            self._reap()
            self._tell_places()
            for running in self._runs.values():
                children.enforce(running, forks=self._forks)
            if self._forks and not busy:
                self._log_all(self._preload.go_on(self._warm.baseline))

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """End the loop at SIGTERM: the folder is deleted, too."""
        self._open, self._is_terminated = False, True

    def close(self) -> None:
        """End every descendant process, including those in other sessions, and delete the folder."""
        process.kill_descendants()
        self._folder.remove()
        if self._is_terminated:  # whoever waits for us must see what ended us
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    # Messages

    def _read_requests(self) -> None:
        data = os.read(self._incoming, 1 << 20)
        try:
            if not data:
                self._open = False
                self._reader.end()
            for payload in self._reader.feed(data):
                self._handle(payload)
        except wire.WireError as error:
            self._log("error", f"{error}; the worker ends, because nothing after that can be trusted")
            self._open = False

    def _handle(self, payload: bytes) -> None:
        data: Any = None
        try:
            data = wire.load(payload)
            message = from_json(data)
        except (wire.WireError, DecodeError) as error:
            self._refuse_bad(data, error)
            return
        if isinstance(message, RunRequest):
            self._start(message, None)
        elif isinstance(message, Retrace):
            self._retrace(message, payload)
        elif isinstance(message, (Cancel, Locate)):
            running = self._runs.get(message.id)
            if running is None and isinstance(message, Cancel):
                self._cancel_retrace(message.id)
                return
            if running is not None and isinstance(message, Cancel):
                running.end("cancelled", grace=0)
            elif running is not None:
                running.locate()
        elif isinstance(message, Shutdown):
            self._open = False
        else:
            kind = data.get("type") if isinstance(data, dict) else None
            self._log("warning", f"skipped a message of the unknown type {kind!r}")

    def _retrace(self, message: Retrace, payload: bytes) -> None:
        """Hand a request to its live run, in a file: a pipe that is full would hold up the host."""
        running = self._runs.get(message.live)
        if running is None or not running.is_ready:
            self._send(Refused(message.id, "no_live"))
            return
        try:
            with open(running.path(f"retrace-{message.id}.request"), "wb") as file:
                file.write(payload)
            running.ask({"retrace": message.id})
        except OSError as error:
            failure = Failure(
                Culprit.FUSELIGHT, "internal", f"the live run cannot be asked: {error}", "save the file"
            )
            self._send(Refused(message.id, "failed", failure))
            return
        before = max(running.retraces.values(), default=time.monotonic())  # one at a time
        running.retraces[message.id] = (
            max(before, time.monotonic()) + message.seconds + children.RETRACE_GRACE
        )

    def _cancel_retrace(self, number: int) -> None:
        for running in self._runs.values():
            if running.retraces.pop(number, None) is not None:
                with contextlib.suppress(OSError):
                    running.ask({"cancel": number})
                self._send(Refused(number, "cancelled"))

    def _pass_on_live(self, running: RunningChild, data: dict[str, Any]) -> None:
        """Pass on what a live run says: that it is ready, what it has found so far, or that it has done it all."""
        if data["type"] == LiveReady.__name__:
            self._send(decode(LiveReady, data))
            running.is_ready = True
            self._tell_started(running)
        elif data["type"] == answers.ENDED:
            running.ended = decode(Failure, data.get("failure"))
        elif data["type"] == answers.EARLY:
            if data.get("id") in running.retraces and (early := answers.early_retrace(running, data["id"])):
                self._write(early)
        elif running.retraces.pop(data.get("id", -1), None) is not None:
            self._write(answers.retrace_answer(running, data))

    def _refuse_bad(self, data: Any, error: Exception) -> None:
        self._log("error", f"bad request: {error}")
        number = data.get("id") if isinstance(data, dict) else None
        if isinstance(number, int):
            failure = Failure(
                Culprit.FUSELIGHT,
                "internal",
                f"the request could not be read: {error}",
                "the extension and the worker are of different versions: reload the window",
            )
            self._send(Refused(number, "bad_request", failure))

    def _start(self, request: RunRequest, fake: str | None) -> None:
        if request.id in self._runs:
            self._log("error", f"request {request.id} is running already: not started again")
            return
        try:
            running = self._fork(request, fake) if self._forks else self._spawn(request, fake)
        except OSError as error:
            failure = Failure(
                Culprit.ENVIRONMENT,
                "internal",
                f"no process could be started for the run: {error}",
                "check the limits on processes, memory and disk space of this machine",
            )
            self._send(Refused(request.id, "failed", failure))
            return
        self._runs[request.id] = running
        self._selector.register(running.progress, selectors.EVENT_READ, lambda: self._read_progress(running))
        for descriptor in (running.stdout, running.stderr):
            read = functools.partial(self._read_output, running, descriptor)
            self._selector.register(descriptor, selectors.EVENT_READ, read)
        self._tell_started(running)

    def _tell_started(self, running: RunningChild) -> None:
        self._send(Started(running.request.id, running.pid, children.due(running, forks=self._forks)))

    def _not_for_children(self) -> tuple[int, ...]:
        """Our descriptors, and those of the active runs."""
        others = [
            descriptor
            for running in self._runs.values()
            for descriptor in (*running.pipes, running.requests)
            if descriptor is not None
        ]
        return (*self._closing, *others)

    def _fork(self, request: RunRequest, fake: str | None) -> RunningChild:
        """Start a run in a fork of this process, which has torch loaded and never runs user code.

        What is the same in each run is loaded here between runs: in a fork, to read an object is to copy its page, so
        that reading Python's own functions in each run took a fifth of a small capture. A broken fork rule is
        logged and does not refuse the run: it may hang, and its time limit ends it.
        """
        if all(running.is_idle for running in self._runs.values()):  # the limits of another run must be kept
            self._log_all(self._preload.before(type(request), self._warm.baseline))
        for broken in fork_rules.violations(self._warm.baseline):
            self._log("error", f"fork rule broken: {broken}; the run may hang")
        close = self._not_for_children()
        from fuselight.worker.child import originals, state  # noqa: PLC0415 - load torch
        from fuselight.worker.host import jobs  # noqa: PLC0415 - load torch

        if self._loaded is None or not self._loaded.is_current:
            self._loaded = originals.Loaded()

        def work(directory: str, progress: int, requests: int) -> None:
            os.environ.clear()
            os.environ.update(self._environment)
            is_live = isinstance(request, LiveRequest)
            if not is_live:
                os.close(requests)
            # A live run forks further processes, which a pool of threads would not survive.
            jobs.run(
                state.ChildJob(
                    request,
                    directory,
                    self._started_with,
                    progress,
                    threads=1 if is_live else self._warm.threads,
                    fake=fake,
                    requests=requests if is_live else None,
                    loaded=self._loaded,
                )
            )

        return children.fork_run(request, folder=self._folder, close=close, fake=fake, work=work)

    def _spawn(self, request: RunRequest, fake: str | None) -> RunningChild:
        """Give a run to the process that waits for it, and start the next one.

        Without fork each run has to import torch, which takes seconds: the spare process does it while nothing runs.
        Its time counts from its first progress message, sent once torch is imported.
        """
        spare, self._spare = self._spare, None
        if spare is not None and not os.path.isdir(spare[1]):  # user code deleted it
            process.kill_group(spare[0].pid)
            spare = None
        child, directory, pipes = spare or children.spawn_process(self._folder, self._environment)
        children.give_job(child, request, fake=fake)
        self._spare = children.spawn_process(self._folder, self._environment)
        return RunningChild(
            request, child.pid, directory, *pipes.ours(), fake=fake, requests=pipes.requests[1]
        )

    # Children

    def _read_progress(self, running: RunningChild) -> None:
        data, ended = children.read_available(running.progress)
        try:
            for payload in running.reader.feed(data):
                self._pass_on(running, payload)
        except wire.WireError as error:  # user code wrote into our pipe
            self._log("warning", f"run {running.request.id}: progress is damaged: {error}")
            ended = True
        if ended:
            with contextlib.suppress(KeyError):
                self._selector.unregister(running.progress)

    def _pass_on(self, running: RunningChild, payload: bytes) -> None:
        with contextlib.suppress(wire.WireError, DecodeError):
            data = wire.load(payload)
            if isinstance(data, dict) and "type" in data:
                self._pass_on_live(running, data)
                return
            progress = decode(Progress, data)
            ready, running.last = running.last is None and not self._forks, progress
            if ready:
                running.started = time.monotonic()  # until then it was importing torch, not running anything
                self._tell_started(running)
            self._send(progress)
            if progress.phase in answers.GROWS and (so_far := answers.partial(running)) is not None:
                self._write(so_far)

    def _read_output(self, running: RunningChild, descriptor: int) -> None:
        data, ended = children.read_available(descriptor)
        running.tails[descriptor].add(data)
        if ended:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)

    def _tell_places(self) -> None:
        for running in self._runs.values():
            place = running.dumped_line() if running.asked is not None else None
            if place is not None and running.last is not None:
                self._send(running.last.at(place))

    def _reap(self) -> None:
        for running in list(self._runs.values()):
            with contextlib.suppress(ChildProcessError):
                status = process.collect(running.pid)
                if status is not None:
                    self._finish(running, status)
        self._preload.reap()
        if self._forks:
            self._log_all(self._preload.try_wanted(self._not_for_children()))
        if all(running.is_idle for running in self._runs.values()):
            self._kill_orphans()

    def _finish(self, running: RunningChild, status: int) -> None:
        request = running.request
        for descriptor in (running.stdout, running.stderr):
            self._read_output(running, descriptor)
        self._read_progress(running)
        for descriptor in running.pipes:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
        del self._runs[request.id]
        for number in running.retraces:
            self._send(answers.lost_retrace(running, number, status))
        try:
            if answers.wants_fake_tensors(running, status):
                limit = request.limits.memory_mb
                self._start(
                    request, f"building it with real tensors needs more memory than the limit of {limit} MB"
                )
                return
            how = f"signal {-status}" if status < 0 else f"status {status}"
            self._log("debug", f"run {request.id} ended with {how}")
            self._write(answers.answer(running, status, self._warm.versions))
            if request.preload:
                self._preload.want(running.path("ahead.json"), type(request))
        finally:
            running.remove()

    def _kill_orphans(self) -> None:
        """Kill processes that a run left outside of its process group, such as daemons."""
        if not process.has_children():
            return
        known = {*self._preload.pids(), *(running.pid for running in self._runs.values())}
        if self._spare is not None:
            known.add(self._spare[0].pid)
        for pid in process.children_of(os.getpid()):
            if pid not in known:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)

    # Out

    def _send(self, message: ToServer) -> None:
        self._write(wire.dump(to_json(message)))

    def _write(self, payload: bytes) -> None:
        try:
            data = memoryview(wire.frame(payload))
        except wire.WireError as error:
            self._log("error", str(error))
            return
        try:
            while data:
                data = data[os.write(self._outgoing, data) :]
        except OSError:  # the server is gone
            self._open = False

    def _log_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._log("info", line)

    def _log(self, level: str, text: str) -> None:
        self._send(Log(level, text))
