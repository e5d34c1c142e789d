"""The result of one check of the environment. The server imports this module too, so it needs no torch."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(str, enum.Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """It works, but most users would want to change it."""
    FAILED = "failed"
    """torch.compile or Fuselight does not work with it."""
    SKIPPED = "skipped"
    """Does not apply to this machine."""


@dataclass(frozen=True)
class CheckResult:
    """How a check ended; the fields of a Check that depend on it."""

    status: Status
    found: str
    fix: str = ""


@dataclass(frozen=True)
class Check:
    """One check and its result, as text for the user."""

    key: str
    """Stable name: `cpp_compiler`, `compile_cuda:0`."""
    title: str
    status: Status
    found: str
    """What the check found."""
    meaning: str
    """What needs it."""
    fix: str = ""
    """What to do next; empty if nothing has to change."""
