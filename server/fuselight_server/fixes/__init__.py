"""Rewrites that may remove the cause of a finding, as whole new texts of files.

Invariant: `remedies` is a pure function of the finding, the report and the texts that it may read. Each text that it
gives parses and differs from the old one in the edited statement only, plus lines that a remedy inserts. Where a
statement does not fit a rewrite for certain, there is no remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.fixes.remedy import FixClass, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.report import Report
    from fuselight_server.finding import Finding

__all__ = ["FixClass", "Remedy", "remedies"]

_FAMILIES: tuple[Callable[[Finding, Report, Callable[[str], str | None]], tuple[Remedy, ...]], ...] = ()


def remedies(finding: Finding, report: Report, read: Callable[[str], str | None]) -> tuple[Remedy, ...]:
    """Candidates for one finding, the best first, not verified. `read` gives the text of a file as the run had it."""
    return tuple(remedy for family in _FAMILIES for remedy in family(finding, report, read))
