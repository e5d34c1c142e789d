"""How long a run may take and how much memory it may use, where a user sets neither.

The terminal, agents, sweeps and pytest share them. Apart from `Limits`, which takes long to import: `--help` shows
them.
"""

from __future__ import annotations

from typing import NamedTuple


class DefaultLimits(NamedTuple):
    """Limits of one run."""

    seconds: float
    memory_mb: int


CAPTURE_LIMITS = DefaultLimits(seconds=120.0, memory_mb=8192)
"""Of a run that traces."""
COMPILE_LIMITS = DefaultLimits(seconds=600.0, memory_mb=16384)
"""Of a run that generates or times kernels, or calls what it has compiled."""
