"""What a run read besides the modules of the workspace: what must be unchanged for its report to hold."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reads:
    """What a run read, as far as it could be observed."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Absolute path to size and time of change in nanoseconds when it was first read; (-1, 0): it was missing."""
    folders: dict[str, int] = field(default_factory=dict)
    """Absolute path of each folder that was listed to its time of change in nanoseconds."""
    import_folders: tuple[str, ...] = ()
    """Absolute paths of folders in which imports looked for modules."""
    asked: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Absolute path of each path whose existence or state was asked for, to its type (0: missing), size and time of
    change in nanoseconds; -1 for what was not asked."""
    others: tuple[str, ...] = ()
    """What was used that nothing can be compared with: `the network`, `another process`, ..."""
