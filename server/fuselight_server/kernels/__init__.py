"""Report -> what kernels cost by line, and how they read: shared by the editor and the terminal.

Invariant: a kernel's bytes and time are shared between its lines and never counted twice: the sum over lines, with what
has no line, is the sum over kernels.
"""

from __future__ import annotations

from fuselight_server.kernels.shares import (
    Folded,
    Kept,
    LineCost,
    costs_by_line,
    fold,
    kept_by_line,
    place_of,
)

__all__ = ["Folded", "Kept", "LineCost", "costs_by_line", "fold", "kept_by_line", "place_of"]
