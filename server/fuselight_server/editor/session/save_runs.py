"""Runs that a save causes: of the file's targets, and of those whose last run used the file.

Invariant: which files a run uses is known only at its end. A file that is saved with another text during the run
makes the target run again after it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING

from fuselight.shared.report import Tier
from fuselight_server.editor.session.program_reports import PROGRAM
from fuselight_server.editor.session.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from fuselight_server.editor.session.run_requests import RunRequests
    from fuselight_server.editor.session.state import State
    from fuselight_server.editor.session.target_runs import TargetRuns
    from fuselight_server.editor.session.throttle import RunThrottle
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.execution.runs.queue import Runs


class SaveRuns:
    """Requests runs after saves."""

    def __init__(
        self, state: State, runs: Runs, *, targets: TargetRuns, requests: RunRequests, throttle: RunThrottle
    ) -> None:
        self._state, self._runs = state, runs
        self._targets, self._requests, self._throttle = targets, requests, throttle
        self._saved_meanwhile: dict[Key, dict[str, bool]] = {}
        """Files that were saved during each run in flight, and whether by the editor itself."""

    def saved(self, path: str, *, automatic: bool, later: Callable[[], None]) -> None:
        """Run the targets of a saved file, and those whose last run used it, if the settings say so.

        `later` is called once an automatic save that came too soon is due.
        """
        if self._state.folder_of(path).settings.run != "save":
            return
        self.note(path, automatic=automatic)
        if automatic and not self._throttle.is_due(path, later):
            return
        compiled = self._targets.compiled(path)
        self.run_after_save(path, compiled, Trigger("saved", automatic=True, supersede=not automatic))

    def note(self, path: str, *, automatic: bool) -> None:
        """Note a save for the runs in flight, which may use the file."""
        for key in self._runs.in_flight:
            if key.tier is Tier.CAPTURE:
                self._saved_meanwhile.setdefault(key, {})[path] = automatic

    def keep_for(self, running: Container[Key]) -> None:
        """Keep the saves noted for the runs of `running` alone."""
        self._saved_meanwhile = {key: saved for key, saved in self._saved_meanwhile.items() if key in running}

    def run_after_save(self, path: str, compiled: tuple[Key, ...], trigger: Trigger) -> None:
        """Run these targets of a file that was saved, and again the targets whose last run used the file."""
        asked: dict[str, dict[Key, None]] = {path: dict.fromkeys(compiled)}
        for key in self.used_by_last_run(path):
            name = self._targets.name_now(key)
            if name is not None:
                asked.setdefault(key.path, {})[dataclasses.replace(key, name=name)] = None
        for file, keys in asked.items():
            self._request(path, file, tuple(keys), trigger)

    def run_again(self, key: Key) -> None:
        """Run a target again if a file that its run used was saved with another text during the run."""
        result = self._state.captures.get(key)
        for path, automatic in self._saved_meanwhile.pop(key, {}).items():
            is_used = (
                result is not None and path in result.changed_files and key in self.used_by_last_run(path)
            )
            if not is_used or key in self._runs.queue.waiting:
                continue
            again = functools.partial(
                self._request, path, key.path, (key,), Trigger("saved during the run", automatic=True)
            )
            if not automatic or self._throttle.is_due(path, again):
                again()

    def used_by_last_run(self, path: str) -> list[Key]:
        """Return the targets whose last run used a file, as far as the setting `runScope` reaches."""
        return [
            key
            for key, result in self._state.captures.items()
            if result.uses(path)
            and key.name != PROGRAM
            and (
                key.path == path
                or (scope := self._state.folder_of(key.path).settings.run_scope) == "workspace"
                or (scope == "openFiles" and self._state.at(key.path) is not None)
            )
        ]

    def _request(self, path: str, file: str, keys: tuple[Key, ...], trigger: Trigger) -> None:
        """Queue the runs of `keys`, targets of `file`, after a save of the file at `path`."""
        settings = self._state.folder_of(file).settings
        if settings.run != "save" or not keys:
            return
        self._throttle.began(path)
        tiers = (Tier.CAPTURE, Tier.KERNELS) if settings.kernels.when == "onSave" else (Tier.CAPTURE,)
        name = "" if file == path else f"{os.path.basename(path)} "  # noqa: PTH119 - paths stay text
        self._requests.request(
            tuple(dataclasses.replace(key, tier=tier) for tier in tiers for key in keys),
            dataclasses.replace(trigger, cause=f"{name}{trigger.cause}"),
        )
