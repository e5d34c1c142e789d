"""What one look at the environment gives: importable without torch, by the server too."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(str, enum.Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """Works, but not as most would want it."""
    FAILED = "failed"
    """torch.compile, or Fuselight, does not work so."""
    SKIPPED = "skipped"
    """Does not apply to this machine."""


@dataclass(frozen=True)
class Check:
    """One check with its result, in words for people."""

    key: str
    """Stable name: `cpp_compiler`, `compile_cuda:0`."""
    title: str
    status: Status
    found: str
    """What is there."""
    meaning: str
    """What it is needed for."""
    mend: str = ""
    """What to do; empty where nothing is to be done."""
