"""What verifications found of the offers: the answers that a menu, a lens and the report show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fuselight_server.base.finding import Finding
from fuselight_server.base.recent import Recent
from fuselight_server.base.remedies import FindingRemedy, refused_fixes
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.refused_fixes import RefusedFix
from fuselight_server.editor.session.fix_offers import FixOffer, FixOffers, LineFixes
from fuselight_server.fixes.verification.attempts import Attempt
from fuselight_server.fixes.verification.remedy_list import is_entry_of, of_attempt, of_candidate, with_fixes

_SOON = 0.5
"""Seconds that a view waits for a search."""
_MAX_ATTEMPTS = 40
"""Verified fixes that are remembered, each with the report of its text."""


class FixAttempts:
    """The attempts of offers."""

    def __init__(self, offers: FixOffers) -> None:
        """Start with none."""
        self._offers = offers
        self._attempts: Recent[str, Attempt] = Recent(_MAX_ATTEMPTS)

    def keep_attempt(self, offer: FixOffer, attempt: Attempt) -> None:
        """Keep what the verification of an offer found."""
        self._attempts.keep(offer.id, attempt)

    def with_fixes(self, finding: Finding, line_fixes: LineFixes) -> Finding:
        """Return a finding with its fixes among `line_fixes` in its list of remedies."""
        fixes = [
            of_attempt(attempt) if (attempt := self.known(offer)) is not None else of_candidate(offer.remedy)
            for offer in line_fixes.offers
            if offer.finding.identity == finding.identity
        ]
        refused = [fix.entry for fix in line_fixes.refused if fix.finding.identity == finding.identity]
        return with_fixes(finding, (*fixes, *refused))

    def listed(self, offer: FixOffer, line_fixes: LineFixes) -> FindingRemedy | None:
        """Return the entry of an offer in the list of its finding; None if the list has it under another name."""
        remedies = self.with_fixes(offer.finding, line_fixes).remedies
        return next((remedy for remedy in remedies if is_entry_of(remedy, offer.remedy)), None)

    def known(self, offer: FixOffer) -> Attempt | None:
        """Return what the verification of an offer found so far; None where it has no answer yet."""
        return self._attempts.get(offer.id)

    def has_ended(self, offer: FixOffer) -> bool:
        """Whether the verification of an offer has ended."""
        known = self.known(offer)
        return known is not None and not known.is_checking

    async def refused_fixes(self, result: CaptureResult) -> tuple[RefusedFix, ...]:
        """Return the fixes of a target that are not offered, in the order of lines: also those that were tried."""
        if not self._has_fixes(result):
            return ()
        of_findings = await self._offers.of_findings(result)
        refused = [
            RefusedFix(finding, entry)
            for finding, line_fixes in of_findings
            for entry in refused_fixes(self.with_fixes(finding, line_fixes).remedies)
        ]
        ids = {offer.id for _, line_fixes in of_findings for offer in line_fixes.offers}
        # What a job compiled again has a fix too, and is in no report.
        refused += [
            RefusedFix(offer.finding, entry)
            for offer, attempt in self._tried(result)
            if offer.id not in ids
            for entry in refused_fixes((of_attempt(attempt),))
        ]
        return tuple(sorted(refused, key=lambda fix: (fix.finding.span.path, fix.finding.span.line)))

    async def refused_fixes_soon(
        self, result: CaptureResult, later: Callable[[], None]
    ) -> tuple[RefusedFix, ...]:
        """As `refused_fixes`; none if that takes longer than a view may wait: `later` is called when it has ended."""
        search = self._offers.search(result) if self._has_fixes(result) else None
        if search is not None and not search.done():
            await asyncio.wait((search,), timeout=_SOON)
        if search is None or search.done():
            return await self.refused_fixes(result)
        search.add_done_callback(lambda search: None if search.cancelled() or search.exception() else later())
        return ()

    def _has_fixes(self, result: CaptureResult) -> bool:
        return any(current is result for current in self._offers.current_results(result.key.path))

    def first_fix(self, result: CaptureResult) -> str:
        """Say which fix of the line to fix first has passed: `Use torch.where: verified`; empty if none has."""
        passed = [pair for pair in self._tried(result) if pair[1].has_passed and not pair[1].is_checking]
        if not passed or not result.priorities:
            return ""
        is_gained_by = result.priorities[0].is_gained_by
        here = (
            attempt
            for offer, attempt in passed
            if is_gained_by(offer.finding.code, offer.finding.span.path, offer.finding.span.line)
        )
        best = min(here, key=lambda attempt: attempt.left, default=None)
        return best.promise if best is not None else ""

    def _tried(self, result: CaptureResult) -> list[tuple[FixOffer, Attempt]]:
        """The fixes whose verification has an answer for just the texts of a result."""
        return [
            (offer, attempt)
            for identity, attempt in self._attempts.items()
            if (offer := self._offers.past_offer(identity)) is not None
            and offer.key == result.key
            and offer.result.report.files == result.report.files
            and not result.stale
        ]
