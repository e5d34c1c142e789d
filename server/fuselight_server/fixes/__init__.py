"""Rewrites that may remove the cause of a finding, as whole new texts of files.

Invariant: `remedies` is a pure function of the finding, the report and the texts that it may read. Each text that it
gives parses and differs from the old one in the edited statement only, plus lines that a remedy inserts. Where a
statement does not fit a rewrite for certain, there is no remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.fixes.branches import branch_remedies
from fuselight_server.fixes.output import output_remedies
from fuselight_server.fixes.remedy import FixClass, Remedy
from fuselight_server.fixes.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight.report import Report
    from fuselight_server.finding import Finding

__all__ = ["FixClass", "Remedy", "remedies"]

_FAMILIES: tuple[tuple[Callable[[Site], Iterator[Remedy]], frozenset[str]], ...] = (
    (branch_remedies, frozenset({"GB0170", "GB0034", "GB0033", "GB0124"})),
    (output_remedies, frozenset()),
)
"""Rewrites and the ids of the breaks that they are for; without ids, those of any break."""
_BREAKS = ("GB", "FL107", "FL404")


def remedies(finding: Finding, report: Report, read: Callable[[str], str | None]) -> tuple[Remedy, ...]:
    """Candidates for one finding, the best first, not verified. `read` gives the text of a file as the run had it."""
    text = read(finding.span.path)
    site = Site.of(finding, report, text) if text is not None else None
    if site is None or not finding.code.startswith(_BREAKS):
        return ()
    ids = {finding.code, *finding.gb_ids[:1]}
    found = [remedy for family, wanted in _FAMILIES if not wanted or wanted & ids for remedy in family(site)]
    return tuple(found)
