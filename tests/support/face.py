"""What a server's face is told, for tests that draw nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fuselight_server.state import Folder


class PlayedFace:
    """Tells that a run began, moved or ended, and that something is shown; nobody is to be asked or told anything."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.moved = asyncio.Event()
        self.drawn = asyncio.Event()

    def findings_changed(self, paths: Iterable[str]) -> None: ...

    def results_changed(self, paths: Iterable[str]) -> None:
        self.shown += paths
        self.drawn.set()

    def runs_changed(self) -> None:
        self.moved.set()

    def say(self, text: str, *, error: bool) -> None:
        raise AssertionError((text, error))

    async def confirm(self, folder: Folder, summary: str, interpreter: str) -> str:
        raise AssertionError((folder, summary, interpreter))
