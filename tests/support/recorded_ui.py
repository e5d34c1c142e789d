"""A user interface that records what the session reports to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fuselight_server.editor.session.ui import Question


class RecordedUi:
    """Sets events when runs or results change. A message or a question fails the test."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.messages_fail = True
        """Whether a message to the user fails the test."""
        self.moved = asyncio.Event()
        self.drawn = asyncio.Event()

    def findings_changed(self, paths: Iterable[str]) -> None: ...

    def results_changed(self, paths: Iterable[str]) -> None:
        self.shown += paths
        self.drawn.set()

    def refresh_lenses(self) -> None: ...

    def runs_changed(self) -> None:
        self.moved.set()

    def say(self, text: str, *, error: bool) -> None:
        assert not self.messages_fail, (text, error)

    async def offer(self, text: str, actions: tuple[str, ...]) -> str | None:
        """Press no button."""

    async def confirm(self, question: Question) -> str:
        raise AssertionError(question)
