"""Comparisons with eager mode and estimates of memory that follow a save, for the setting `afterSave`.

Invariant: an automatic run begins when no other run and no verification is in progress. An edit ends it; a run that is
asked for goes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from fuselight.shared.report import Tier
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.session.consent import ASKED, Trigger
from fuselight_server.editor.session.run_requests import RunRequests
from fuselight_server.editor.session.session import Session
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Job

AFTER_SAVE = "afterSave"
"""The value of a setting with which a save is followed by such runs."""
_AFTER = Trigger("after a save", automatic=True)


class BackgroundRuns:
    """Compares the targets that a save has run, and estimates their memory, while nothing else is in progress."""

    def __init__(
        self,
        session: Session,
        requests: RunRequests,
        verifications: Callable[[], Iterable[asyncio.Task[object]]],
    ) -> None:
        """`verifications`: the verifications of fixes in progress."""
        self._session, self._state, self._requests = session, session.state, requests
        self._verifications = verifications
        self._pending: dict[Key, None] = {}
        """Runs that begin as soon as nothing else is in progress."""
        self._automatic: set[Key] = set()
        """Runs in the queue for which nobody has asked."""
        self._waiting: asyncio.Task[None] | None = None

    @property
    def automatic(self) -> frozenset[Key]:
        """Runs in the queue for which nobody has asked."""
        return frozenset(self._automatic)

    def captured(self, job: Job, result: CaptureResult) -> None:
        """Take in what a run of a target found: after a save, further runs are next, unless their results are known."""
        if job.cause == ASKED.cause or not result.has_data or result.report.failures:
            return
        settings = self._state.folder_of(job.key.path).settings
        wanted = {Tier.ACCURACY: settings.accuracy, Tier.MEMORY: settings.memory if job.key.name else ""}
        for tier in (tier for tier, when in wanted.items() if when == AFTER_SAVE):
            key = Key(job.key.path, job.key.name, tier)
            known = self._state.results.get(key)
            if known is None or known.stale or known.last_complete is not known:
                self._pending[key] = None

    def edited(self) -> None:
        """Give way to the user who edits: what would run is not what the editor has any more."""
        self._pending.clear()
        self._withdraw()

    def requested(self, keys: tuple[Key, ...], trigger: Trigger) -> None:
        """Give way to runs that are about to be queued; what they interrupt runs after them."""
        if trigger is _AFTER:
            self._automatic.update(keys)
            return
        self._automatic.difference_update(keys)  # those are asked for
        self._pending.update(dict.fromkeys(self._automatic))
        for key in keys:
            self._pending.pop(key, None)
        self._withdraw()

    def _withdraw(self) -> None:
        keys, self._automatic = self._automatic, set()
        if keys:
            self._session.runs.withdraw(keys)

    def runs_changed(self) -> None:
        """Begin once the last run has ended."""
        self._automatic.intersection_update(self._session.active())
        if self._pending and self._is_idle() and (self._waiting is None or self._waiting.done()):
            self._waiting = self._session.tasks.start(self._request_when_idle(), "runs after a save")

    def _is_idle(self) -> bool:
        return not self._session.active()

    async def _request_when_idle(self) -> None:
        while self._pending and self._is_idle():
            verifications = list(self._verifications())
            if not verifications:
                self._request()
                return
            await asyncio.wait(verifications)

    def _request(self) -> None:
        keys, self._pending = list(self._pending), {}
        by_path: dict[str, list[Key]] = {}
        for key in keys:
            by_path.setdefault(key.path, []).append(key)
        for of_file in by_path.values():
            self._requests.request_runs(tuple(of_file), _AFTER)
