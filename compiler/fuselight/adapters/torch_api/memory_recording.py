# ruff: noqa: SLF001 - private names are this package's business
"""Has a process record what the allocator of its GPUs does, and write a snapshot at its end and when memory runs out.

Invariant: CUDA is not initialized for it, so that a program may still fork; a failure costs the snapshot and nothing
else.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import Any

import torch

MAX_EVENTS = 300_000
"""The last ones: a training step has 100 to 10,000."""
_MAX_FAILURES = 3
"""Snapshots that are written when memory runs out: a program may catch it many times."""
_NAME = "memory_"


class AllocatorRecording:
    """What one process records, in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._process = os.getpid()
        self._failures = 0

    def begin_with_cuda(self) -> None:
        """Record from the moment on at which the program initializes CUDA; nothing happens if it never does."""
        lazily: Any = torch.cuda._lazy_call
        lazily(self._begin)

    def _begin(self) -> None:
        with contextlib.suppress(Exception):  # a release without these names
            memory: Any = torch.cuda.memory
            memory._record_memory_history(
                enabled="all", context="all", stacks="python", max_entries=MAX_EVENTS
            )
            atexit.register(self._end)
            attach: Any = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
            if attach is not None:
                attach(self._ran_out)

    def _ran_out(self, *_sizes: int) -> None:
        """The allocator calls it before it raises: what is alive then is what is wanted."""
        self._failures += 1
        if self._failures <= _MAX_FAILURES:
            self._write()

    def _end(self) -> None:
        if not self._failures and os.getpid() == self._process:
            self._write()

    def _write(self) -> None:
        rank = os.environ.get("RANK", "")
        name = f"rank{rank}" if rank.isdecimal() else f"process{os.getpid()}"
        with contextlib.suppress(Exception):  # a disk that is full
            memory: Any = torch.cuda.memory
            memory._dump_snapshot(os.path.join(self._folder, f"{_NAME}{name}.pickle"))
