"""What asks for a run."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Trigger:
    """What asked for a run."""

    cause: str
    """For the log: `saved`, `command`, ..."""
    automatic: bool = False
    """Whether a save asked for it: the program then writes no file of the workspace."""
    explicit: bool = False
    """Whether the user asked for this run: a question about it must be seen."""
    supersede: bool = False
    """Whether it takes the place of a run in flight; else it runs after that."""


ASKED = Trigger("command", explicit=True, supersede=True)
"""The user, by a command or a button."""
