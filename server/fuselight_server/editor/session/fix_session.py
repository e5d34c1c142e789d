"""Fixes in the editor: which ones a line has, what their verification found, and what came of one that was applied.

Invariant: user code runs only where the user has agreed to runs of the folder, in the worker's child, one verification
at a time. Everything known of a fix belongs to exact texts: a fix is offered and applied only while the files have the
texts that it was made for, and a result is shown only while each of its files has the text that ran. A program is
fixed by its parts, as in the terminal: the runs that repeat its calls of each thing that it compiles.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import encode
from fuselight.shared.owned_folders import new_folder, owned_folder
from fuselight.shared.report import Rung
from fuselight_server.base.files import disk_text
from fuselight_server.editor.session.background import BackgroundTasks, trace_of
from fuselight_server.editor.session.intake import PROGRAM
from fuselight_server.editor.session.verified_results import (
    VerifiedResults,
    current_text,
    has_its_texts,
)
from fuselight_server.execution.runs.planning import program_calls
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite
from fuselight_server.fixes.verification.fixer import Attempt, Fixer, FixOptions, FixStatus
from fuselight_server.fixes.verification.forecast_trials import tried_changes, try_remedies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight.shared.protocol import Progress, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.session.intake import ResultIntake
    from fuselight_server.editor.session.state import State
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.fixes.rewrites.families import Remedy
    from fuselight_server.source.reading import Reading

_MOST_OFFERS = 100
_MOST_ATTEMPTS = 40
"""Verified fixes that are remembered, each with the report of its text."""
_MOST_KNOWN = 16
"""Targets whose findings, and files whose exact fixes, are remembered."""
_CASE_SECONDS = 8.0
"""Time for the further calls of one text: the menu is open meanwhile."""
_MOST_SEARCHED = 40
"""Findings of a target whose refused fixes are listed."""
_MOST_OTHERS = 4
"""Further targets of a changed file that a fix is verified for."""


_EXACT = FixOptions(classes=frozenset({FixClass.EXACT}))


class InterruptedVerificationError(Exception):
    """A run did not reach its end, for a reason outside the user's code. Nothing is known of the fix."""


Execute = Callable[["RunRequest", Callable[["Progress"], None]], Awaitable["Report"]]
"""Runs a request outside the queue. Raises InterruptedVerificationError; canceling it cancels the run."""


@dataclass(frozen=True)
class PreparedRun:
    """A run that the user has agreed to."""

    request: RunRequest
    execute: Execute
    worker: str
    """What identifies the worker: its interpreter and environment."""


Prepare = Callable[["Key", bool], "PreparedRun | None"]
"""Prepares the run of a target, automatic or because the user asked for it; None where it must not run."""


@dataclass(frozen=True)
class SessionTarget:
    """A target that fixes are verified for (fixer.FixTarget)."""

    request: RunRequest
    execute: Execute
    show: Callable[[str], None]

    async def report(self, request: RunRequest) -> Report:
        """The report of a run. Raises InterruptedVerificationError."""
        return await self.execute(request, lambda progress: self.show(progress.detail or progress.phase))


Part = tuple[SessionTarget, "Report"]
"""What a fix is verified for: a target with its report, or a program's calls of one thing that it compiles."""


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
        documents = [one for path in sorted(paths) if (one := state.at(path)) is not None]
        return cls(
            {one.path: one.source.text for one in documents}, {one.path: one.reading() for one in documents}
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


@dataclass(frozen=True)
class RefusedFix:
    """A fix of a finding that is not offered."""

    finding: Finding
    kind: str
    """As `Remedy.kind`."""
    title: str
    reason: str
    """`tried and refused: gradients differ`, or `not offered: ...` for one that was never run."""


@dataclass(frozen=True)
class LineFixes:
    """The fixes of the findings on some lines."""

    offers: tuple[FixOffer, ...] = ()
    refused: tuple[RefusedFix, ...] = ()
    """Those that are not offered before any run. None is of a kind that is offered for the same finding."""


@dataclass(frozen=True, eq=False)
class VerifiedFixes:
    """The exact fixes of a file that passed one on top of the other, perhaps none: the new text of each file."""

    attempts: tuple[Attempt, ...]
    before: dict[str, str]
    after: dict[str, str]
    ran: tuple[CaptureResult, ...]
    """What the last runs found of the text before."""


@dataclass
class VerificationTask:
    """One in progress, or waiting for its turn."""

    title: str
    """What is verified, as `Use torch.where`."""
    path: str
    task: asyncio.Task[Any]
    is_automatic: bool
    words: str = ""
    """Its progress."""


class FixSession:
    """Offers fixes and verifies them."""

    def __init__(
        self,
        state: State,
        outcomes: ResultIntake,
        *,
        prepare: Prepare,
    ) -> None:
        """Start without offers; the folder of results is made with the first verification."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a verification begins, moves on or ends."""
        self.active: dict[str, VerificationTask] = {}
        self._state = state
        self._prepare = prepare
        self._offers: collections.OrderedDict[str, FixOffer] = collections.OrderedDict()
        self._attempts: collections.OrderedDict[str, Attempt] = collections.OrderedDict()
        self._results = VerifiedResults(state, outcomes)
        self._findings: dict[Key, tuple[Report, tuple[Finding, ...]]] = {}
        """Those of the reports that were asked about last."""
        self._tasks = BackgroundTasks(self._log_failure)
        """Those in progress, and those that are canceled and have not ended."""
        self._refused: dict[Key, tuple[Report, tuple[RefusedFix, ...]]] = {}
        """Fixes of these that are not offered before any run."""
        self._turn = asyncio.Lock()
        self._folder: str | None = None
        self._all: dict[str, VerifiedFixes] = {}
        """The exact fixes of whole files, by path."""
        self._fixer: tuple[object, Fixer] | None = None
        """That of the texts of the last verification: other fixes of the same texts need no new run of these."""
        self._parts: tuple[Fixer, list[Part]] | None = None
        """The parts of the program that this fixer is for."""
        self._shown = ""
        """The offer that is verified for them now."""

    # What is offered

    async def offers(self, path: str, first: int, last: int) -> list[FixOffer]:
        """Return the fixes of the findings on the lines `first` to `last` of a file, the best of each finding first."""
        return list((await self.on_lines(path, first, last)).offers)

    async def on_lines(self, path: str, first: int, last: int) -> LineFixes:
        """Return the fixes of the findings on the lines `first` to `last` of a file, and those that are not offered.

        Empty while a file differs from the text that ran: where its findings are now is not known well enough.
        """
        found: dict[tuple[object, ...], FixOffer] = {}
        refused: dict[RefusedFix, None] = {}
        for result in self._current_results(path):
            here = [one for one in await self._findings_of(result) if _is_on(one, path, first, last)]
            for finding in here:
                made = await self._fixes_of(result, finding)
                refused |= dict.fromkeys(made.refused)
                for offer in made.offers:
                    same = (finding.code, finding.span, *sorted(offer.remedy.texts.items()))
                    found.setdefault(same, offer)
        for offer in found.values():
            self._offers[offer.id] = offer
            self._offers.move_to_end(offer.id)
        while len(self._offers) > _MOST_OFFERS:
            self._offers.popitem(last=False)
        return LineFixes(tuple(found.values()), tuple(refused))

    async def _fixes_of(self, result: CaptureResult, finding: Finding) -> LineFixes:
        fixer = self._new_fixer(TextSnapshot.of(self._state, (result,)))
        return await asyncio.to_thread(_fixes_for, fixer, self._obstacle, result, finding)

    async def refused_fixes(self, result: CaptureResult) -> tuple[RefusedFix, ...]:
        """Return the fixes of a target that are not offered, in the order of lines: also those that were tried."""
        if all(one is not result for one in self._current_results(result.key.path)):
            return ()
        report, untried = self._refused.pop(result.key, (None, ()))
        if report is not result.report:
            found = (await self._findings_of(result))[:_MOST_SEARCHED]
            made = [await self._fixes_of(result, one) for one in found]
            untried = tuple(dict.fromkeys(one for fixes in made for one in fixes.refused))
        self._refused[result.key] = result.report, untried
        while len(self._refused) > _MOST_KNOWN:
            del self._refused[next(iter(self._refused))]
        tried = tuple(
            RefusedFix(offer.finding, offer.remedy.kind, offer.remedy.title, attempt.refusal)
            for offer, attempt in self._tried(result)
            if not attempt.has_passed
        )
        return tuple(
            sorted((*tried, *untried), key=lambda one: (one.finding.span.path, one.finding.span.line))
        )

    def first_fix(self, result: CaptureResult) -> str:
        """Say which fix of the line to fix first has passed: `Use torch.where: verified`; empty if none has."""
        passed = [one for one in self._tried(result) if one[1].has_passed and not one[1].is_checking]
        if not passed or not result.priorities:
            return ""
        is_gained_by = result.priorities[0].is_gained_by
        here = [
            attempt
            for offer, attempt in passed
            if is_gained_by(offer.finding.code, offer.finding.span.path, offer.finding.span.line)
        ]
        # Of fixes of the same line, one that keeps all results comes first.
        here.sort(key=lambda one: (one.remedy.fix_class is FixClass.CHANGES, bool(one.exceptions)))
        return here[0].promise if here else ""

    def _tried(self, result: CaptureResult) -> list[tuple[FixOffer, Attempt]]:
        """The fixes whose verification has an answer for just the texts of a result."""
        return [
            (offer, attempt)
            for identity, attempt in self._attempts.items()
            if (offer := self._offers.get(identity)) is not None
            and offer.key == result.key
            and offer.result.report.files == result.report.files
            and not result.stale
        ]

    def offer(self, identity: str) -> FixOffer | None:
        """Return an offer that was made, if the files have its texts still."""
        offer = self._offers.get(identity)
        is_current = (
            offer is not None and self.is_current(offer.before) and has_its_texts(self._state, offer.result)
        )
        return offer if is_current else None

    def is_current(self, texts: dict[str, str]) -> bool:
        """Whether each file has this text now."""
        return all(current_text(self._state, path) == text for path, text in texts.items())

    def _current_results(self, path: str) -> list[CaptureResult]:
        return [
            result
            for key, result in self._state.captures.items()
            if path in result.depends
            and key.name != PROGRAM
            and (key.name or result.report.recorded)
            and result.has_data
            and not result.stale
            and not result.unfinished
        ]

    def outdated(self, path: str) -> list[Key]:
        """Return the targets that run a file and have no fixes until the next run, as their text has changed."""
        return [
            key
            for key, result in self._state.captures.items()
            if path in result.depends
            and key.name != PROGRAM
            and (key.name or result.report.recorded)
            and result.stale
        ]

    async def _findings_of(self, result: CaptureResult) -> tuple[Finding, ...]:
        """The findings as a verification sees them: by the report alone, so that it finds the same ones again."""
        report, found = self._findings.pop(result.key, (None, ()))
        if report is not result.report:
            fixer = self._new_fixer(TextSnapshot.of(self._state, (result,)))
            found = await asyncio.to_thread(fixer.findings, result.report)
        self._findings[result.key] = result.report, found
        while len(self._findings) > _MOST_KNOWN:
            del self._findings[next(iter(self._findings))]
        return found

    def _obstacle(self, remedy: Remedy) -> str:
        """Why the files of a remedy cannot be edited."""
        read_only = next((path for path in remedy.texts if not os.access(path, os.W_OK)), None)
        return f"{read_only} is read-only" if read_only is not None else ""

    def _new_fixer(self, snapshot: TextSnapshot, folder: str = "") -> Fixer:
        """A fixer of these texts, which another thread may use."""
        return Fixer(
            read=snapshot.read,
            obstacle=self._obstacle,
            readings=snapshot.readings,
            folder=folder,
            case_seconds=_CASE_SECONDS,
        )

    # Verification

    def known(self, offer: FixOffer) -> Attempt | None:
        """Return what the verification of an offer found so far; None where it has no answer yet."""
        return self._attempts.get(offer.id)

    def _is_verified(self, offer: FixOffer) -> bool:
        """Whether the verification of an offer has ended."""
        known = self.known(offer)
        return known is not None and not known.is_checking

    def may_verify(self, offer: FixOffer, *, automatic: bool) -> bool:
        """Whether the user has agreed to the runs of a verification."""
        return self._prepare(offer.key, automatic) is not None

    def not_allowed(self, path: str) -> Key | None:
        """The first target of a file whose runs the user has not agreed to; None if there is none."""
        keys = (one.key for one in self._current_results(path) if one.key.path == path)
        return next((key for key in keys if self._prepare(key, False) is None), None)  # noqa: FBT003 - as the type says

    def verify_in_background(self, offers: Iterable[FixOffer]) -> None:
        """Verify these, and none of those before that nobody waits for."""
        wanted = {one.id: one for one in offers if not self._is_verified(one)}
        for identity, one in list(self.active.items()):
            if one.is_automatic and identity not in wanted:
                self._cancel(identity)
        allowed = {key: self._prepare(key, True) is not None for key in {one.key for one in wanted.values()}}  # noqa: FBT003 - as the type says
        for offer in wanted.values():
            if allowed[offer.key]:
                verify = functools.partial(self._verify, offer)
                self._start(offer.id, offer.remedy.title, offer.key.path, verify)

    async def verify(
        self, offer: FixOffer, seconds: float | None = None, *, automatic: bool = False
    ) -> Attempt | None:
        """Return what the verification of an offer finds; None if that takes longer or was canceled.

        It goes on for whoever else waits, and is canceled by `cancel` or an edit of its files. One that is not
        automatic waits for no automatic one: those are canceled.
        """
        if self._is_verified(offer):
            return self.known(offer)
        for identity, other in list(self.active.items()):
            if not automatic and other.is_automatic and identity != offer.id:
                self._cancel(identity)
        one = self._start(offer.id, offer.remedy.title, offer.key.path, lambda: self._verify(offer))
        one.is_automatic &= automatic
        found: Attempt | None = await _result_of(one.task, seconds)
        return found

    def cancel(self, identity: str | None = None, *, path: str | None = None) -> None:
        """Cancel one verification, those of a file, or all."""
        for known, one in list(self.active.items()):
            if identity in {None, known} and path in {None, one.path}:
                self._cancel(known)

    def _start(
        self, identity: str, title: str, path: str, verify: Callable[[], Coroutine[Any, Any, object]]
    ) -> VerificationTask:
        """Begin a verification, or return the one in progress; automatic until somebody waits for it."""
        active = self.active.get(identity)
        if active is None:
            task = self._tasks.start(verify(), title)
            active = self.active[identity] = VerificationTask(title, path, task, is_automatic=True)
            task.add_done_callback(functools.partial(self._ended, identity))
            self.on_change()
        return active

    def _cancel(self, identity: str) -> None:
        """Cancel a verification. Its run takes a moment to end: from now on it can begin again."""
        self.active.pop(identity).task.cancel()
        self.on_change()

    def _log_failure(self, title: str, error: BaseException) -> None:
        trace = "" if isinstance(error, InterruptedVerificationError) else f"\n{trace_of(error)}"
        self._state.log(f"`{title}` was not verified: {error!r}{trace}")

    def _ended(self, identity: str, task: asyncio.Task[Any]) -> None:
        active = self.active.get(identity)
        if active is not None and active.task is task:
            del self.active[identity]
            self.on_change()

    def _show(self, identity: str) -> Callable[[str], None]:
        def show(words: str) -> None:
            active = self.active.get(identity)
            if active is not None and active.words != words:
                active.words = words
                self.on_change()

        return show

    def _allowed_run(self, key: Key, identity: str) -> PreparedRun:
        active = self.active.get(identity)
        prepared = self._prepare(key, active is None or active.is_automatic)
        if prepared is None:
            raise InterruptedVerificationError("runs of this folder are not allowed")
        return prepared

    async def _verify(self, offer: FixOffer) -> Attempt:
        """Compare the calls of the inputs, and further ones after all verifications that wait for a first answer."""
        known = self.known(offer)
        attempt = known if known is not None else await self._step(offer, None)
        return await self._step(offer, attempt) if attempt.is_checking else attempt

    async def _step(self, offer: FixOffer, first: Attempt | None) -> Attempt:
        """Verify an offer with the calls of the inputs, or a `first` attempt that passed with further calls."""
        async with self._turn:
            prepared = self._allowed_run(offer.key, offer.id)
            if self.offer(offer.id) is None:
                raise InterruptedVerificationError("the files have changed")
            target = SessionTarget(prepared.request, prepared.execute, self._show(offer.id))
            fixer = self._fixer_for(offer.result, prepared)
            calls = "further calls of " if first is not None else ""
            self._state.log(
                f"verifying {calls}`{offer.remedy.title}` for {offer.key.words} in {offer.key.path}"
            )
            attempt = await self._attempt(offer, target, fixer, first)
        self._state.log(f"`{offer.remedy.title}`: {attempt.status.value}, {attempt.why}")
        # Before the fix can be chosen, whose edit ends this. What a part of a program found is not the program's.
        if attempt.report is not None and first is None and not _has_parts(offer.result):
            await self._results.keep(offer.result, attempt.report, offer.remedy.texts)
        self._attempts[offer.id] = attempt
        while len(self._attempts) > _MOST_ATTEMPTS:
            self._attempts.popitem(last=False)
        if not attempt.is_checking:
            self._state.mark_results(
                offer.result.paths()
            )  # its lens names what passed, its report what did not
        return attempt

    async def _attempt(
        self, offer: FixOffer, target: SessionTarget, fixer: Fixer, first: Attempt | None
    ) -> Attempt:
        if not _has_parts(offer.result):
            part: tuple[SessionTarget, Report, Finding] | None = target, offer.result.report, offer.finding
        else:
            parts = await self._parts_for(offer, target, fixer)
            part = await asyncio.to_thread(_part_with, offer, fixer, parts)
        if part is None:
            why = (
                "the program's calls of what it compiles do not have this finding if they are repeated alone"
            )
            return Attempt(offer.finding, offer.finding.span.line, offer.remedy, FixStatus.REFUSED, why)
        if first is not None:
            return await fixer.completed(part[0], first)
        return await fixer.first_attempt(part[0], part[2], offer.remedy, part[1])

    async def _parts_for(self, offer: FixOffer, target: SessionTarget, fixer: Fixer) -> list[Part]:
        """The parts of a program, which a fixer verifies fixes for: run once for all fixes of the same text."""
        self._shown = offer.id
        if self._parts is None or self._parts[0] is not fixer:
            parts = await _parts_of(offer.result, dataclasses.replace(target, show=self._show_part))
            for part in parts:
                fixer.add(*part)
            self._parts = fixer, parts
        return self._parts[1]

    def _show_part(self, words: str) -> None:
        self._show(self._shown)(words)

    def _fixer_for(self, result: CaptureResult, prepared: PreparedRun) -> Fixer:
        """The fixer of a target as it is: its runs of the text before serve all fixes of this text."""
        request = dataclasses.replace(prepared.request, id=0, generation=0, automatic=False)
        identity = (result.key, tuple(sorted(result.report.files.items())), prepared.worker, str(request))
        if self._fixer is not None and self._fixer[0] == identity:
            return self._fixer[1]
        if self._fixer is not None:
            self._fixer[1].forget_results()
        if self._folder is None:
            self._folder = new_folder("fix")
        others = self._others((result,), (result.key.path, *result.report.files))
        fixer = self._new_fixer(TextSnapshot.of(self._state, (result, *others)), self._folder)
        self._add(others, fixer)
        self._fixer = identity, fixer
        return fixer

    def _others(self, results: Sequence[CaptureResult], paths: Iterable[str]) -> list[CaptureResult]:
        """Further targets that run one of these files, their own or one that they import."""
        known = {one.key: one for path in paths for one in self._current_results(path)}
        for result in results:
            known.pop(result.key, None)
        # The calls of a program are not those of a single target.
        return [one for one in known.values() if not _has_parts(one)][:_MOST_OTHERS]

    def _add(self, others: Iterable[CaptureResult], fixer: Fixer) -> None:
        """Let a fixer verify that fixes leave the calls of other targets as they are."""
        for one in others:
            run = self._prepare(one.key, True)  # noqa: FBT003 - as the type says
            if run is not None:
                fixer.add(SessionTarget(run.request, run.execute, lambda _words: None), one.report)

    async def verify_all(
        self, path: str, seconds: float | None = None, *, automatic: bool = False
    ) -> VerifiedFixes | None:
        """Verify all exact fixes of a file's targets, one on top of the other.

        Returns None if that takes longer, was canceled, or the user has not agreed to runs.
        """
        known = self._all.get(path)
        if (
            known is not None
            and self.is_current(known.before)
            and all(has_its_texts(self._state, one) for one in known.ran)
        ):
            return known
        one = self._start(f"all {path}", "all exact fixes", path, lambda: self._verify_all(path))
        one.is_automatic &= automatic
        found: VerifiedFixes | None = await _result_of(one.task, seconds)
        return found

    async def _verify_all(self, path: str) -> VerifiedFixes:
        async with self._turn:
            results = [one for one in self._current_results(path) if one.key.path == path]
            others = self._others(results, (path,))
            snapshot = TextSnapshot.of(self._state, (*results, *others))
            with owned_folder("fix") as folder:
                fixer = self._new_fixer(snapshot, folder)
                await self._fix(f"all {path}", fixer, results, others)
        after = dict(fixer.texts)
        before = {one: snapshot.read(one) or "" for one in (path, *after)}
        passed = tuple(one for one in fixer.attempts if one.has_passed)
        found = self._all[path] = VerifiedFixes(passed, before, after, tuple(results))
        while len(self._all) > _MOST_KNOWN:
            del self._all[next(iter(self._all))]
        return found

    async def _fix(
        self, identity: str, fixer: Fixer, results: Sequence[CaptureResult], others: Sequence[CaptureResult]
    ) -> None:
        """Try the exact fixes of some targets, each for all of them and for the others."""
        runs = [self._allowed_run(one.key, identity) for one in results]
        targets = [SessionTarget(run.request, run.execute, self._show(identity)) for run in runs]
        parts = [
            (result, part)
            for result, target in zip(results, targets, strict=True)
            for part in await _parts_of(result, target)
        ]
        for _, part in parts:
            fixer.add(*part)
        self._add(others, fixer)
        for result, (target, first) in parts:
            report = first if not fixer.texts else await target.report(fixer.request(target))
            last = await fixer.fix(target, report, _EXACT)
            if fixer.texts and not _has_parts(result):
                await self._results.keep(result, last, fixer.texts)

    # Forecasts

    async def try_forecast(self, result: CaptureResult) -> bool:
        """Try remedies for the likely changes of a target's forecast: `result.tried` has what came of each.

        False if it was canceled or could not run.
        """
        identity = f"forecast {result.key.path}::{result.key.name}"
        path = result.key.path
        one = self._start(identity, "the forecast", path, lambda: self._try_forecast(identity, result))
        one.is_automatic = False
        return await _result_of(one.task, None) is not None

    async def _try_forecast(self, identity: str, result: CaptureResult) -> bool:
        async with self._turn:
            prepared = self._allowed_run(result.key, identity)
            if not has_its_texts(self._state, result):
                raise InterruptedVerificationError("the files have changed")
            target = SessionTarget(prepared.request, prepared.execute, self._show(identity))
            fixer = self._fixer_for(result, prepared)
            for one in tried_changes(result.expected_changes):
                trial = await try_remedies(fixer, target, result.report, one)
                result.tried[one] = trial.words
                self._state.log(f"forecast of {result.key.words}, {one.what}: {'; '.join(trial.words)}")
        return True

    # Edits

    def edited(self, path: str) -> None:
        """Show the kept results of the text that a file has now, and cancel verifications of another one."""
        self.cancel(path=path)
        self._results.edited(path)

    async def close(self) -> None:
        """Cancel every verification and delete the results of runs."""
        self.cancel()
        await self._tasks.wait()
        if self._folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._folder)


async def _result_of(task: asyncio.Task[Any], seconds: float | None) -> Any:
    """What a task returns; None if that takes longer, or it was canceled or interrupted. The task goes on."""
    await asyncio.wait({task}, timeout=seconds)
    if not task.done() or task.cancelled() or isinstance(task.exception(), InterruptedVerificationError):
        return None
    return task.result()


def _has_parts(result: CaptureResult) -> bool:
    """Whether a program gave the inputs, so that fixes are verified for its calls."""
    inputs = result.report.inputs
    return inputs is not None and inputs.rung in {Rung.MAIN, Rung.SCRIPT} and bool(result.report.recorded)


async def _parts_of(result: CaptureResult, target: SessionTarget) -> list[Part]:
    """What fixes of a target are verified for: itself, or the calls that it makes if it is a program."""
    requests = program_calls(target.request, result.report)
    if not requests:
        return [(target, result.report)]
    parts = [dataclasses.replace(target, request=request) for request in requests]
    return [(part, await part.report(part.request)) for part in parts]


def _part_with(
    offer: FixOffer, fixer: Fixer, parts: Iterable[Part]
) -> tuple[SessionTarget, Report, Finding] | None:
    """The part of a program that has the finding of an offer and its rewrite, with that finding."""
    here = offer.finding.code, offer.finding.span.path, offer.finding.span.line
    for part, report in parts:
        for one in fixer.findings(report):
            if (one.code, one.span.path, one.span.line) == here and any(
                (same.kind, same.texts) == (offer.remedy.kind, offer.remedy.texts)
                for same in fixer.candidates(one, report)
            ):
                return part, report, one
    return None


def _fixes_for(
    fixer: Fixer, obstacle: Callable[[Remedy], str], result: CaptureResult, finding: Finding
) -> LineFixes:
    """Make the offers for one finding: tens of milliseconds, off the event loop."""
    offers, blocked = [], []
    rewrites = fixer.rewrites(finding, result.report)
    for remedy in rewrites.remedies:
        before = {path: text for path in remedy.texts if (text := fixer.text(path)) is not None}
        if before.keys() != remedy.texts.keys():
            continue
        if why := obstacle(remedy):
            blocked.append(RefusedRewrite(remedy.kind, remedy.title, why))
        else:
            identity = _identity(result, finding, remedy)
            offers.append(FixOffer(identity, result.key, result, finding, remedy, before))
    kinds = {one.remedy.kind for one in offers}
    refused = (one for one in (*blocked, *rewrites.refused) if one.kind not in kinds)
    return LineFixes(
        tuple(offers), tuple(RefusedFix(finding, one.kind, one.title, one.words) for one in refused)
    )


def _is_on(finding: Finding, path: str, first: int, last: int) -> bool:
    span = finding.span
    return span.path == path and span.line <= last and first <= (span.end_line or span.line)


def _identity(result: CaptureResult, finding: Finding, remedy: Remedy) -> str:
    """Hash of the texts that ran, the inputs, the versions, the finding and the remedy."""
    report = result.report
    parts = (
        encode(result.key),
        sorted(report.files.items()),
        encode(report.versions),
        encode(report.inputs),
        encode(finding.span),
        finding.code,
        remedy.kind,
        sorted(remedy.texts.items()),
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
