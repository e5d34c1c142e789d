"""The seconds of whole processes: wall clock, and processor time with all their children."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class ProcessTimes:
    """What one process took."""

    wall: float
    cpu: float
    printed: str


def timed_process(
    command: Sequence[str], folder: Path, *, codes: Sequence[int] = (0,), **variables: str
) -> ProcessTimes:
    """Run a command to its end. Raises RuntimeError for another exit code than `codes`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), **variables}
    before, started = _children(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, cpu = time.perf_counter() - started, _children() - before
    if done.returncode not in codes:
        output = f"{done.stdout}{done.stderr}"[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{output}")
    return ProcessTimes(wall, cpu, done.stdout)


def _children() -> float:
    """Processor seconds of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
