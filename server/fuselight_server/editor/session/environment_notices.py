"""What a run's report says of its interpreter: kept for the status of the folder, and shown where the user can act.

Invariant: each message about one interpreter or one version of torch is shown once.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fuselight.shared.version import untested_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Report
    from fuselight_server.editor.session.background import BackgroundTasks
    from fuselight_server.editor.session.state import Folder, State
    from fuselight_server.editor.session.ui import Ui
    from fuselight_server.execution.runs.keys import Key

SELECT_INTERPRETER = "fuselight.selectInterpreter"
"""The client's command by which the user chooses another."""

_NO_RUN_CAN_WORK = frozenset({"no_torch", "old_torch", "interpreter"})
"""Kinds of failure of the interpreter itself."""


class EnvironmentNotices:
    """Tells the user about the interpreters of folders."""

    def __init__(
        self,
        state: State,
        ui: Ui,
        *,
        tasks: BackgroundTasks,
        run_again: Callable[[Key], None],
    ) -> None:
        """Start with nothing shown. `run_again` runs a target because the user asked for it."""
        self._state = state
        self._ui = ui
        self._tasks, self._run_again = tasks, run_again
        self._told_of_triton: set[str] = set()
        """Interpreters for which a message about missing Triton was already shown."""
        self._untested_shown: set[str] = set()
        """Versions of torch for which the message that no test runs on them was already shown."""

    def note(self, folder: Folder, key: Key, report: Report) -> bool:
        """Keep what a run of `key` says of its interpreter; returns whether runs can work with that at all."""
        broken = next((failure for failure in report.failures if failure.kind in _NO_RUN_CAN_WORK), None)
        if broken is not None:
            if folder.problem != broken.message:
                folder.problem = broken.message
                # A client that can offer another interpreter says it with the offer.
                if SELECT_INTERPRETER not in self._state.client.commands:
                    self._ui.say(f"{broken.message} {broken.next_step}".strip(), error=True)
            return False
        folder.problem = None
        folder.torch = report.versions.torch or folder.torch
        self._show_untested(folder.torch or "")
        device = report.target_device
        if report.generated and report.versions.triton is None and device and device.backend == "cuda":
            self._tasks.start(self._offer_triton(key, report.versions.executable), "offering Triton")
        return True

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
