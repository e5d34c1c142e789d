"""The user's program as a process of a command: signals reach it, and an interruption leaves none of its processes.

Invariant: only processes that this program started are ended: those that have the variable of its run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fuselight.shared.started_processes import RUN

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")
_TERMINATIONS = ("SIGTERM", "SIGHUP")
_GRACE = 3.0
"""Seconds that processes have to end by themselves, and again after SIGTERM."""


@dataclass(frozen=True)
class EndedProgram:
    """How a program ended."""

    pid: int
    code: int
    """Its exit code; negative is the signal that ended it."""
    interrupted_at: float | None
    """When Ctrl-C was pressed, seconds since the epoch; None if it was not."""
    is_terminated: bool = False
    """Whether this command was asked to end, and passed that on."""

    @property
    def is_stopped(self) -> bool:
        """Whether its user has stopped it."""
        return self.is_terminated or self.interrupted_at is not None


def run_program(
    command: list[str], variables: Mapping[str, str] | None = None, *, unblocks: bool = False
) -> EndedProgram:
    """Run it with our own descriptors and pass signals on.

    Ctrl-C reaches the program from the terminal itself, so we only have to survive it. `unblocks`: the program lets
    Ctrl-C through once it has started, and until then Python's own start would print a traceback.
    """
    interrupts: list[float] = []
    terminations: list[int] = []
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with _blocked_interrupts() if unblocks else contextlib.nullcontext():
        if not is_ignored:
            signal.signal(signal.SIGINT, lambda _number, _frame: interrupts.append(time.time()))
        process = subprocess.Popen(command, env=variables)  # noqa: S603 - the user's own program

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if signal.Signals(number).name in _TERMINATIONS:
            terminations.append(number)
        process.send_signal(number)

    for name in _FORWARDED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    code = process.wait()
    if not is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return EndedProgram(process.pid, code, next(iter(interrupts), None), bool(terminations))


def end_started(run: str) -> None:
    """End the processes of a run that are left, after they had the time to end by themselves."""
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        end = time.monotonic() + _GRACE
        while left := _started(run):
            if time.monotonic() > end:
                break
            time.sleep(0.05)
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, number)


def _started(run: str) -> list[int]:
    """The processes of a run; none where the system does not show the variables of processes."""
    mark = f"{RUN}={run}".encode()
    processes = []
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc"):
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    processes.append(int(entry.name))
    return processes


@contextlib.contextmanager
def _blocked_interrupts() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
