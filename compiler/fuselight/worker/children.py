"""Starts the process of one run and collects its output until it ends.

Invariant: a run leads its own process group, reads `/dev/null`, has its own output pipes, and holds no descriptor of
the host. Only a bounded tail of its output is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuselight.protocol import Progress, RunRequest, to_json
from fuselight.report import Location, Output, innermost_user_frame
from fuselight.worker import fault_stacks, fork_rules, process, wire

if TYPE_CHECKING:
    from fuselight.worker.folders import HostFolder
    from fuselight.worker.state import ChildJob

_CHUNK = 1 << 16
_exit = os._exit  # bound before user code can replace it: a run never returns into the host's code


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
    kill_at: float | None = None
    asked: int | None = None
    """While its position is requested: the size that its stack dumps had before, in bytes."""
    dumped: int = 0
    """The size of its stack dumps at the last check, in bytes."""
    measured: float = 0.0
    """When the memory of its whole tree was last measured."""

    def __post_init__(self) -> None:
        limit = self.request.limits.output_kb * 1024
        self.tails = {self.stdout: Tail(limit), self.stderr: Tail(limit)}

    @property
    def pipes(self) -> tuple[int, int, int]:
        """The host's ends of its pipes."""
        return self.progress, self.stdout, self.stderr

    def output(self) -> Output:
        """Return what it printed so far."""
        out, err = self.tails[self.stdout], self.tails[self.stderr]
        return Output(out.text(), err.text(), out.total, err.total)

    def path(self, name: str) -> str:
        """Return the path of one of its files."""
        return os.path.join(self.directory, name)

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

    def place(self) -> Location | None:
        """Return the user's line in the dump that was asked for, None while there is none or no such line."""
        size, before = self._dump_size(), self.dumped
        self.dumped = size
        if self.asked is None or size == self.asked or size != before:
            return None  # not there, or still being written
        with open(self.path("faults.txt"), "rb") as file:
            file.seek(self.asked)
            text = file.read().decode("utf-8", "replace")
        self.asked = None
        return innermost_user_frame(fault_stacks.read_stack(text), self.request.roots)

    def _dump_size(self) -> int:
        try:
            return os.stat(self.path("faults.txt")).st_size
        except OSError:
            return 0

    def remove(self) -> None:
        """Close the host's ends of its pipes and delete its folder."""
        for descriptor in self.pipes:
            os.close(descriptor)
        shutil.rmtree(self.directory, ignore_errors=True)


@dataclass(frozen=True)
class Pipes:
    """Both ends of the three pipes of a run."""

    progress: tuple[int, int]
    stdout: tuple[int, int]
    stderr: tuple[int, int]

    @classmethod
    def make(cls) -> Pipes:
        """Open them; our ends do not block."""
        pipes = cls(os.pipe(), os.pipe(), os.pipe())
        for ours, _ in (pipes.progress, pipes.stdout, pipes.stderr):
            os.set_blocking(ours, False)
        return pipes

    def ours(self) -> tuple[int, int, int]:
        """Return the ends that the host reads."""
        return self.progress[0], self.stdout[0], self.stderr[0]

    def close_theirs(self) -> None:
        """Close the ends that the run writes."""
        for _, theirs in (self.progress, self.stdout, self.stderr):
            os.close(theirs)


def fork_run(
    request: RunRequest,
    *,
    folder: HostFolder,
    close: Iterable[int],
    fake: str | None,
    job: Callable[[str, int], ChildJob],
    work: Callable[[ChildJob], None],
) -> RunningChild:
    """Fork the process of a run. `job` makes its job of its folder and its progress descriptor."""
    directory = folder.new_folder("run-")
    pipes = Pipes.make()
    host = os.getpid()
    _flush()
    pid = fork_rules.fork()
    if pid == 0:
        try:
            become_run(host, pipes, (*close, *pipes.ours()))
            work(job(directory, pipes.progress[1]))
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
    return RunningChild(request, pid, directory, *pipes.ours(), fake=fake)


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
    # New streams: line-buffered, so that a crash loses nothing, and raising nothing for odd text.
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = open(  # noqa: SIM115 - open until the end
            descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def spawn_process(
    folder: HostFolder, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], str, Pipes]:
    """Start a process for one run where there is no fork. It imports torch and waits for its job on descriptor 0."""
    directory = folder.new_folder("run-")
    pipes = Pipes.make()
    child = spawn(
        ["--child", str(pipes.progress[1]), directory],
        (pipes.progress[1],),
        stdout=pipes.stdout[1],
        stderr=pipes.stderr[1],
        env=dict(environment),
        start_new_session=True,
    )
    pipes.close_theirs()
    return child, directory, pipes


def spawn(arguments: Sequence[str], descriptors: Sequence[int], **options: Any) -> subprocess.Popen[bytes]:
    """Start a new worker process with these arguments and descriptors; it waits for its job on descriptor 0."""
    launch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")
    flags = sys.orig_argv[1 : sys.orig_argv.index(sys.argv[0])]
    command = [sys.executable, *flags, launch, *arguments]
    start: Any = subprocess.Popen  # which of its types it is, hangs on options that are not given here
    made: subprocess.Popen[bytes] = start(
        command, stdin=subprocess.PIPE, pass_fds=tuple(descriptors), **options
    )
    return made


def give_job(child: subprocess.Popen[bytes], request: RunRequest, fake: str | None) -> None:
    """Hand a waiting process its job."""
    if child.stdin is None:
        raise BrokenPipeError("the process has no standard input")
    with child.stdin:
        child.stdin.write(wire.frame(wire.dump({"request": to_json(request), "fake": fake})))


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


def _flush() -> None:
    """Flush our buffers, or the fork would print their contents again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
