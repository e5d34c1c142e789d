"""What all parts of a session work with: the state, the user, the queue of runs, edits, and tasks in the background.

Invariant: edits made during a run are applied to its result before the result is shown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from dataclasses import dataclass

from fuselight_server.base.background import BackgroundTasks
from fuselight_server.base.files import within
from fuselight_server.editor.results.target_result import (
    TargetResult,
    compare_with_disk,
    keys_of,
    mark_current,
)
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.ui import Ui
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Runs
from fuselight_server.source.text_changes import Change


class RunEdits:
    """Collects the edits since each run began, and moves its result by them."""

    def __init__(self, state: State) -> None:
        """Start without runs."""
        self._state = state
        self._changes: dict[Key, list[tuple[str, Change | None]]] = {}
        """Edits since each run began; None for a change on the disk of a file that is not open."""
        self._removed: set[Key] = set()
        """Runs in flight whose file was deleted: their results are dropped."""

    def begin(self, key: Key) -> None:
        """Collect edits from now on: the run of `key` sees the text of this moment."""
        self._changes[key] = []
        self._removed.discard(key)

    def collect_for(self, running: Container[Key]) -> None:
        """Collect edits for the runs of `running` alone: a canceled run has no result."""
        self._changes = {key: changes for key, changes in self._changes.items() if key in running}
        self._removed = {key for key in self._removed if key in running}

    def edited(self, path: str, change: Change) -> None:
        """Apply one change of an open document's text."""
        self._state.edit(path, change)
        for changes in self._changes.values():
            changes.append((path, change))

    def opened(self, path: str) -> None:
        """Apply the unsaved text that a file was opened with: results were compared with the file on disk."""
        depends = any(path in target_result.depends for target_result in self._state.results.values())
        if depends or path in self._state.jobs.paths():
            for change in self._state.documents.unsaved_changes(path):
                self.edited(path, change)

    def changed_on_disk(self, path: str) -> None:
        """Compare results with a file that is not open and was written."""
        for changes in self._changes.values():
            changes.append((path, None))
        self._state.compare_with_disk(path)

    def remove_path(self, path: str) -> None:
        """Drop the results of runs of a deleted file or folder."""
        self._removed |= {key for key in self._changes if within(key.path, path)}
        self._state.drop_file(path)

    def drop(self, key: Key) -> None:
        """Collect no more edits for a run, whose result needs none."""
        self._changes.pop(key, None)

    def catch_up(self, result: TargetResult, *, ended: bool) -> bool:
        """Apply to a result the edits since its run began; False where its file is gone. `ended`: collect no more."""
        if result.key in self._removed:
            return False
        changes = self._changes.pop(result.key, []) if ended else self._changes.get(result.key, [])
        for path, change in changes:
            if change is None:
                compare_with_disk([result], path)
            else:
                result.apply_edit(path, change)
        for path in {path for path, _ in changes}:
            document = self._state.documents.at(path)
            if document is not None:
                mark_current([result], path, functools.partial(keys_of, document.source.text))
        return True


class PendingUntilConfigured:
    """What is asked for before the settings are known."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] | None = []

    @property
    def over(self) -> bool:
        """Whether they are known."""
        return self._waiting is None

    def keep_request(self, request: Callable[[], object]) -> bool:
        """Keep `request` until they are; False, and nothing is kept, where they are already."""
        if self._waiting is None:
            return False
        self._waiting.append(request)
        return True

    def end(self) -> None:
        """Go on with what was asked for."""
        waiting, self._waiting = self._waiting or [], None
        for request in waiting:
            request()


@dataclass(frozen=True, eq=False)
class Session:
    """What the parts of a session share. Each part gets it whole, and besides it only the parts that it calls."""

    state: State
    ui: Ui
    runs: Runs
    tasks: BackgroundTasks
    edits: RunEdits
    early: PendingUntilConfigured
    """What is asked for before the client's settings are known."""

    def active(self) -> list[Key]:
        """The runs that wait or are in flight."""
        return [*self.runs.queue.waiting, *self.runs.queue.running]
