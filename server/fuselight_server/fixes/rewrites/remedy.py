"""What a remedy is: the whole new text of each file that it changes, and how the new program relates to the old.

Invariant: a remedy is a proposal. Nothing here has been compiled or compared; whoever offers it verifies it first.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.explain.findings.fixable import FixClass

__all__ = ["FixClass", "Remedy"]

CAPTURES = "capture_"
"""Start of the names of settings that keep values in the graph."""


@dataclass(frozen=True)
class Remedy:
    """One way to remove the cause of a finding."""

    kind: str
    """Stable name, for JSON and tests: `where`, `masked_fill`, `capture_scalar_outputs`."""
    title: str
    """What it does, in the imperative: `Use torch.where`."""
    fix_class: FixClass
    texts: dict[str, str]
    """Path to the whole new text of the file; never empty."""
    changes: str = ""
    """For `FixClass.CHANGES`: what changes, as `random numbers`; empty for the other classes."""
    is_setting: bool = False
    """Whether it changes a setting of torch or an argument of torch.compile, which eager calls do not show."""
    moves_break: bool = False
    """Whether torch may break where the value is used that it keeps in the graph, and nothing else changes."""
    best_class: FixClass | None = None
    """The best class that it can earn; None: `fix_class`. What a person has written can earn any."""
    caveat: str = ""
    """What no call shows of it, which its title says: it is not exact."""
    values: tuple[str, ...] = ()
    """The values that it changes, as a `CallCure` names its subjects; empty for other kinds of changes."""
