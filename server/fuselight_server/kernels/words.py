"""A kernel's resources and candidates as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.formatting import format_percent, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight.report import Assembled


def resources(assembled: Assembled) -> str:
    """`32 registers, no spills, 4 KB shared memory, 75% of the warps (limited by registers)`."""
    if assembled.failure is not None:
        return f"not compiled: {assembled.failure}"
    facts = []
    if assembled.registers is not None:
        facts.append(f"{assembled.registers} registers")
    if assembled.spills is not None:
        facts.append(f"spills {format_size(assembled.spills)} a thread" if assembled.spills else "no spills")
    if assembled.shared:
        facts.append(f"{format_size(assembled.shared)} shared memory")
    filled = assembled.occupancy
    if filled is not None and filled.most:
        limit = "" if filled.warps == filled.most else f" (limited by {filled.limited_by})"
        facts.append(f"{format_percent(filled.warps, filled.most)} of the warps{limit}")
    return ", ".join(facts)


def candidates(found: Sequence[str], most: int = 6) -> str:
    """`one, another and 19 more`: what a GPU would time against each other."""
    shown = ", ".join(found[:most])
    return f"{shown} and {len(found) - most} more" if len(found) > most else shown
