"""Tells the client which files look different, once for each step of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuselight_server.editor.session.state import State
    from fuselight_server.editor.session.ui import Ui


class ChangeNotices:
    """Shows the changes of a state."""

    def __init__(self, state: State, ui: Ui) -> None:
        """Show every change of `state` from now on."""
        self._state = state
        self._ui = ui
        self._is_scheduled = False
        state.on_change = self._schedule_changes

    def _schedule_changes(self) -> None:
        """Show what changed once the event loop has finished its current step."""
        if not self._is_scheduled:
            with contextlib.suppress(RuntimeError):  # no loop runs: the next call takes these changes, too
                asyncio.get_running_loop().call_soon(self.show_changes)
                self._is_scheduled = True

    def show_changes(self) -> None:
        """Show the files that look different since the last call."""
        self._is_scheduled = False
        findings, results = self._state.take_changes()
        if findings:
            self._ui.findings_changed(findings)
        if results:
            self._ui.results_changed(results)
