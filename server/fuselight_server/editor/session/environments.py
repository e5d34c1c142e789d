"""The interpreters of folders: what runs say of them, what the user reads of it, what runs again with another one.

Invariant: each message about one interpreter or one version of torch is shown once, and again after each run that the
user asked for and that the interpreter cannot run.
"""

from __future__ import annotations

import asyncio
import os
import shlex

from fuselight.shared.report import Failure, Report
from fuselight.shared.version import untested_torch
from fuselight_server.base.files import within
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.consent import ASKED, NEVER, Trigger
from fuselight_server.editor.session.run_requests import RunRequests
from fuselight_server.editor.session.session import Session
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.workers import Workers
from fuselight_server.execution.interpreters import known_problem
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Job

SELECT_INTERPRETER = "fuselight.selectInterpreter"
"""The client's command by which the user chooses another."""

_NO_RUN_CAN_WORK = frozenset({"no_torch", "old_torch", "interpreter", "platform"})
"""Kinds of failure of the interpreter itself, and of the system."""

_SETTING = "`fuselight.interpreter`"


def _has_targets(document: Document) -> bool:
    """Whether something in a file can be compiled."""
    return document.runnable and any(
        target.compiled or target.computes or target.directives for target in document.reading().targets
    )


class Environments:
    """Reports interpreters that cannot run anything, and runs their targets again once they are other ones."""

    def __init__(self, session: Session, requests: RunRequests, workers: Workers) -> None:
        """Start with nothing shown."""
        self._session, self._state, self._ui = session, session.state, session.ui
        self._requests, self._interpreter = requests, workers.interpreter
        self._unrunnable: set[Key] = set()
        """Targets that the interpreter of their folder could not run."""
        self._told_of_triton: set[str] = set()
        """Interpreters for which a message about missing Triton was already shown."""
        self._untested_shown: set[str] = set()
        """Versions of torch for which the message that no test runs on them was already shown."""

    def look(self, document: Document) -> None:
        """Report an interpreter that can run nothing, if its files show that, before a file's first run."""
        self._session.tasks.start(self._look(document), "looking at the interpreter")

    async def _look(self, document: Document) -> None:
        await document.source.read()
        folder = self._state.folder_of(document.path)
        interpreter = self._interpreter(folder) if self._state.trusted and folder.consent != NEVER else None
        if (
            interpreter is None
            or interpreter.args
            or folder.problem is not None
            or not _has_targets(document)
        ):
            return
        environ = {**os.environ, **folder.settings.environment}
        broken = await asyncio.to_thread(known_problem, interpreter.executable, environ)
        if broken is not None and folder.problem is None and folder.torch is None:
            self._show_broken(folder, broken)
            self._ui.runs_changed()

    def note(self, job: Job, report: Report) -> None:
        """Take in what a run says of its interpreter; where no run can work, the rest of the queue need not try."""
        if self._can_run(job, report):
            self._unrunnable.discard(job.key)
            return
        queue = self._session.runs.queue
        same = [key for key, waiting in queue.waiting.items() if waiting.worker_key == job.worker_key]
        queue.drop(same)
        self._unrunnable.update({job.key, *same})

    def _can_run(self, job: Job, report: Report) -> bool:
        """Keep what a run says of its interpreter; returns whether runs can work with that at all."""
        folder, is_asked = self._state.folder_of(job.key.path), job.cause == ASKED.cause
        broken = next((failure for failure in report.failures if failure.kind in _NO_RUN_CAN_WORK), None)
        if broken is not None:
            if is_asked or folder.problem != broken.message:
                self._show_broken(folder, broken)
            return False
        folder.problem = None
        folder.torch = report.versions.torch or folder.torch
        self._show_untested(folder.torch or "")
        device = report.target_device
        if report.generated and report.versions.triton is None and device and device.backend == "cuda":
            self._session.tasks.start(
                self._offer_triton(job.key, report.versions.executable), "offering Triton"
            )
        return True

    def _show_broken(self, folder: Folder, broken: Failure) -> None:
        """Say which interpreter can run nothing, who chose it, and what to do."""
        folder.problem = broken.message
        step = f"{broken.next_step[:1].upper()}{broken.next_step[1:]}."
        if broken.kind == "platform":  # another interpreter would not help
            self._ui.say(f"{broken.message[:1].upper()}{broken.message[1:]}. {step}", error=False)
            return
        # A client that can offer another interpreter says it with the offer.
        if SELECT_INTERPRETER in self._state.client.commands:
            return
        interpreter = self._interpreter(folder)
        why = interpreter.why if interpreter else ""
        source = f"; this interpreter comes from {why}" if why else ""
        if _SETTING not in why:
            source += f", and {_SETTING} sets another" if source else f"; {_SETTING} sets another interpreter"
        self._ui.say(f"{broken.message}{source}. {step}", error=True)

    def _show_untested(self, torch: str) -> None:
        """Say once that the tests do not run on this torch."""
        text = untested_torch(torch)
        if text is not None and torch not in self._untested_shown:
            self._untested_shown.add(torch)
            self._state.log(text)
            self._ui.say(text, error=False)

    async def _offer_triton(self, key: Key, executable: str) -> None:
        """Say once how to install Triton, and generate the kernels again when the user has done that."""
        if executable in self._told_of_triton:
            return
        self._told_of_triton.add(executable)
        command = f"{shlex.quote(executable)} -m pip install triton"
        text = (
            "Kernels are shown without registers, occupancy and assembly, because Triton is not installed. "
            f"Run `{command}`, then press Retry."
        )
        if await self._ui.offer(text, ("Retry",)) == "Retry":
            self._told_of_triton.discard(executable)  # the next report shows whether Triton is installed
            self._requests.request_runs((key,), ASKED)

    def forget_path(self, path: str) -> None:
        """Forget the targets of a file or a folder that is gone."""
        self._unrunnable = {key for key in self._unrunnable if not within(key.path, path)}

    def run_again(self, folder: str | None) -> None:
        """Drop the failures of an interpreter that could run nothing, and run their targets again.

        They stay known until one of their runs works: a further change may cancel these runs.
        """
        state, targets = self._state, self._requests.permissions.targets
        keys = [key for key in self._unrunnable if folder in {None, state.folder_of(key.path).path}]
        self._unrunnable.difference_update(key for key in keys if key.has_own_worker or key.kernel)
        by_path: dict[str, list[Key]] = {}
        for key in keys:
            result = state.results.get(key)
            state.drop([key])
            if result is not None and result.last_complete is not None:
                state.accept_result(result.last_complete)
            if not key.has_own_worker and not key.kernel and targets.reading(key.path) is not None:
                by_path.setdefault(key.path, []).append(key)
        for again in by_path.values():
            self._requests.request_runs(tuple(again), Trigger("the interpreter was changed", automatic=True))
