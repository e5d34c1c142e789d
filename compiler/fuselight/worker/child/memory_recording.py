"""Has a process of a program under `fuselight run --memory` record the allocator of its GPUs.

Invariant: a process without the variable records nothing.
"""

from __future__ import annotations

import os

from fuselight.adapters.torch_api.memory_recording import AllocatorRecording
from fuselight.shared.started_processes import MEMORY


def record_from_environment() -> None:
    """Record into the folder that the variables of the process name."""
    folder = os.environ.get(MEMORY)
    if folder:
        AllocatorRecording(folder).begin_with_cuda()
