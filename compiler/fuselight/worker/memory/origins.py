"""Where a tensor of a step comes from."""

from __future__ import annotations

from typing import NamedTuple

from fuselight.shared.report import Location


class StorageOrigin(NamedTuple):
    """Where a tensor comes from."""

    line: Location | None
    """The user's line that made it; None for what was before."""
    module: str
    """The module that made it, or that owns a parameter; empty for the target itself."""
    holder: str = ""
    """The name that keeps it, if nothing of the step needs it."""
