"""A failure that ended a run, or a part of it, and its culprit."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fuselight.report.place import Stack


class Culprit(str, enum.Enum):
    """The side that failed: determines the message and the next step that the user gets."""

    USER = "user"
    COMPILER = "compiler"
    FUSELIGHT = "fuselight"
    ENVIRONMENT = "environment"


@dataclass(frozen=True)
class Failure:
    """The failure that ended the run, or one call of it."""

    culprit: Culprit
    kind: str
    """Stable word: `exception`, `import`, `fullgraph`, `backend`, `exit`, `signal`, `timeout`, `memory`,
    `inputs`, `internal`,
    `no_torch`, `old_torch`, `descriptors`, `damaged_answer`."""
    message: str
    """One line."""
    next_step: str = ""
    exception: str | None = None
    """Type name, as `ValueError`."""
    stack: Stack = ()
    """User and third-party frames, outermost first."""
    traceback: str = ""
    gb_id: str | None = None
    call: int | None = None
    phase: str | None = None
    directive_line: int | None = None
    """For `inputs`: the directive's line; its columns are in `stack[-1]`."""
