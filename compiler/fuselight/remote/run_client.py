"""Runs requests in a worker process of this machine, for a driver that is another process or on another machine.

Invariant: standard library only, and no user code runs in this process. A run ends within the limits of its request, a
fixed time for the start, and a fixed overtime. What was started here ends with `close`, or with this process. Paths of
the driver's machine become paths of this one in the request, and back again in the report.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.protocol import Limits
from fuselight.shared.worker_launch import start_error, worker_command, worker_environment
from fuselight.shared.worker_protocol import Conversation, damage, deadline, hello_problem, message_bytes

_START_SECONDS = 300.0
"""From the start of the process to its hello: torch may come from a slow network disk."""
OVERTIME_SECONDS = 30.0
"""Past the end that the worker sets a run, after which the worker itself counts as stuck."""
_CLOSE_SECONDS = 3.0
_POLL = 0.25
_CHUNK = 1 << 16
_ANSWERS = frozenset({"Answer", "Refused"})
_LEFT_OUT = ("texts", "facts", "forecasts")
"""Fields of a Report that no driver reads: the largest ones, of the code and its values."""


@dataclass(frozen=True)
class RemoteRun:
    """A request and the process that it needs."""

    request: dict[str, Any]
    """A RunRequest as JSON (`protocol.to_json`)."""
    python: str = ""
    """Interpreter with torch; empty: the one that runs this."""
    arguments: tuple[str, ...] = ()
    """Of the interpreter."""
    folder: str = ""
    """Working folder of the process, as the driver names it; empty: the current one."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that differ from those of this process."""
    moved: dict[str, str] = field(default_factory=dict)
    """Folder of the driver's machine to the folder here, relative to this process's working folder. Empty: the files
    are where the driver has them."""


@dataclass(frozen=True)
class RemoteAnswer:
    """What came of a RemoteRun: a report, a refusal, or a lost worker."""

    report: dict[str, Any] | None = None
    """A Report as JSON, without source texts and values."""
    failure: dict[str, Any] | None = None
    """A Failure as JSON, if the worker refused the run."""
    lost: str = ""
    """Why the worker gave no answer; empty if it gave one."""
    node: str = ""
    """Name of the machine."""
    versions: dict[str, Any] = field(default_factory=dict)
    """Versions as JSON; empty if the worker did not start."""
    seconds: float = 0.0
    """From the request to the answer, without the start of the worker."""


class WorkerLostError(Exception):
    """The worker ended, or is stuck; the message says how."""


class RunStoppedError(Exception):
    """The driver stopped the run."""


def run_remotely(job: RemoteRun) -> RemoteAnswer:
    """Do a run in the worker that this process keeps; it is replaced when a run needs another environment."""
    key = _key(job)
    if _kept and _kept[0].key != key:
        _kept.pop().close()
    if not _kept:
        _kept.append(RunClient(job, key))
    client = _kept[0]
    answer = client.run(job)
    if answer.lost:
        _kept.clear()
    return answer


class RunClient:
    """One worker process, for one run at a time. It starts with the first run, and again after it was lost."""

    def __init__(self, job: RemoteRun, key: object = None) -> None:
        """Take interpreter, folder and environment from `job`."""
        self.key = key if key is not None else _key(job)
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._conversation = Conversation("")
        self._hello: dict[str, Any] | None = None
        self._number = 0

    def fits(self, job: RemoteRun) -> bool:
        """Whether a run can have this process."""
        return self.key == _key(job)

    def run(self, job: RemoteRun, stop: Callable[[], bool] = lambda: False) -> RemoteAnswer:
        """Run a request. Raises RunStoppedError when `stop` says so, after the process was killed."""
        node, versions, started = platform.node(), {}, time.monotonic()
        try:
            hello = self._start(stop)
            versions = hello.get("versions", {})
            problem = hello_problem(hello)
            if problem is not None:
                self.close()
                return RemoteAnswer(failure=encode(problem), node=node, versions=versions)
            started = time.monotonic()
            answer = self._ask(job, stop)
        except WorkerLostError as lost:
            self._kill()
            return RemoteAnswer(
                lost=str(lost), node=node, versions=versions, seconds=time.monotonic() - started
            )
        except BaseException:
            self._kill()
            raise
        seconds = time.monotonic() - started
        report = answer.get("report")
        if report is None:
            failure = answer.get("failure") or {
                "culprit": "fuselight",
                "kind": "damaged_answer",
                "message": f"the run was {answer.get('reason', 'lost')}",
            }
            return RemoteAnswer(failure=failure, node=node, versions=versions, seconds=seconds)
        kept = {name: value for name, value in report.items() if name not in _LEFT_OUT}
        return RemoteAnswer(_returned(kept, job.moved), node=node, versions=versions, seconds=seconds)

    def close(self) -> None:
        """End the process and everything that it started."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()  # the host then ends its runs and itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_SECONDS)
        self._kill()

    def _kill(self) -> None:
        process, self._process, self._hello = self._process, None, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_SECONDS)

    def _start(self, stop: Callable[[], bool]) -> dict[str, Any]:
        """Start the process if there is none, and return its hello. Raises WorkerLostError and RunStoppedError."""
        if self._process is not None and self._hello is not None and self._process.poll() is None:
            return self._hello
        self._kill()
        job, executable = self._job, self._job.python or sys.executable
        self._conversation = Conversation(executable)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter that the user chose
                worker_command(executable, job.arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=_here(job.folder, job.moved) if job.folder else None,
                env=worker_environment(os.environ, job.environment, hides_package=bool(job.moved)),
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerLostError(start_error(executable, error)) from None
        until = time.monotonic() + _START_SECONDS
        for message in self._messages(b"", stop):
            if message is None:
                if time.monotonic() > until:
                    raise WorkerLostError(self._conversation.silent_start(_START_SECONDS).message)
            elif message.get("type") == "Hello":
                self._hello = message
                return message
        raise WorkerLostError(self._how_it_ended())

    def _ask(self, job: RemoteRun, stop: Callable[[], bool]) -> dict[str, Any]:
        """Send a request and return its answer. Raises WorkerLostError and RunStoppedError."""
        self._number += 1
        request = {**_moved(job.request, job.moved), "id": self._number}
        seconds = request.get("limits", {}).get("seconds", Limits.seconds)
        until = deadline(time.monotonic(), seconds, OVERTIME_SECONDS)
        for message in self._messages(message_bytes(request), stop):
            if message is None:
                if until is not None and time.monotonic() > until:
                    raise WorkerLostError(f"the worker gave no answer within its {seconds:g} s")
            elif message.get("id") != self._number:
                continue
            elif message.get("type") in _ANSWERS:
                return message
            elif message.get("type") == "Started":
                until = deadline(time.monotonic(), message.get("seconds"), OVERTIME_SECONDS)
        raise WorkerLostError(self._how_it_ended())

    def _messages(  # noqa: C901 - one loop over three pipes
        self, data: bytes, stop: Callable[[], bool]
    ) -> Iterator[dict[str, Any] | None]:
        """Write `data`, and yield messages until the process ends; None whenever time has passed.

        Reading waits for no writing: while a large request is written, the worker may fill its pipe of errors, and each
        side would wait for the other. `communicate` would wait for the end of the process, which serves further
        requests.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None or process.stderr is None:
            raise WorkerLostError("the worker has no pipes")
        inlet, outlet, errors = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        left = memoryview(data)
        with selectors.DefaultSelector() as selector:
            for descriptor in (inlet, outlet, errors):
                os.set_blocking(descriptor, False)
            selector.register(outlet, selectors.EVENT_READ)
            selector.register(errors, selectors.EVENT_READ)
            if left:
                selector.register(inlet, selectors.EVENT_WRITE)
            while True:
                if stop():
                    raise RunStoppedError
                for key, _ in selector.select(_POLL):
                    if key.fd == inlet:
                        left = _written(inlet, left)
                        if not left:
                            selector.unregister(inlet)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    if chunk and key.fd == outlet:
                        yield from self._read(chunk)
                    elif chunk:
                        self._conversation.note(chunk)
                    elif key.fd == outlet:
                        return
                    else:
                        selector.unregister(key.fd)
                yield None

    def _read(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        try:
            for incoming in self._conversation.receive(chunk):
                if not incoming.is_partial:  # large, and only the answer counts
                    yield incoming.data()
        except wire.WireError as error:
            raise WorkerLostError(self._conversation.end(damage(error)).sentence()) from None

    def _how_it_ended(self) -> str:
        status = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_CLOSE_SECONDS)
            if self._process.stderr is not None:  # its last words, which may come after the end of its output
                with contextlib.suppress(BlockingIOError):
                    while chunk := os.read(self._process.stderr.fileno(), _CHUNK):
                        self._conversation.note(chunk)
        return self._conversation.end(status=status).sentence()


_kept: list[RunClient] = []
"""The worker of this process, at most one."""


def _key(job: RemoteRun) -> object:
    """What must be equal for two runs to have one worker."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")  # a scheduler sets it for each task
    return job.python, job.arguments, job.folder, tuple(sorted(job.environment.items())), visible


def _written(descriptor: int, data: memoryview) -> memoryview:
    try:
        return data[os.write(descriptor, data) :]
    except BlockingIOError:
        return data
    except OSError:  # it has ended, which its output shows
        return data[:0]


def _here(path: str, moved: Mapping[str, str]) -> str:
    """A path of the driver's machine on this one."""
    for folder in sorted(moved, key=len, reverse=True):
        if path == folder or path.startswith(folder.rstrip(os.sep) + os.sep):
            return os.path.join(os.getcwd(), moved[folder]) + path[len(folder.rstrip(os.sep)) :]
    return path


def _moved(value: Any, moved: Mapping[str, str]) -> Any:
    """A request with the paths of this machine; texts of files stay as they are."""
    return _mapped(value, lambda text: _here(text, moved)) if moved else value


def _returned(value: Any, moved: Mapping[str, str]) -> Any:
    """A report with the paths of the driver's machine, in messages and tracebacks too."""
    back = [(os.path.join(os.getcwd(), here), folder.rstrip(os.sep)) for folder, here in moved.items()]

    def driver_path(text: str) -> str:
        for here, folder in back:
            text = text.replace(here, folder)
        return text

    return _mapped(value, driver_path) if moved else value


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_mapped(item, change) for item in value]
    return value
