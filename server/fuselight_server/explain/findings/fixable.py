"""Which findings may have a fix, and how a fix may change results: what is known without reading any source.

Invariant: nothing here imports LibCST, so that a check that finds nothing to fix never loads it.
"""

from __future__ import annotations

import enum

from fuselight_server.explain.findings.priority import RECOMPILED

BREAKS = ("GB", "FL107", "FL404")
"""How the codes begin of what ends a graph."""

TUNED = "FL949"
"""The code of a kernel whose autotuner changes its first result."""


class FixClass(enum.Enum):
    """How the results of the new text relate to those of the old, if the remedy is right."""

    EXACT = "exact"
    """The same numbers and the same side effects."""
    EQUAL = "equal"
    """The same results where both sides of a branch are safe to compute: NaN and gradients are compared too."""
    CHANGES = "changes"
    """Behavior changes: `Remedy.changes` says which."""


def has_remedies(code: str) -> bool:
    """Whether findings of a code may have remedies; which ones a finding has depends on the text."""
    return code == TUNED or code in RECOMPILED or code.startswith(BREAKS)
