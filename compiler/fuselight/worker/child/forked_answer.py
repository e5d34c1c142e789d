"""Asks a fork of this process for something that can be written as JSON.

Invariant: this process goes on as if nothing had been done: a fork has its own objects, prints nowhere, and ends after
its work.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from fuselight.worker.child.originals import exit_now
from fuselight.worker.processes import fork_rules, process


def forked_answer(work: Callable[[], Any], seconds: float) -> Any:
    """What `work` returns in a fork of this process; None if it does not end in time, or in another way."""
    process.flush_output()
    parent = os.getpid()
    read, write = os.pipe()
    pid = fork_rules.fork()
    if pid == 0:
        try:
            _become_silent(parent)
            answer = json.dumps(work()).encode()
            while answer:
                answer = answer[os.write(write, answer) :]
        finally:
            exit_now(0)
    os.close(write)
    data = b""
    ends = time.monotonic() + seconds
    try:
        while select.select([read], [], [], max(0.0, ends - time.monotonic()))[0]:
            part = os.read(read, 1 << 16)
            data += part
            if not part:
                break
    finally:
        os.close(read)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(pid, 0)
    try:
        return json.loads(data)
    except ValueError:
        return None


def _become_silent(parent: int) -> None:
    process.die_with_parent(parent)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
