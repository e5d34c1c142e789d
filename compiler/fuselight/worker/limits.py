"""Limits of a run: its duration and its memory.

Invariant: a run at a limit is asked to end, so that it can record its position, and is killed if it does not. A run far
beyond its memory limit is killed at once. Nothing here blocks.
"""

from __future__ import annotations

import time

from fuselight.worker import process
from fuselight.worker.children import RunningChild

_TREE_EVERY = 0.5
"""Seconds between looks at the memory of a run's whole process tree."""
_READY = 120.0
"""Seconds that a fresh process has to import torch, where there is no fork, before its time begins to count."""
_GRACE = 1.0
"""Seconds that a run has to end by itself at a limit."""
_HARD_MEMORY = 1.25
"""Beyond this part of the memory limit a run is killed at once."""


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
    limit = running.request.limits.memory_mb * 1024 * 1024
    used = _memory(running, limit, now) if limit else None
    if used is not None and used > limit:
        running.end("memory", grace=0 if used > limit * _HARD_MEMORY else _GRACE)


def _seconds(running: RunningChild, *, forks: bool) -> float:
    """How long the run may take from `running.started` on; 0 is for ever."""
    seconds = running.request.limits.seconds
    importing_torch = not forks and running.last is None
    return seconds + _READY if seconds and importing_torch else seconds


def _memory(running: RunningChild, limit: int, now: float) -> int | None:
    """Measure a run's memory: its first process each time, its whole process tree now and then."""
    if now - running.measured < _TREE_EVERY:
        return process.resident(running.pid)
    running.measured = now
    return process.tree_memory(running.pid, enough=limit)
