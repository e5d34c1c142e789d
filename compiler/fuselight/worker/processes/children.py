"""Starts the process of one run, collects its output, and ends it at a limit of duration or memory.

Invariant: a run leads its own process group, reads `/dev/null`, has its own output pipes, and holds no descriptor of
the host. Only a bounded tail of its output is kept. At a limit it is asked to end, so that it can record its position,
and is killed if it does not; far beyond its memory limit it has the time to dump its stack alone. Nothing here blocks.

The files of the runs are in a folder that the host owns (owned_folders.py). User code may delete it, and all of the
folder for temporary files: it is made again under another name.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuselight.shared import owned_folders, wire
from fuselight.shared.foreign_files import read_regular
from fuselight.shared.protocol import Progress, RunRequest, to_json
from fuselight.shared.report import Failure, Location, Output, Stack, innermost_user_frame
from fuselight.shared.worker_launch import launch_path
from fuselight.shared.world_plan import ranks_to_run
from fuselight.worker.processes import fork_rules, process

_FRAME = re.compile(r'^  File "(?P<path>.+)", line (?P<line>\d+) in (?P<function>.+)$')
_CURRENT = re.compile(
    r"^(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$|^Stack \(most recent"
)
_CHUNK = 1 << 16
_exit = os._exit  # bound before user code can replace it: a run never returns into the host's code
_TREE_EVERY = 0.5
"""Seconds between looks at the memory of a run's whole process tree."""
_READY = 120.0
"""Seconds that a fresh process has to import torch, where there is no fork, before its time begins to count."""
_GRACE = 1.0
"""Seconds that a run has to end by itself at a limit."""
RETRACE_GRACE = 2.0
"""Seconds past the time limit of a retrace after which the live run itself is held to be stuck."""
_LARGEST = 2**31
"""Bytes of a file that a run writes for the host."""
_HARD_MEMORY = 1.25
"""Beyond this part of the memory limit a run is killed as soon as its stack was dumped."""
_HARD_GRACE = 0.1
"""Seconds for that: the handler is in C, and needs no step of the interpreter."""


class HostFolder:
    """The folder of this process, made when it is first needed. A fork of this process does not own it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._path: str | None = None

    def new_folder(self, prefix: str) -> str:
        """Make a folder inside. Raises OSError."""
        if self._path is None or not os.path.isdir(self._path):
            self._path = owned_folders.new_folder("worker")
        return tempfile.mkdtemp(prefix=prefix, dir=self._path)

    def remove(self) -> None:
        """Delete it, in the process that made it alone."""
        if self._path is not None and os.getpid() == self._owner:
            shutil.rmtree(self._path, ignore_errors=True)


def read_file(path: str) -> bytes | None:
    """Read a file that a run may have written; None if it has not, or put something else there."""
    try:
        return read_regular(path, _LARGEST)
    except OSError:
        return None


def read_stack(dumps: bytes | None) -> Stack:
    """Read the stack of the current thread out of the last faulthandler dump; empty if there is none."""
    stacks: list[tuple[bool, list[Location]]] = []
    for line in (dumps or b"").decode("utf-8", "replace").splitlines():
        header = _CURRENT.match(line)
        if header:
            stacks.append((not line.startswith("Thread"), []))
            continue
        frame = _FRAME.match(line)
        if frame and stacks:
            path, function = frame["path"], frame["function"]
            stacks[-1][1].append(Location(path, int(frame["line"]), function=function))
    current = [frames for is_current, frames in stacks if is_current] or [frames for _, frames in stacks]
    return tuple(reversed(current[-1])) if current else ()


class Tail:
    """The last bytes of a stream, and the total count."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Append data."""
        self.total += len(data)
        self._kept += data
        if len(self._kept) > 2 * self.limit:
            del self._kept[: -self.limit]

    def text(self) -> str:
        """Return the tail as text; bytes that are no UTF-8 show as escapes."""
        return bytes(self._kept[-self.limit :] if self.limit else b"").decode("utf-8", "backslashreplace")


@dataclass
class RunningChild:
    """A run in progress, from the host's side."""

    request: RunRequest
    pid: int
    directory: str
    progress: int
    stdout: int
    stderr: int
    fake: str | None = None
    started: float = field(default_factory=time.monotonic)
    reader: wire.FrameReader = field(default_factory=wire.FrameReader)
    last: Progress | None = None
    ending: str | None = None
    """Reason for ending it: `cancelled`, `timeout` or `memory`."""
    ended: Failure | None = None
    """Why it gives no answer, if it could say that itself."""
    kill_at: float | None = None
    asked: int | None = None
    """While its position is requested: the size that its stack dumps had before, in bytes."""
    dumped: int = 0
    """The size of its stack dumps at the last check, in bytes."""
    measured: float = field(default_factory=time.monotonic)
    """When the memory of its whole tree was last measured: at first it has none."""
    requests: int | None = None
    """The host's end of the pipe on which a live run is asked."""
    is_ready: bool = False
    """Whether a live run waits for what it is asked; from then on it has no time limit of its own."""
    system_kills: int = field(default_factory=process.system_kills)
    """As it was when the run was started."""
    retraces: dict[int, float] = field(default_factory=dict)
    """Ids of the requests that a live run has not answered, and when each must be answered."""

    def __post_init__(self) -> None:
        limit = self.request.limits.output_kb * 1024
        self.tails = {self.stdout: Tail(limit), self.stderr: Tail(limit)}

    @property
    def pipes(self) -> tuple[int, int, int]:
        """The host's ends of its pipes."""
        return self.progress, self.stdout, self.stderr

    @property
    def is_idle(self) -> bool:
        """Whether this is a live run that waits."""
        return self.is_ready and not self.retraces

    def was_killed_by_system(self, status: int) -> bool:
        """Whether the system ended it for a lack of memory: it died of SIGKILL, and meanwhile the system did so."""
        is_ours = self.ending is not None or self.kill_at is not None
        return status == -signal.SIGKILL and not is_ours and process.system_kills() > self.system_kills

    def ask(self, message: dict[str, Any]) -> None:
        """Tell a live run what to do. Raises OSError, BlockingIOError where it has long not read anything."""
        if self.requests is None:
            raise BrokenPipeError("this run takes no requests")
        os.write(self.requests, wire.frame(wire.dump(message)))

    def output(self) -> Output:
        """Return what it printed so far."""
        out, err = self.tails[self.stdout], self.tails[self.stderr]
        return Output(out.text(), err.text(), out.total, err.total)

    def path(self, name: str) -> str:
        """Return the path of one of its files."""
        return os.path.join(self.directory, name)

    def read(self, name: str) -> bytes | None:
        """Read one of its files; None if it has written none."""
        return read_file(self.path(name))

    def end(self, why: str, *, grace: float) -> None:
        """Ask it to end within `grace` seconds, so that it can record its position, then kill it."""
        self.ending = why
        self.kill_at = time.monotonic() + grace
        if grace > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, process.SOFT_SIGNAL)
        else:
            process.kill_group(self.pid)

    def locate(self) -> None:
        """Ask it to dump its stack, which `place` then reads."""
        self.asked = self.dumped = self._dump_size()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, process.SAMPLE_SIGNAL)

    def dumped_line(self) -> Location | None:
        """Return the user's line in the dump that was asked for, None while there is none or no such line."""
        size, before = self._dump_size(), self.dumped
        self.dumped = size
        if self.asked is None or size == self.asked or size != before:
            return None  # not there, or still being written
        dump = (self.read("faults.txt") or b"")[self.asked :]
        self.asked = None
        return innermost_user_frame(read_stack(dump), self.request.roots)

    def _dump_size(self) -> int:
        try:
            return os.stat(self.path("faults.txt")).st_size
        except OSError:
            return 0

    def remove(self) -> None:
        """Close the host's ends of its pipes and delete its folder."""
        for descriptor in self.pipes:
            os.close(descriptor)
        if self.requests is not None:
            os.close(self.requests)
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(frozen=True)
class Pipes:
    """Both ends of the three pipes of a run, and of the one to a live run."""

    progress: tuple[int, int]
    stdout: tuple[int, int]
    stderr: tuple[int, int]
    requests: tuple[int, int]

    @classmethod
    def make(cls) -> Pipes:
        """Open them; our ends do not block."""
        pipes = cls(os.pipe(), os.pipe(), os.pipe(), os.pipe())
        for ours in (*pipes.ours(), pipes.requests[1]):
            os.set_blocking(ours, False)
        return pipes

    def ours(self) -> tuple[int, int, int]:
        """Return the ends that the host reads."""
        return self.progress[0], self.stdout[0], self.stderr[0]

    def close_theirs(self) -> None:
        """Close the ends that the run writes."""
        for _, theirs in (self.progress, self.stdout, self.stderr):
            os.close(theirs)
        os.close(self.requests[0])


def fork_run(
    request: RunRequest,
    *,
    folder: HostFolder,
    close: Iterable[int],
    fake: str | None,
    work: Callable[[str, int, int], None],
) -> RunningChild:
    """Fork the process of a run. `work` does it, given its folder and its descriptors of progress and requests."""
    directory = folder.new_folder("run-")
    pipes = Pipes.make()
    host = os.getpid()
    process.flush_output()  # or the fork would print their contents again
    pid = fork_rules.fork()
    if pid == 0:
        try:
            become_run(host, pipes, (*close, *pipes.ours(), pipes.requests[1]))
            work(directory, pipes.progress[1], pipes.requests[0])
        except BaseException:  # noqa: BLE001 - `work` ends the process itself: this is a failure of ours before it
            with open(
                os.path.join(directory, "internal.txt"), "w", encoding="utf-8", errors="replace"
            ) as file:
                traceback.print_exc(file=file)
        finally:
            _exit(1)
    with contextlib.suppress(OSError):  # both sides do it: whichever comes first
        os.setpgid(pid, pid)
    pipes.close_theirs()
    return RunningChild(request, pid, directory, *pipes.ours(), fake=fake, requests=pipes.requests[1])


def become_run(host: int, pipes: Pipes, close: Iterable[int]) -> None:
    """Turn this fresh fork into a run's process: a group of its own, and its own descriptors 0, 1 and 2."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    process.die_with_parent(host)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor in close:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    null = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((null, 0), (pipes.stdout[1], 1), (pipes.stderr[1], 2)):
        os.dup2(ours, standard)
        os.close(ours)
    process.open_line_buffered_output()


def spawn_process(
    folder: HostFolder, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], str, Pipes]:
    """Start a process for one run where there is no fork. It imports torch and waits for its job on descriptor 0."""
    directory = folder.new_folder("run-")
    pipes = Pipes.make()
    child = spawn(
        ["--child", str(pipes.progress[1]), directory, str(pipes.requests[0])],
        (pipes.progress[1], pipes.requests[0]),
        stdout=pipes.stdout[1],
        stderr=pipes.stderr[1],
        env=dict(environment),
        start_new_session=True,
    )
    pipes.close_theirs()
    return child, directory, pipes


def spawn(arguments: Sequence[str], descriptors: Sequence[int], **options: Any) -> subprocess.Popen[bytes]:
    """Start a new worker process with these arguments and descriptors; it waits for its job on descriptor 0."""
    flags = sys.orig_argv[1 : sys.orig_argv.index(sys.argv[0])]
    command = [sys.executable, *flags, launch_path(), *arguments]
    start: Any = subprocess.Popen  # which of its types it is, hangs on options that are not given here
    process: subprocess.Popen[bytes] = start(
        command, stdin=subprocess.PIPE, pass_fds=tuple(descriptors), **options
    )
    return process


def give_job(child: subprocess.Popen[bytes], request: RunRequest, **details: str | None) -> None:
    """Hand a waiting process its job. Raises OSError."""
    if child.stdin is None:
        raise BrokenPipeError("the process has no standard input")
    with child.stdin:
        child.stdin.write(wire.frame(wire.dump({"request": to_json(request), **details})))


def read_available(descriptor: int) -> tuple[bytes, bool]:
    """Read what a pipe holds now. Returns the bytes, and whether the pipe has ended."""
    parts: list[bytes] = []
    while True:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return b"".join(parts), False
        if not data:
            return b"".join(parts), True
        parts.append(data)
        if len(parts) >= 64:  # noqa: PLR2004 - 4 MB at a time: a run that prints without end must not hold the loop
            return b"".join(parts), False


def due(running: RunningChild, *, forks: bool) -> float | None:
    """Seconds from `running.started` after which the run has ended or is being killed; None: it has no such limit."""
    seconds = _seconds(running, forks=forks)
    return seconds + _GRACE if seconds else None


def enforce(running: RunningChild, *, forks: bool) -> None:
    """Check a run, and end it if it has reached a limit."""
    now = time.monotonic()
    if running.kill_at is not None:
        if now >= running.kill_at:
            process.kill_group(running.pid)
        return
    seconds = _seconds(running, forks=forks)
    if seconds and now - running.started >= seconds:
        running.end("timeout", grace=_GRACE)
        return
    if running.is_ready:
        if running.is_idle:
            return
        if now >= min(running.retraces.values()):
            running.end("timeout", grace=0)
            return
    limit = running.request.limits.memory_mb * 1024 * 1024
    used = _memory(running, limit, now) if limit else None
    if used is not None and used > limit:
        running.end("memory", grace=_HARD_GRACE if used > limit * _HARD_MEMORY else _GRACE)


def _seconds(running: RunningChild, *, forks: bool) -> float:
    """How long the run may take from `running.started` on; 0 is for ever."""
    if running.is_ready:
        return 0
    seconds = running.request.limits.seconds
    world = running.request.world
    if world is not None and world.rank is None:  # the limit is that of each rank
        seconds *= len(ranks_to_run(world))
    importing_torch = not forks and running.last is None
    return seconds + _READY if seconds and importing_torch else seconds


def _memory(running: RunningChild, limit: int, now: float) -> int | None:
    """Measure a run's memory: its first process each time, its whole process tree now and then."""
    if now - running.measured < _TREE_EVERY:
        return process.resident(running.pid)
    running.measured = now
    return process.tree_memory(running.pid, enough=limit)
