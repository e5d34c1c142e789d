"""The key-value store of a distributed job, by which its ranks can agree without a collective.

Invariant: no call waits longer than its time limit, and none is made unless torch.distributed is initialized.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed


@dataclass(frozen=True)
class JobStore:
    """The store that the ranks of a job share."""

    store: Any
    rank: int
    size: int

    def set(self, key: str, text: str) -> None:
        """Store a text."""
        self.store.set(key, text)

    def get(self, key: str, seconds: float) -> str | None:
        """Wait for a text; None after `seconds`, or if the store is gone."""
        try:
            self.store.wait([key], timedelta(seconds=seconds))
            data: bytes = self.store.get(key)
        except (RuntimeError, ValueError):  # torch's DistStoreError and its time limit are RuntimeErrors
            return None
        return data.decode()


_last: list[JobStore] = []
"""The store of the job that was seen last, so that it stays one object."""


def job_store() -> JobStore | None:
    """The store of the job that this process is a rank of; None if it is alone, or if this torch has no such store."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    size, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    read: Any = getattr(torch.distributed.distributed_c10d, "_get_default_store", None)
    if size <= 1 or read is None:
        return None
    store = read()
    if not _last or _last[0].store is not store:
        _last[:] = [JobStore(store, rank, size)]
    return _last[0]
