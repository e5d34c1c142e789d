"""What a server's face is told, for tests that draw nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fuselight_server.session.ui import Question


class RecordedUi:
    """Tells that a run began, moved or ended, and that something is shown; nobody is to be asked or told anything."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.said_is_wrong = True
        """Whether a message to the user fails the test."""
        self.moved = asyncio.Event()
        self.drawn = asyncio.Event()

    def findings_changed(self, paths: Iterable[str]) -> None: ...

    def results_changed(self, paths: Iterable[str]) -> None:
        self.shown += paths
        self.drawn.set()

    def runs_changed(self) -> None:
        self.moved.set()

    def say(self, text: str, *, error: bool) -> None:
        assert not self.said_is_wrong, (text, error)

    async def offer(self, text: str, actions: tuple[str, ...]) -> str | None:
        """Nobody presses a button."""

    async def confirm(self, question: Question) -> str:
        raise AssertionError(question)
