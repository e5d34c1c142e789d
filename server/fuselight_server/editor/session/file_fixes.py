"""All exact fixes of a file, verified one on top of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.owned_folders import owned_folder
from fuselight_server.commands.fix_parts import fix_part
from fuselight_server.editor.session.fix_offers import MOST_KNOWN, TextSnapshot, new_fixer
from fuselight_server.editor.session.fix_targets import has_parts, parts_of
from fuselight_server.editor.session.recent import Recent
from fuselight_server.editor.session.verification_tasks import result_of
from fuselight_server.editor.session.verified_results import has_its_texts
from fuselight_server.fixes.rewrites.families import FixClass
from fuselight_server.fixes.verification.fixer import FixOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.session.fix_offers import FixOffers
    from fuselight_server.editor.session.fix_targets import FixTargets
    from fuselight_server.editor.session.state import State
    from fuselight_server.editor.session.verification_tasks import VerificationTasks
    from fuselight_server.editor.session.verified_results import VerifiedResults
    from fuselight_server.fixes.verification.attempts import Attempt
    from fuselight_server.fixes.verification.fixer import Fixer

_EXACT = FixOptions(classes=frozenset({FixClass.EXACT}))


@dataclass(frozen=True, eq=False)
class VerifiedFixes:
    """The exact fixes of a file that passed one on top of the other, perhaps none: the new text of each file."""

    attempts: tuple[Attempt, ...]
    before: dict[str, str]
    after: dict[str, str]
    ran: tuple[CaptureResult, ...]
    """What the last runs found of the text before."""


class FileFixes:
    """Verifies and keeps the exact fixes of whole files."""

    def __init__(
        self,
        state: State,
        offers: FixOffers,
        tasks: VerificationTasks,
        targets: FixTargets,
        results: VerifiedResults,
    ) -> None:
        """Start with none."""
        self._state, self._offers, self._tasks = state, offers, tasks
        self._targets, self._results = targets, results
        self._known: Recent[str, VerifiedFixes] = Recent(MOST_KNOWN)
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
            and all(has_its_texts(self._state, result) for result in known.ran)
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
        for _, part in parts:
            fixer.add(*part)
        self._targets.add(others, fixer)
        for result, (target, first) in parts:
            last = await fix_part(fixer, target, token, first, _EXACT)
            if fixer.texts.changed and not has_parts(result):
                await self._results.keep(result, last, fixer.texts.changed)
