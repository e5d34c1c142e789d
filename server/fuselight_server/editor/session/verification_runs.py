"""Runs that verify a fix: beside the queue, in the worker of the folder.

Invariant: they start no sooner than the user has agreed to runs of the target.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from fuselight.shared.protocol import Answer
from fuselight.shared.report import Culprit
from fuselight_server.editor.session.consent import RUN
from fuselight_server.editor.session.fix_targets import PreparedRun
from fuselight_server.editor.session.permissions import AskedRuns
from fuselight_server.editor.session.run_requests import UNTRUSTED
from fuselight_server.editor.session.triggers import Trigger
from fuselight_server.editor.session.verification_tasks import InterruptedVerificationError
from fuselight_server.editor.session.workers import worker_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.protocol import Progress, RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.editor.session.consent import Consent
    from fuselight_server.editor.session.permissions import RunPermissions
    from fuselight_server.editor.session.run_requests import CurrentRequests
    from fuselight_server.editor.session.state import State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.editor.session.workers import Workers
    from fuselight_server.execution.runs.keys import Key, WorkerKey
    from fuselight_server.execution.runs.queue import Runs


class VerificationRuns:
    """Prepares them, and asks the user about them."""

    def __init__(
        self,
        state: State,
        ui: Ui,
        runs: Runs,
        *,
        consent: Consent,
        permissions: RunPermissions,
        current: CurrentRequests,
        workers: Workers,
    ) -> None:
        self._state, self._ui, self._runs = state, ui, runs
        self._consent, self._permissions = consent, permissions
        self._current, self._workers = current, workers

    def prepare(self, key: Key, automatic: bool) -> PreparedRun | None:  # noqa: FBT001 - a callback
        """Prepare the run of a target; None where it must not run or no run can work."""
        folder = self._state.folder_of(key.path)
        interpreter = self._workers.interpreter(folder)
        if folder.consent != RUN or interpreter is None:
            return None
        if not self._permissions.permits_now(key, automatic=automatic):
            return None
        request = self._current.of(key, folder, self._runs.generation, automatic=True)
        worker = worker_key(folder, interpreter)
        return (
            PreparedRun(request, functools.partial(self._execute, worker), repr(worker)) if request else None
        )

    def agrees(self, key: Key, go_on: Callable[[], None]) -> bool:
        """Whether runs of a target that the user asks for are allowed; where that is unknown, the user is asked.

        `go_on` is called when the user has agreed. Where no run is possible, a message says why.
        """
        folder = self._state.folder_of(key.path)
        interpreter = self._workers.interpreter(folder)
        if not self._state.trusted:
            self._ui.say(UNTRUSTED, error=False)
            return False
        if interpreter is None:
            self._ui.say("A fix is verified by running it, but no Python interpreter was found.", error=False)
            return False
        self._consent.reopen(folder, key.path)
        asked = AskedRuns(folder, (key,), Trigger("a fix was chosen", explicit=True), interpreter.executable)
        return bool(self._permissions.permitted(asked, lambda _answered: go_on()))

    async def _execute(
        self, worker: WorkerKey, request: RunRequest, on_progress: Callable[[Progress], None]
    ) -> Report:
        """Run a request beside the queue. Raises InterruptedVerificationError."""
        outcome = await self._workers.run(worker)(request, on_progress, lambda _report: None)
        if isinstance(outcome, Answer):
            return outcome.report
        failure = outcome.failure
        if failure is None or failure.culprit in {Culprit.ENVIRONMENT, Culprit.FUSELIGHT}:
            raise InterruptedVerificationError(failure.message if failure is not None else outcome.reason)
        return self._workers.failure_report(worker, request, failure)
