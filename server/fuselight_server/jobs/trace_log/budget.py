"""How much of a job is kept in memory.

Invariant: one bound for all processes of a job. What exceeds it is counted by its name in the process that has it.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass

MAX_KEPT = 128 << 20
"""Bytes, as estimated, of the facts of a job that are kept."""
_OVERHEAD = 300
"""Bytes of a fact besides its texts."""


@dataclass
class MemoryBudget:
    """How much of a job may still be kept."""

    left: int = MAX_KEPT

    def takes(self, size: int) -> bool:
        """Whether a fact of this size is kept."""
        if size > self.left:
            return False
        self.left -= size
        return True


class ProcessBudget:
    """The budget of the job, as one process uses it."""

    def __init__(self, job: MemoryBudget) -> None:
        """`job`: what all processes share."""
        self._job = job
        self.not_kept: collections.Counter[str] = collections.Counter()
        """Facts that were too many, by name."""

    def keeps(self, name: str, size: int) -> bool:
        """Whether a fact with texts of this size is kept; counts one that is not."""
        if self._job.takes(size + _OVERHEAD):
            return True
        self.not_kept[name] += 1
        return False
