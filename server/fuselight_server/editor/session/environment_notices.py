"""What is known of a folder's interpreter: kept for the status of the folder, and shown where the user can act.

Invariant: each message about one interpreter or one version of torch is shown once, and again after each run that the
user asked for and that the interpreter cannot run.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING

from fuselight.shared.version import untested_torch
from fuselight_server.editor.session.consent import NEVER
from fuselight_server.execution.interpreters import known_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Failure, Report
    from fuselight_server.base.settings import Interpreter
    from fuselight_server.editor.session.background import BackgroundTasks
    from fuselight_server.editor.session.state import Document, Folder, State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.execution.runs.keys import Key

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


class EnvironmentNotices:
    """Tells the user about the interpreters of folders."""

    def __init__(
        self,
        state: State,
        ui: Ui,
        *,
        interpreter: Callable[[Folder], Interpreter | None],
        tasks: BackgroundTasks,
        run_again: Callable[[Key], None],
    ) -> None:
        """Start with nothing shown. `run_again` runs a target because the user asked for it."""
        self._state = state
        self._ui = ui
        self._interpreter = interpreter
        self._tasks, self._run_again = tasks, run_again
        self._told_of_triton: set[str] = set()
        """Interpreters for which a message about missing Triton was already shown."""
        self._untested_shown: set[str] = set()
        """Versions of torch for which the message that no test runs on them was already shown."""

    async def look(self, document: Document) -> None:
        """Report an interpreter that can run nothing, if its files show that, before a file's first run."""
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

    def note(self, folder: Folder, key: Key, report: Report, *, explicit: bool = False) -> bool:
        """Keep what a run of `key` says of its interpreter; returns whether runs can work with that at all.

        `explicit`: whether the user asked for this run.
        """
        broken = next((failure for failure in report.failures if failure.kind in _NO_RUN_CAN_WORK), None)
        if broken is not None:
            if explicit or folder.problem != broken.message:
                self._show_broken(folder, broken)
            return False
        folder.problem = None
        folder.torch = report.versions.torch or folder.torch
        self._show_untested(folder.torch or "")
        device = report.target_device
        if report.generated and report.versions.triton is None and device and device.backend == "cuda":
            self._tasks.start(self._offer_triton(key, report.versions.executable), "offering Triton")
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
            self._run_again(key)
