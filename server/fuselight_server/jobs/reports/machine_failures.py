"""Failures of compiles whose cause is the machine: a compiler, a driver, memory, a disk, a limit of the system.

Invariant: only the text of the exception decides, never a line of source in its traceback. What the code itself can
raise, as an `OSError`, counts only where the compiler raised it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fuselight.shared.codec import read_table


@dataclass(frozen=True, slots=True)
class MachineFailure:
    """What the machine lacks, and what to do."""

    pattern: str
    """Of the exception's text."""
    title: str
    """`{0}` stands for the group `name` of the pattern."""
    next_step: str
    is_of_system: bool = False
    """Whether files and processes of the code raise it, too; all else only the machine can raise, whoever asked."""


_FAILURES = read_table(tuple[MachineFailure, ...], __file__)


def machine_failure(text: str, *, is_of_compiler: bool) -> MachineFailure | None:
    """What the machine lacks, by the text of an exception; None if that is not known to be the cause.

    `is_of_compiler`: whether the compiler raised it, and not the code that it traced.
    """
    for failure in _FAILURES:
        match = re.search(failure.pattern, text) if is_of_compiler or not failure.is_of_system else None
        if match is not None:
            return replace(failure, title=failure.title.format(match.groupdict().get("name") or ""))
    return None
