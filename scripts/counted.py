"""Run a command so that the processor time of every process that it leads to is counted.

The system counts a process for the one that waits for it. A process whose starter has ended gets a new parent: here it
is this one and not the system's first, so that it is counted with the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PATIENCE = 5.0
"""Seconds that processes may take to end after the command has ended. Later ones are not counted."""


def adopt_orphans() -> None:
    """Make this process the parent of all descendants that lose theirs, where the system can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(command: Sequence[str]) -> int:
    """Run the command, wait for it and for its orphans; returns its exit code."""
    adopt_orphans()
    # A handler, which a child does not inherit: Ctrl-C is for the command, whose end is waited for.
    signal.signal(signal.SIGINT, lambda *_: None)
    # Waited for below, with all others.
    process = subprocess.Popen(command)
    status = _wait_for(process.pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    deadline = time.monotonic() + _PATIENCE
    while _orphan_is_left() and time.monotonic() < deadline:
        time.sleep(0.05)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _wait_for(command: int) -> int:
    """Wait for processes until the command has ended; returns its status."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            return status


def _orphan_is_left() -> bool:
    """Wait for those that have ended; returns whether others still run."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
