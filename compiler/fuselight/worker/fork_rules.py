"""What must hold in a process that is forked after importing torch, and how to see that it does.

A parallel operator, a large backward or an Inductor compile leaves a thread pool behind, and a child forked after
that hangs at its first parallel operator; a parent that has initialised CUDA poisons CUDA in every child. Invariant:
`violations` is empty in the host at each fork. Linux only, as forking is.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

HOST_VARIABLES = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compile workers
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # a library's torch.cuda.is_available() must not initialise CUDA
}
"""Set in the host before torch is imported; a child gets the user's own values back."""

HOST_UNSET = ("TORCH_TRACE", "TORCH_LOGS_OUT")
"""Taken away in the host: every child would write to the log file that the host opened."""


class Baseline(NamedTuple):
    """Threads of the process once torch was imported, and before anything was computed."""

    threads: int


def baseline() -> Baseline:
    """Count this process's threads now."""
    return Baseline(threads=thread_count())


def violations(before: Baseline) -> tuple[str, ...]:
    """Say in plain words which rules this process breaks."""
    found = []
    threads = thread_count()
    if threads > before.threads:
        found.append(f"{threads - before.threads} new threads")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found.append("CUDA is initialised")
    devices = nvidia_descriptors()
    if devices:
        found.append(f"open descriptors of {', '.join(devices)}")
    return tuple(found)


def thread_count() -> int:
    """Count the threads of this process, native ones included."""
    return len(os.listdir("/proc/self/task"))


def nvidia_descriptors() -> tuple[str, ...]:
    """Name the NVIDIA device files that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of the listing itself
            continue
        if path.startswith("/dev/nvidia"):
            found.add(path)
    return tuple(sorted(found))
