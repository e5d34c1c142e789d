"""What the last `fuselight run` of each folder found.

Invariant: read in a trusted workspace only: a report that came with the folder can claim anything about any file.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from fuselight_server.base.files import within
from fuselight_server.editor.results.captures import read_capture
from fuselight_server.editor.session.report_reading import line_reader, modified, thresholds_of
from fuselight_server.execution.runs.keys import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Report
    from fuselight_server.base.store import Store
    from fuselight_server.editor.session.state import State

PROGRAM = "fuselight run"
"""Target name of the result of the last `fuselight run`."""


class ProgramReports:
    """Reads and shows these reports."""

    def __init__(self, state: State, *, generation: Callable[[], int]) -> None:
        """`generation` returns the generation that a run requested now would have."""
        self._state = state
        self._generation = generation
        self._reading: dict[Key, object] = {}
        """The latest reading of each folder's last `fuselight run`: an older one is dropped."""

    async def load(self, store: Store) -> None:
        """Show what the last `fuselight run` that wrote to `store` found.

        Only in a trusted workspace: a report that came with the folder can claim anything about any file.
        """
        if not self._state.trusted:
            return
        key = Key(str(store.report_path), PROGRAM)
        folder = self._state.folder_of(key.path)
        mine = self._reading[key] = object()
        report = await asyncio.to_thread(store.read_report)
        if self._reading[key] is not mine:
            return
        if report is None:
            self._state.drop_file(key.path)
            return
        thresholds = thresholds_of(folder.settings)
        result = await asyncio.to_thread(
            read_capture, key, self._generation(), report, thresholds, line_reader({})
        )
        if self._reading[key] is not mine:
            return
        written = store.report_path.stat().st_mtime if store.report_path.exists() else time.time()
        for live in result.own:
            if modified(live.finding.span.path) > written:
                live.place.edited = result.stale = True
                result.mark_changed(live.finding.span.path)
        self._state.accept(result)


def last_program_report(state: State, path: str) -> Report | None:
    """Return the report of the last `fuselight run` for a file, from the nearest store at or above it."""
    stores = {
        os.path.dirname(os.path.dirname(key.path)): result.report  # noqa: PTH120 - paths stay text
        for key, result in state.captures.items()
        if key.name == PROGRAM
    }
    return stores.get(max((root for root in stores if within(path, root)), key=len, default=""))
