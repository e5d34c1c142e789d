"""Delays requested runs: until the settings are known, and to one run in ten seconds for an editor with auto-save.

Invariant: requests that came too early lead to one later run, of the text at that time. Only open files have an entry.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.editor.session.state import State

AUTOSAVE_SECONDS = 10.0
"""Least time between two runs of a file that nobody asked for but an automatic save."""


class PendingUntilConfigured:
    """What is asked for before the settings are known."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], object]] | None = []

    @property
    def over(self) -> bool:
        """Whether they are known."""
        return self._waiting is None

    def keep(self, request: Callable[[], object]) -> bool:
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


class RunThrottle:
    """When the last run of each open file began, and of which text."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._began: dict[str, tuple[float, str]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def began(self, path: str) -> None:
        """Note that a run of the file is asked for now."""
        self._began = {name: began for name, began in self._began.items() if self._state.at(name) is not None}
        document = self._state.at(path)
        if document is not None:
            self._began[path] = (time.monotonic(), document.source.text)

    def is_due(self, path: str, again: Callable[[], None]) -> bool:
        """Whether an automatic save is worth a run now; if it will be later, `again` is called then."""
        document = self._state.at(path)
        began, text = self._began.get(path, (float("-inf"), ""))
        if document is None or document.source.text == text:
            return False
        left = began + AUTOSAVE_SECONDS - time.monotonic()
        if left <= 0:
            return True
        if path not in self._timers:
            self._state.log(f"automatic save of {path}: the next run of it is in {left:.0f} s")

            def later() -> None:
                del self._timers[path]
                again()

            self._timers[path] = asyncio.get_running_loop().call_later(left, later)
        return False

    def close(self) -> None:
        """Call nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
