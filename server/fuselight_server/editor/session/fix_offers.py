"""Fixes that the findings of the last runs and of open jobs have, for exact texts. Nothing is verified or runs here.

Invariant: a fix is offered only while the files have the texts that it was made for. A finding of a job whose line was
edited since its job was opened has none.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from fuselight.shared.codec import encode
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report import Location, Report
from fuselight_server.base.files import disk_text
from fuselight_server.base.finding import Finding
from fuselight_server.base.recent import Recent
from fuselight_server.commands.cache_fixes import CODE, LostCompile, cache_rewrites, lost_in_job
from fuselight_server.editor.results.captures import PROGRAM, CaptureResult
from fuselight_server.editor.results.jobs import JobResult
from fuselight_server.editor.results.refused_fixes import RefusedFix
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.fixes.rewrites.families import RefusedRewrite, Remedy, Rewrites
from fuselight_server.fixes.verification.attempts import Attempt
from fuselight_server.fixes.verification.fixer import Fixer
from fuselight_server.fixes.verification.remedy_list import of_refusal
from fuselight_server.source.line_map import LineMap
from fuselight_server.source.notebooks.edits import obstacle
from fuselight_server.source.reading import Reading


def is_on(finding: Finding, path: str, first: int, last: int) -> bool:
    """Whether a finding is on one of the lines `first` to `last` of a file."""
    span = finding.span
    return span.path == path and span.line <= last and first <= (span.end_line or span.line)


def lost_in_jobs(state: State, path: str, first: int, last: int) -> list[LostCompile]:
    """What open jobs compiled again for a cause on some lines of a file."""
    lost: list[LostCompile] = []
    for job in state.jobs.values():
        of_code = (item.tracked for item in job.on(path) if item.tracked.finding.code == CODE)
        now = (tracked.now() for tracked in of_code if not tracked.edited)
        here = [finding for finding in now if is_on(finding, path, first, last)]
        if here:
            lost += lost_in_job(job.opened, here, _JobLines(state, job).now)
    return lost


def rewrites_of(lost: LostCompile, result: CaptureResult, fixer: Fixer) -> Rewrites:
    """The rewrites for a lost compile that the target of a result has, too."""
    candidates = tuple(cache_rewrites(lost, result.key.path, result.report, fixer.texts.text))
    return Rewrites(
        tuple(candidate for candidate in candidates if not isinstance(candidate, RefusedRewrite)),
        tuple(candidate for candidate in candidates if isinstance(candidate, RefusedRewrite)),
    )


@dataclass
class _JobLines:
    """Where the lines of a job are in the texts of now."""

    state: State
    job: JobResult
    maps: dict[str, LineMap] = field(default_factory=dict)
    """By local path."""

    def now(self, logged: Location) -> Location:
        """A location of the job: in the local file, if it is here."""
        location = self.job.opened.files.location(logged)
        if location.path not in self.maps:
            before = "\n".join(self.job.lines_as_read(location.path))
            after = self.state.documents.text(location.path)
            self.maps[location.path] = LineMap.between(before, before if after is None else after)
        return dataclasses.replace(location, line=self.maps[location.path].places(location.line)[0])


_FixesOfFindings = tuple[tuple["Finding", "LineFixes"], ...]
_NOT_OPEN = "the notebook is not open"
_MAX_OFFERS = 100
MAX_KNOWN = 16
"""Targets whose findings, and files whose exact fixes, are remembered."""
_MAX_SEARCHED = 40
"""Findings of a target whose refused fixes are listed."""
_CASE_SECONDS = 8.0
"""Time for the further calls of one text: the menu is open meanwhile."""


@dataclass(frozen=True)
class TextSnapshot:
    """The texts of files as they were when each was first asked for, whatever is typed and saved later."""

    texts: dict[str, str | None]
    readings: dict[str, Reading]
    """What static reading knows of the open ones."""

    @classmethod
    def of(cls, state: State, results: Iterable[CaptureResult]) -> TextSnapshot:
        """With the texts that the editor has of the files of some results."""
        paths = {path for result in results for path in result.depends}
        documents = [document for path in sorted(paths) if (document := state.documents.at(path)) is not None]
        return cls(
            {document.path: document.source.text for document in documents},
            {document.path: document.reading() for document in documents},
        )

    def read(self, path: str) -> str | None:
        """The text of a file, of a closed one as it is on the disk; None where it cannot be read."""
        if path not in self.texts:
            self.texts[path] = disk_text(path)
        return self.texts[path]


@dataclass(frozen=True, eq=False)
class FixOffer:
    """A remedy of a finding of a target, for exact texts. Nothing is verified yet."""

    id: str
    """Hash of everything that its verification depends on."""
    key: Key
    result: CaptureResult
    """What the last run of the target found."""
    finding: Finding
    remedy: Remedy
    before: dict[str, str]
    """The texts of the files that it changes."""
    starts: bool = False
    """Whether two starts decide, besides its calls: it is for what a job compiled again."""


@dataclass(frozen=True)
class LineFixes:
    """The fixes of the findings on some lines."""

    offers: tuple[FixOffer, ...] = ()
    refused: tuple[RefusedFix, ...] = ()
    """Those that are not offered before any run. None is of a kind that is offered for the same finding."""

    @property
    def changes(self) -> tuple[FixOffer, ...]:
        """The offers, each change of a place once, however many targets it is for."""
        offers: dict[tuple[object, ...], FixOffer] = {}
        for offer in self.offers:
            same = (offer.finding.code, offer.finding.span, *sorted(offer.remedy.texts.items()))
            offers.setdefault(same, offer)
        return tuple(offers.values())


@dataclass(frozen=True, eq=False)
class VerifiedFixes:
    """The exact fixes of a file that passed one on top of the other, perhaps none: the new text of each file."""

    attempts: tuple[Attempt, ...]
    before: dict[str, str]
    after: dict[str, str]
    ran: tuple[CaptureResult, ...]
    """What the last runs found of the text before."""


class FixOffers:
    """Makes offers."""

    def __init__(self, state: State) -> None:
        """Start with none."""
        self._state = state
        self._offers: Recent[str, FixOffer] = Recent(_MAX_OFFERS)
        self._findings: Recent[Key, tuple[Report, tuple[Finding, ...]]] = Recent(MAX_KNOWN)
        """Those of the reports that were asked about last."""
        self._fixes: Recent[Key, tuple[list[Report], asyncio.Task[_FixesOfFindings] | None]] = Recent(
            MAX_KNOWN
        )
        """The search for the fixes of these, and the reports that they are by."""

    async def on_lines(self, path: str, first: int, last: int) -> LineFixes:
        """Return the fixes of the findings on the lines `first` to `last` of a file, and those that are not offered.

        The best fix of each finding comes first. Empty while a file differs from the text that ran: where its findings
        are now is not known well enough.
        """
        results = self.current_results(path)
        of_lines = [
            await self._fixes_of(result, finding)
            for result in results
            for finding in await self._findings_of(result)
            if is_on(finding, path, first, last)
        ]
        of_lines += [
            await self._cache_fixes_of(result, lost)
            for lost in lost_in_jobs(self._state, path, first, last)
            for result in results
            if lost.is_of(result.report)
        ]
        offers = {offer.id: offer for fixes in of_lines for offer in fixes.offers}
        for offer in offers.values():
            self._offers.keep(offer.id, offer)
        return LineFixes(
            tuple(offers.values()), tuple(dict.fromkeys(fix for fixes in of_lines for fix in fixes.refused))
        )

    def past_offer(self, identity: str) -> FixOffer | None:
        """Return an offer that was made, whatever the files have now."""
        return self._offers.get(identity)

    def current(self, identity: str) -> FixOffer | None:
        """Return an offer that was made, if the files have its texts still."""
        offer = self._offers.get(identity)
        is_current = (
            offer is not None
            and self.is_current(offer.before)
            and self._state.documents.has_texts_of(offer.result)
        )
        return offer if is_current else None

    def is_current(self, texts: dict[str, str]) -> bool:
        """Whether each file has this text now."""
        return all(self._state.documents.text(path) == text for path, text in texts.items())

    def current_results(self, path: str) -> list[CaptureResult]:
        """The results whose findings have fixes: those of targets that run a file as it is now."""
        return [
            result
            for result in self._results_of(path)
            if result.has_data and not result.stale and not result.unfinished
        ]

    def outdated(self, path: str) -> list[Key]:
        """Return the targets that run a file and have no fixes until the next run, as their text has changed."""
        return [result.key for result in self._results_of(path) if result.stale]

    def _results_of(self, path: str) -> list[CaptureResult]:
        return [
            result
            for key, result in self._state.captures.items()
            if path in result.depends and key.name != PROGRAM and (key.name or result.report.recorded)
        ]

    async def of_findings(self, result: CaptureResult) -> tuple[tuple[Finding, LineFixes], ...]:
        """Return the findings of a target, each with its fixes."""
        search = self.search(result)
        return search.result() if search.done() else await asyncio.shield(search)

    def search(self, result: CaptureResult) -> asyncio.Task[_FixesOfFindings]:
        """Return the search for the fixes of a target: of a package, each finding is looked at with each rewrite.

        A view asks at each change of the results: questions during one search wait for it, and start no other.
        """
        current = self._reports_with(result)
        reports, search = self._fixes.get(result.key, ([], None))
        is_of_now = list(map(id, reports)) == list(map(id, current))
        if search is None or not is_of_now or (search.done() and search.exception() is not None):
            search = asyncio.create_task(self._search_fixes(result))
            self._fixes.keep(result.key, (current, search))
        return search

    async def _search_fixes(self, result: CaptureResult) -> _FixesOfFindings:
        findings = (await self._findings_of(result))[:_MAX_SEARCHED]
        return tuple([(finding, await self._fixes_of(result, finding)) for finding in findings])

    def _reports_with(self, result: CaptureResult) -> list[Report]:
        """The report of a result, and those of other targets that run the file of its target."""
        others = (other for other in self.current_results(result.key.path) if other is not result)
        return [result.report, *(other.report for other in others)]

    async def _fixes_of(self, result: CaptureResult, finding: Finding) -> LineFixes:
        fixer = new_fixer(TextSnapshot.of(self._state, (result,)))
        others = self._reports_with(result)
        fixes = await asyncio.to_thread(
            lambda: _fixes_for(fixer, result, finding, fixer.rewrites(finding, result.report, others))
        )
        return self._in_cells(fixes)

    async def _cache_fixes_of(self, result: CaptureResult, lost: LostCompile) -> LineFixes:
        """The fixes for what a job compiled again, by a target that compiles it here, too."""
        fixer = new_fixer(TextSnapshot.of(self._state, (result,)))
        fixes = await asyncio.to_thread(
            lambda: _fixes_for(fixer, result, lost.finding, rewrites_of(lost, result, fixer), starts=True)
        )
        return self._in_cells(fixes)

    def _in_cells(self, fixes: LineFixes) -> LineFixes:
        """Refuse the fixes of notebooks that are no edits of their cells."""
        obstacles = {offer.id: self._notebook_obstacle(offer) for offer in fixes.offers}
        refused = (
            RefusedFix(offer.finding, of_refusal(RefusedRewrite(offer.remedy.kind, offer.remedy.title, why)))
            for offer in fixes.offers
            if (why := obstacles[offer.id])
        )
        offers = tuple(offer for offer in fixes.offers if not obstacles[offer.id])
        return LineFixes(offers, (*fixes.refused, *refused))

    def _notebook_obstacle(self, offer: FixOffer) -> str:
        notebooks = ((path, new) for path, new in offer.remedy.texts.items() if path.endswith(SUFFIX))
        for path, new in notebooks:
            document = self._state.documents.at(path)
            if document is not None and document.module is None:
                continue  # joined cells, whose text the client has as it is
            module = document.module if document is not None else None
            why = obstacle(module, new) if module is not None else _NOT_OPEN
            if why:
                return why
        return ""

    async def _findings_of(self, result: CaptureResult) -> tuple[Finding, ...]:
        """The findings as a verification sees them: by the report alone, so that it finds the same ones again."""
        report, findings = self._findings.get(result.key, (None, ()))
        if report is not result.report:
            fixer = new_fixer(TextSnapshot.of(self._state, (result,)))
            findings = await asyncio.to_thread(fixer.findings, result.report)
        self._findings.keep(result.key, (result.report, findings))
        return findings


def new_fixer(snapshot: TextSnapshot, folder: str = "") -> Fixer:
    """A fixer of these texts, which another thread may use."""
    return Fixer(
        read=snapshot.read,
        obstacle=_obstacle,
        readings=snapshot.readings,
        folder=folder,
        case_seconds=_CASE_SECONDS,
    )


def _obstacle(remedy: Remedy) -> str:
    """Why the files of a remedy cannot be edited."""
    read_only = next((path for path in remedy.texts if not os.access(path, os.W_OK)), None)
    return f"{read_only} is read-only" if read_only is not None else ""


def _fixes_for(
    fixer: Fixer, result: CaptureResult, finding: Finding, rewrites: Rewrites, *, starts: bool = False
) -> LineFixes:
    """Make the offers for one finding: tens of milliseconds, off the event loop."""
    offers, blocked = [], []
    for remedy in rewrites.remedies:
        before = {path: text for path in remedy.texts if (text := fixer.texts.text(path)) is not None}
        if before.keys() != remedy.texts.keys():
            continue
        if why := _obstacle(remedy):
            blocked.append(RefusedRewrite(remedy.kind, remedy.title, why))
        else:
            identity = _identity(result, finding, remedy)
            offers.append(FixOffer(identity, result.key, result, finding, remedy, before, starts))
    kinds = {offer.remedy.kind for offer in offers}
    refused = (rewrite for rewrite in (*blocked, *rewrites.refused) if rewrite.kind not in kinds)
    return LineFixes(
        tuple(offers),
        tuple(RefusedFix(finding, of_refusal(rewrite)) for rewrite in refused),
    )


def _identity(result: CaptureResult, finding: Finding, remedy: Remedy) -> str:
    """Hash of the texts that ran, the inputs, the versions, the finding and the remedy."""
    report = result.report
    parts = (
        encode(result.key),
        sorted(report.files.items()),
        encode(report.versions),
        encode(report.inputs),
        finding.identity,
        encode(finding.span),
        remedy.kind,
        sorted(remedy.texts.items()),
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
