"""Why a rewrite that a reader would expect is not offered: the reason as data, for the terminal and the editor.

Invariant: a reason names the user's own code and one fact that is missing. It is one sentence, without a period.
"""

from __future__ import annotations

from dataclasses import dataclass


class RewriteRefusedError(Exception):
    """A rewrite is not the same for every call; the text says why."""


@dataclass(frozen=True)
class RefusedRewrite:
    """A rewrite that is not offered."""

    kind: str
    """As `Remedy.kind`."""
    title: str
    """As `Remedy.title`."""
    reason: str
    """`` `lr` is a Python number on both sides ``."""
    values: tuple[str, ...] = ()
    """As `Remedy.values`."""
