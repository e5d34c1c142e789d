"""The imports of a program before its first compile, by line of the user's files."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report.place import Location


@dataclass(frozen=True)
class ImportLine:
    """What one line of the user's files imported: an `import`, or a call in which a library imported something."""

    location: Location
    modules: tuple[str, ...]
    """The slowest of those that were not imported before, without what they import in turn."""
    module_count: int
    seconds: float
    """With all that these modules import in turn."""
    own_seconds: float
    """Without the lines of the user's files that these modules consist of: of all lines together, each second once."""


@dataclass(frozen=True)
class Imports:
    """The imports of a process until it compiled something for the first time."""

    began: float
    """Seconds since the epoch."""
    until_compile: float
    """Seconds from there to the first compile, or to the end of the program."""
    seconds: float
    """Seconds in which at least one thread imported: less than those of all lines if several did at once."""
    outside_seconds: float = 0.0
    """Seconds of what no line of the user's files imported, as a launcher's own imports."""
    lines: tuple[ImportLine, ...] = ()
    """In the order in which they ended."""
    more_lines: int = 0
    """Lines that were not kept."""
    is_forked: bool = False
    """Whether the process is a fork: what its parent imported is not part of it."""
    is_separate: bool = False
    """Whether they were timed in a process that imported the same and compiled nothing."""
    error: str = ""
    """What ended that process before its first compile; empty if nothing did."""
