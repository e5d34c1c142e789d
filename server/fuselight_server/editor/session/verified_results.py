"""Results of the texts before and after a fix, shown while the files have these texts: after apply, undo and redo.

Invariant: a result is shown only while each of its files has the text that ran.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING

from fuselight_server.base.files import disk_text
from fuselight_server.editor.results.captures import read_capture
from fuselight_server.editor.results.target_result import keys_of, keys_on_disk
from fuselight_server.editor.session.report_reading import line_reader, thresholds_of

if TYPE_CHECKING:
    from fuselight.shared.report import Report
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.session.intake import ResultIntake
    from fuselight_server.editor.session.state import State

MOST_RESULTS = 16
"""Results that are kept."""


def current_text(state: State, path: str) -> str | None:
    """Return the text of a file as the editor has it, else as it is on the disk; None where it cannot be read."""
    document = state.at(path)
    return document.source.text if document is not None else disk_text(path)


def has_its_texts(state: State, result: CaptureResult) -> bool:
    """Whether each file of a result has the text that ran. Reads the files that are not open."""
    for path, key in result.report.files.items():
        document = state.at(path)
        if key not in (keys_on_disk(path) if document is None else keys_of(document.source.text)):
            return False
    return result.key.path in result.report.files


class VerifiedResults:
    """Keeps the last results of verifications."""

    def __init__(self, state: State, intake: ResultIntake) -> None:
        """Start without results."""
        self._state = state
        self._intake = intake
        self._results: collections.deque[CaptureResult] = collections.deque(maxlen=MOST_RESULTS)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._results)

    async def keep(self, before: CaptureResult, report: Report, texts: dict[str, str]) -> None:
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
        text = current_text(self._state, path) if kept else None
        now = keys_of(text) if text is not None else frozenset()
        for result in kept:
            if result.report.files[path] not in now:
                continue
            shown = self._state.captures.get(result.key)
            is_replaced = shown is None or (shown is not result and shown.stale)
            if is_replaced and has_its_texts(self._state, result):
                for file in list(result.changed_files):
                    result.mark_current(file)
                result.generation = max(result.generation, shown.generation if shown is not None else 0)
                self._intake.show_again(result)
