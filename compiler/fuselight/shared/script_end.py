"""What the end of a small program's process says: its exit status and what it printed. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable

from fuselight.shared.report import MARK, TIMEOUT, ScriptOutcome, ScriptState
from fuselight.shared.worker_protocol import ended_how

HIDDEN = ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT")
"""Variables that a program does not get: it is run as on another machine."""
NAME = "repro.py"
_WORDS = 2000


def outcome_of_end(status: int, errors: str, printed: str, folders: Iterable[str] = ()) -> ScriptOutcome:
    """The outcome of a process, without the names of `folders`, which end with a separator: it is for an issue."""
    for folder in folders:
        errors, printed = errors.replace(folder, ""), printed.replace(folder, "")
    words, printed = errors.strip()[-_WORDS:], printed[-_WORDS:]
    if status == 0:
        return ScriptOutcome(ScriptState.RIGHT, printed=printed)
    for mark in (MARK, TIMEOUT):
        if status == 1 and mark in errors:
            last = errors.rpartition(mark)[2].strip()[:_WORDS]
            return ScriptOutcome(
                ScriptState.FAULT, last if mark == MARK else f"{mark}{last}", printed=printed
            )
    how = f"the process {ended_how(status)}"
    return ScriptOutcome(
        ScriptState.ERROR, f"{words}\n{how}" if status < 0 else words or how, printed=printed
    )
