"""What fixes are verified for: the runs of a target, of the parts of a program, of all targets of a file.

Invariant: a program is fixed by its parts, as in the terminal: the runs that repeat its calls of each thing that it
compiles. Every run was prepared after the user agreed to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from fuselight.shared.owned_folders import new_folder, owned_folder
from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Report, Rung
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Finding
from fuselight_server.base.recent import Recent
from fuselight_server.commands import fix_parts
from fuselight_server.commands.cache_fixes import verify_cache_fix
from fuselight_server.commands.fix_parts import fix_part
from fuselight_server.commands.warm import WarmTarget
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.session.fix_offers import (
    MAX_KNOWN,
    FixOffer,
    FixOffers,
    TextSnapshot,
    VerifiedFixes,
    new_fixer,
)
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.verifications import (
    Execute,
    InterruptedVerificationError,
    Prepare,
    PreparedRun,
    VerificationTasks,
    result_of,
)
from fuselight_server.execution.runs.keys import Key
from fuselight_server.fixes.rewrites.families import FixClass
from fuselight_server.fixes.verification.attempts import Attempt
from fuselight_server.fixes.verification.fixer import Fixer, FixOptions

_MAX_OTHERS = 4
"""Further targets of a changed file that a fix is verified for."""


@dataclass(frozen=True)
class SessionTarget:
    """A target that fixes are verified for (fixer.FixTarget)."""

    request: RunRequest
    execute: Execute
    show: Callable[[str], None]

    def with_show(self, show: Callable[[str], None]) -> SessionTarget:
        """The same target, with progress that is shown in another way."""
        return dataclasses.replace(self, show=show)

    async def run_report(self, request: RunRequest) -> Report:
        """The report of a run. Raises InterruptedVerificationError."""
        return await self.execute(request, lambda progress: self.show(progress.detail or progress.phase))


Part = tuple[SessionTarget, "Report"]
"""What a fix is verified for: a target with its report, or a program's calls of one thing that it compiles."""


class FixTargets:
    """Prepares targets, and keeps the fixer of the texts that were verified last."""

    def __init__(
        self, state: State, offers: FixOffers, tasks: VerificationTasks, *, prepare: Prepare
    ) -> None:
        """Start without a fixer; the folder of results is made with the first one."""
        self._state, self._offers, self._tasks = state, offers, tasks
        self.prepare = prepare
        self._folder: str | None = None
        self._fixer: tuple[object, Fixer] | None = None
        """That of the texts of the last verification: other fixes of the same texts need no new run of these."""
        self._parts: tuple[Fixer, list[Part]] | None = None
        """The parts of the program that this fixer is for."""
        self._starts: tuple[Fixer, WarmTarget] | None = None
        """What two starts of the text of this fixer showed."""
        self._shown = ""
        """The offer that is verified for them now."""

    def target(self, key: Key, identity: str) -> tuple[SessionTarget, PreparedRun]:
        """The run of a target for a verification. Raises InterruptedVerificationError where it must not run."""
        prepared = self.prepare(key, self._tasks.is_automatic(identity))
        if prepared is None:
            raise InterruptedVerificationError("runs of this folder are not allowed")
        return SessionTarget(prepared.request, prepared.execute, self._tasks.show(identity)), prepared

    def fixer_for(self, result: CaptureResult, prepared: PreparedRun) -> Fixer:
        """The fixer of a target as it is: its runs of the text before serve all fixes of this text."""
        request = dataclasses.replace(prepared.request, id=0, generation=0, automatic=False)
        identity = (result.key, tuple(sorted(result.report.files.items())), prepared.worker, str(request))
        if self._fixer is not None and self._fixer[0] == identity:
            return self._fixer[1]
        if self._fixer is not None:
            self._fixer[1].runs.forget_results()
        if self._folder is None:
            self._folder = new_folder("fix")
        others = self.others((result,), (result.key.path, *result.report.files))
        fixer = new_fixer(TextSnapshot.of(self._state, (result, *others)), self._folder)
        self.add_other_targets(others, fixer)
        self._fixer = identity, fixer
        return fixer

    def others(self, results: Sequence[CaptureResult], paths: Iterable[str]) -> list[CaptureResult]:
        """Further targets that run one of these files, their own or one that they import."""
        known = {
            current_result.key: current_result
            for path in paths
            for current_result in self._offers.current_results(path)
        }
        for result in results:
            known.pop(result.key, None)
        # The calls of a program are not those of a single target.
        return [capture_result for capture_result in known.values() if not has_parts(capture_result)][
            :_MAX_OTHERS
        ]

    def add_other_targets(self, others: Iterable[CaptureResult], fixer: Fixer) -> None:
        """Let a fixer verify that fixes leave the calls of other targets as they are."""
        for capture_result in others:
            run = self.prepare(capture_result.key, True)  # noqa: FBT003 - as the type says
            if run is not None:
                fixer.add_target(
                    SessionTarget(run.request, run.execute, lambda _words: None), capture_result.report
                )

    async def part_for(
        self, offer: FixOffer, target: SessionTarget, fixer: Fixer, token: CancelToken
    ) -> tuple[SessionTarget, Report, Finding] | None:
        """The target with the finding of an offer, or the part of a program that has it; None if no part has it."""
        if not has_parts(offer.result):
            return target, offer.result.report, offer.finding
        parts = await self._parts_for(offer, target, fixer, token)
        return await asyncio.to_thread(_part_with, offer, fixer, parts)

    async def verify_cache_fix(
        self, offer: FixOffer, target: SessionTarget, fixer: Fixer, token: CancelToken
    ) -> Attempt:
        """Verify a fix that two starts decide: those of the text before serve all fixes of it."""
        parts = [(target, offer.result.report)]
        if has_parts(offer.result):
            parts = await self._parts_for(offer, target, fixer, token)
        before = self._starts[1] if self._starts is not None and self._starts[0] is fixer else None
        attempt, before = await verify_cache_fix(
            fixer, target, token, parts, finding=offer.finding, remedy=offer.remedy, before=before
        )
        self._starts = fixer, before
        return attempt

    def close(self) -> None:
        """Delete the results of runs."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._folder)

    async def _parts_for(
        self, offer: FixOffer, target: SessionTarget, fixer: Fixer, token: CancelToken
    ) -> list[Part]:
        """The parts of a program, which a fixer verifies fixes for: run once for all fixes of the same text."""
        self._shown = offer.id
        if self._parts is None or self._parts[0] is not fixer:
            parts = await parts_of(offer.result, dataclasses.replace(target, show=self._show_part), token)
            for part in parts:
                fixer.add_target(*part)
            fixer.programs.add(target, offer.result.report, (part for part, _ in parts))
            self._parts = fixer, parts
        return self._parts[1]

    def _show_part(self, words: str) -> None:
        self._tasks.show(self._shown)(words)


def has_parts(result: CaptureResult) -> bool:
    """Whether a program gave the inputs, so that fixes are verified for its calls."""
    inputs = result.report.inputs
    return inputs is not None and inputs.rung in {Rung.MAIN, Rung.SCRIPT} and bool(result.report.recorded)


async def parts_of(result: CaptureResult, target: SessionTarget, token: CancelToken) -> list[Part]:
    """What fixes of a target are verified for: itself, or the calls that it makes if it is a program."""
    return await fix_parts.parts_of(
        target, token, result.report, lambda request: dataclasses.replace(target, request=request)
    )


def _part_with(
    offer: FixOffer, fixer: Fixer, parts: Iterable[Part]
) -> tuple[SessionTarget, Report, Finding] | None:
    """The part of a program that has the finding of an offer and its rewrite, with that finding."""
    here = offer.finding.code, offer.finding.span.path, offer.finding.span.line
    for part, report in parts:
        for finding in fixer.findings(report):
            if (finding.code, finding.span.path, finding.span.line) == here and any(
                (same.kind, same.texts) == (offer.remedy.kind, offer.remedy.texts)
                for same in fixer.candidates(finding, report)
            ):
                return part, report, finding
    return None


_EXACT = FixOptions(classes=frozenset({FixClass.EXACT}))


class FileFixes:
    """Verifies and keeps the exact fixes of whole files."""

    def __init__(
        self,
        state: State,
        offers: FixOffers,
        tasks: VerificationTasks,
        targets: FixTargets,
        keep: Callable[[CaptureResult, Report, dict[str, str]], Awaitable[None]],
    ) -> None:
        """Start with none. `keep` keeps the report of a fixed text, with the result before it."""
        self._state, self._offers, self._tasks = state, offers, tasks
        self._targets, self._keep = targets, keep
        self._known: Recent[str, VerifiedFixes] = Recent(MAX_KNOWN)
        """By path."""

    async def verify(
        self, path: str, seconds: float | None = None, *, automatic: bool = False
    ) -> VerifiedFixes | None:
        """Verify all exact fixes of a file's targets, one on top of the other.

        Returns None if that takes longer, was canceled, or the user has not agreed to runs.
        """
        known = self._known.get(path)
        if (
            known is not None
            and self._offers.is_current(known.before)
            and all(self._state.documents.has_texts_of(result) for result in known.ran)
        ):
            return known
        active = self._tasks.start(
            f"all {path}", "all exact fixes", path, lambda token: self._verify(path, token)
        )
        active.is_automatic &= automatic
        verified: VerifiedFixes | None = await result_of(active.task, seconds)
        return verified

    async def _verify(self, path: str, token: CancelToken) -> VerifiedFixes:
        async with self._tasks.turn:
            results = [
                current_result
                for current_result in self._offers.current_results(path)
                if current_result.key.path == path
            ]
            others = self._targets.others(results, (path,))
            snapshot = TextSnapshot.of(self._state, (*results, *others))
            with owned_folder("fix") as folder:
                fixer = new_fixer(snapshot, folder)
                await self._fix(f"all {path}", fixer, results, others, token)
        after = dict(fixer.texts.changed)
        before = {file: snapshot.read(file) or "" for file in (path, *after)}
        passed = tuple(attempt for attempt in fixer.attempts if attempt.has_passed)
        verified = VerifiedFixes(passed, before, after, tuple(results))
        self._known.keep(path, verified)
        return verified

    async def _fix(
        self,
        identity: str,
        fixer: Fixer,
        results: Sequence[CaptureResult],
        others: Sequence[CaptureResult],
        token: CancelToken,
    ) -> None:
        """Try the exact fixes of some targets, each for all of them and for the others."""
        targets = [self._targets.target(result.key, identity)[0] for result in results]
        parts = [
            (result, part)
            for result, target in zip(results, targets, strict=True)
            for part in await parts_of(result, target, token)
        ]
        programs = {result.key: target for result, target in zip(results, targets, strict=True)}
        for result, part in parts:
            fixer.add_target(*part)
            fixer.programs.add(programs[result.key], result.report, (part[0],))
        self._targets.add_other_targets(others, fixer)
        for result, (target, first) in parts:
            last = await fix_part(fixer, target, token, first, _EXACT)
            if fixer.texts.changed and not has_parts(result):
                await self._keep(result, last, fixer.texts.changed)
