"""Fixes in the editor: their verification, and what came of one that was applied.

Invariant: user code runs only where the user has agreed to runs of the folder, in the worker's child, one verification
at a time. Everything known of a fix belongs to exact texts: a fix is offered and applied only while the files have the
texts that it was made for, and a result is shown only while each of its files has the text that ran, after apply, undo
and redo.
"""

from __future__ import annotations

import asyncio
import collections
import functools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.forecast import try_changes
from fuselight_server.editor.results.captures import CaptureResult, read_capture
from fuselight_server.editor.results.report_reading import line_reader, thresholds_of
from fuselight_server.editor.results.target_result import keys_of
from fuselight_server.editor.session.fix_attempts import FixAttempts
from fuselight_server.editor.session.fix_offers import FixOffer, FixOffers, VerifiedFixes
from fuselight_server.editor.session.fix_targets import FileFixes, FixTargets, SessionTarget, has_parts
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.verifications import (
    InterruptedVerificationError,
    Prepare,
    VerificationTasks,
    result_of,
)
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from fuselight_server.fixes.verification.cure_trials import TrialBudget, try_cures, wanted_cures
from fuselight_server.fixes.verification.fixer import Fixer
from fuselight_server.fixes.verification.forecast_trials import ChangeTrial

MAX_RESULTS = 16
"""Results that are kept."""


class VerifiedResults:
    """Keeps the last results of verifications."""

    def __init__(self, state: State) -> None:
        """Start without results."""
        self._state = state
        self._results: collections.deque[CaptureResult] = collections.deque(maxlen=MAX_RESULTS)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._results)

    async def keep_result(self, before: CaptureResult, report: Report, texts: dict[str, str]) -> None:
        """Keep the result before a fix, and that of its verification: `texts` are the new ones."""
        settings = self._state.folder_of(before.key.path).settings
        after = await asyncio.to_thread(
            read_capture, before.key, before.generation, report, thresholds_of(settings), line_reader(texts)
        )
        after.verified = True
        for result in (before, after):
            if all(capture_result is not result for capture_result in self._results):
                self._results.append(result)

    def edited(self, path: str) -> None:
        """Show the results of the texts that the files have now.

        Called at each keystroke: the other files of a result are read only if it ran the edited one's text.
        """
        kept = [capture_result for capture_result in self._results if path in capture_result.report.files]
        text = self._state.documents.text(path) if kept else None
        now = keys_of(text) if text is not None else frozenset()
        for result in kept:
            if result.report.files[path] not in now:
                continue
            shown = self._state.captures.get(result.key)
            is_replaced = shown is None or (shown is not result and shown.stale)
            if is_replaced and self._state.documents.has_texts_of(result):
                for file in list(result.changed_files):
                    result.mark_current(file)
                result.generation = max(result.generation, shown.generation if shown is not None else 0)
                if result.verified:
                    self._state.accept_compared(result)
                else:
                    self._state.accept_result(result)


_TRIAL_SECONDS = 60.0
"""Seconds that the trials of cures of one result may take in the background."""
_NO_PART = "the program's calls of what it compiles do not have this finding if they are repeated alone"


async def _keep_nothing(_result: CaptureResult) -> None:
    """Keep no capture."""


class FixSession:
    """Verifies fixes."""

    def __init__(
        self,
        state: State,
        *,
        prepare: Prepare,
        keep: Callable[[CaptureResult], Awaitable[None]] = _keep_nothing,
    ) -> None:
        """Start without offers. `keep` keeps a capture whose cures were tried."""
        self._state, self._keep = state, keep
        self._completed: set[Key] = set()
        """Targets of which the result of an earlier session was looked at for trials that it lacks."""
        self.offers = FixOffers(state)
        self.attempts = FixAttempts(self.offers)
        self.tasks = VerificationTasks(state)
        self._targets = FixTargets(state, self.offers, self.tasks, prepare=prepare)
        self._results = VerifiedResults(state)
        self._files = FileFixes(state, self.offers, self.tasks, self._targets, self._results.keep_result)

    def is_current(self, texts: dict[str, str]) -> bool:
        """Whether each file has this text now."""
        return self.offers.is_current(texts)

    def may_verify(self, offer: FixOffer, *, automatic: bool) -> bool:
        """Whether the user has agreed to the runs of a verification."""
        return self._targets.prepare(offer.key, automatic) is not None

    def not_allowed(self, path: str) -> Key | None:
        """The first target of a file whose runs the user has not agreed to; None if there is none."""
        keys = (result.key for result in self.offers.current_results(path) if result.key.path == path)
        return next((key for key in keys if self._targets.prepare(key, False) is None), None)  # noqa: FBT003 - as the type says

    def verify_in_background(self, offers: Iterable[FixOffer]) -> None:
        """Verify these, and none of those before that nobody waits for."""
        unverified = {offer.id: offer for offer in offers if not self.attempts.has_ended(offer)}
        self.tasks.cancel_automatic(but=unverified)
        keys = {offer.key for offer in unverified.values()}
        allowed = {key for key in keys if self._targets.prepare(key, True) is not None}  # noqa: FBT003 - as the type says
        for offer in unverified.values():
            if offer.key in allowed:
                verify = functools.partial(self._verify, offer)
                self.tasks.start(offer.id, offer.remedy.title, offer.key.path, verify)

    async def verify(
        self, offer: FixOffer, seconds: float | None = None, *, automatic: bool = False
    ) -> Attempt | None:
        """Return what the verification of an offer finds; None if that takes longer or was canceled.

        It goes on for whoever else waits, and is canceled by `cancel` or an edit of its files. One that is not
        automatic waits for no automatic one: those are canceled.
        """
        if self.attempts.has_ended(offer):
            return self.attempts.known(offer)
        if not automatic:
            self.tasks.cancel_automatic(but={offer.id})
        verify = functools.partial(self._verify, offer)
        active = self.tasks.start(offer.id, offer.remedy.title, offer.key.path, verify)
        active.is_automatic &= automatic
        attempt: Attempt | None = await result_of(active.task, seconds)
        return attempt

    async def verify_all(
        self, path: str, seconds: float | None = None, *, automatic: bool = False
    ) -> VerifiedFixes | None:
        """Verify all exact fixes of a file: see `FileFixes.verify`."""
        return await self._files.verify(path, seconds, automatic=automatic)

    async def try_forecast(self, result: CaptureResult) -> str:
        """Try remedies for the likely changes of a target's forecast: `result.tried` has what came of each.

        Returns why it did not reach its end, in words; empty if it did.
        """
        key = result.key
        identity = f"forecast {key.path}::{key.name}"
        active = self.tasks.start(
            identity, "the forecast", key.path, lambda token: self._try_forecast(identity, result, token)
        )
        active.is_automatic = False
        await asyncio.wait({active.task})
        if active.task.cancelled():
            return "it was canceled"
        error = active.task.exception()
        if isinstance(error, InterruptedVerificationError):
            return str(error) or "its run was interrupted"
        active.task.result()
        return ""

    def try_cures(self, result: CaptureResult) -> None:
        """Try the cures of a result in the background, and show its findings with what came of them."""
        key = result.key
        wanted = wanted_cures(result.report, self._state.documents.read_line)
        if wanted and self._targets.prepare(key, True) is not None:  # noqa: FBT003 - as the type says
            identity = f"cures {key.path}::{key.name}"
            self.tasks.cancel(identity)  # of the result before
            active = self.tasks.start(
                identity,
                f"advice on {key.words}",
                key.path,
                lambda token: self._try_cures(identity, result, token),
            )
            active.is_automatic = (
                False  # a menu that asks for fixes does not end it: it leaves each turn at once
            )

    def try_left_cures(self) -> None:
        """Try the cures of results of earlier sessions that lack trials, each once, when a worker has started."""
        for key, result in list(self._state.captures.items()):
            if result.restored and not result.stale and key not in self._completed:
                self._completed.add(key)
                self.try_cures(result)

    def edited(self, path: str) -> None:
        """Show the kept results of the text that a file has now, and cancel verifications of another one."""
        self.tasks.cancel(path=path)
        self._results.edited(path)

    def cancel(self, identity: str | None = None, *, path: str | None = None) -> None:
        """Cancel one verification, those of a file, or all."""
        self.tasks.cancel(identity, path=path)

    async def close(self) -> None:
        """Cancel every verification and delete the results of runs."""
        await self.tasks.close()
        self._targets.close()

    async def _verify(self, offer: FixOffer, token: CancelToken) -> Attempt:
        """Compare the calls of the inputs, and further ones after all verifications that wait for a first answer."""
        known = self.attempts.known(offer)
        attempt = known if known is not None else await self._step(offer, None, token)
        while attempt.is_checking:  # another verification may run between two rounds
            attempt = await self._step(offer, attempt, token)
        return attempt

    async def _step(self, offer: FixOffer, first: Attempt | None, token: CancelToken) -> Attempt:
        """Verify an offer with the calls of the inputs, or a `first` attempt that passed with further calls."""
        async with self.tasks.turn:
            target, prepared = self._targets.target(offer.key, offer.id)
            if self.offers.current(offer.id) is None:
                raise InterruptedVerificationError("the files have changed")
            fixer = self._targets.fixer_for(offer.result, prepared)
            calls = "further calls of " if first is not None else ""
            self._state.log(
                f"verifying {calls}`{offer.remedy.title}` for {offer.key.words} in {offer.key.path}"
            )
            attempt = await self._attempt(offer, target, fixer, first, token)
        self._state.log(f"`{offer.remedy.title}`: {attempt.status.value}, {attempt.why}")
        # Before the fix can be chosen, whose edit ends this. What a part of a program found is not the program's.
        if attempt.report is not None and first is None and not has_parts(offer.result):
            await self._results.keep_result(offer.result, attempt.report, offer.remedy.texts)
        self.attempts.keep_attempt(offer, attempt)
        if not attempt.is_checking:
            # Its lens names what passed, its report what did not.
            self._state.mark_results(offer.result.paths())
        return attempt

    async def _attempt(
        self,
        offer: FixOffer,
        target: SessionTarget,
        fixer: Fixer,
        first: Attempt | None,
        token: CancelToken,
    ) -> Attempt:
        if offer.starts:
            return await self._targets.verify_cache_fix(offer, target, fixer, token)
        part = await self._targets.part_for(offer, target, fixer, token)
        if part is None:
            return Attempt(offer.finding, offer.finding.span.line, offer.remedy, FixStatus.REFUSED, _NO_PART)
        if first is not None:
            return await fixer.next_round(part[0], first)
        return await fixer.first_attempt(part[0], part[2], offer.remedy, part[1])

    async def _try_cures(self, identity: str, result: CaptureResult, token: CancelToken) -> bool:
        target, _ = self._targets.target(result.key, identity)

        async def run(request: RunRequest) -> Report:
            async with self.tasks.turn:
                if not self._state.documents.has_texts_of(result):
                    raise InterruptedVerificationError("the files have changed")
                return await token.run(target.run_report(request))

        report = await try_cures(
            target.request,
            result.report,
            run,
            budget=TrialBudget(None, most=_TRIAL_SECONDS),
            read_line=self._state.documents.read_line,
            show=target.show,
        )
        self._show_trials(result, report)
        if result.report.trials == report.trials:
            await self._keep(result)
        return True

    def _show_trials(self, result: CaptureResult, report: Report) -> None:
        """Show the findings of a result again with the trials of its cures, unless its lines have moved since."""
        if result.stale or self._state.captures.get(result.key) is not result:
            return
        result.report = replace(result.report, trials=report.trials, problems=report.problems)
        vars(result).pop("priorities", None)
        result.derive(
            thresholds_of(self._state.folder_of(result.key.path).settings), self._state.documents.read_line
        )
        self._state.mark_findings(result.paths())
        for trial in report.trials:
            outcome = trial.refused or f"{trial.before} to {trial.after} {trial.cure.goal.value}"
            self._state.log(
                f"{result.key.words}: tried {trial.cure.kind.value} {trial.cure.subjects}: {outcome}"
            )

    async def _try_forecast(self, identity: str, result: CaptureResult, token: CancelToken) -> bool:
        async with self.tasks.turn:
            target, prepared = self._targets.target(result.key, identity)
            if not self._state.documents.has_texts_of(result):
                raise InterruptedVerificationError("the files have changed")
            fixer = self._targets.fixer_for(result, prepared)

            def keep(change: ExpectedChange, trial: ChangeTrial) -> None:
                result.tried[change] = trial.words
                self._state.log(f"forecast of {result.key.words}, {change.what}: {'; '.join(trial.words)}")

            await try_changes(fixer, target, token, result.report, result.expected_changes, keep=keep)
        return True
