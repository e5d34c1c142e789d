"""Reads the failed tests of each folder, which the pytest plugin has left.

Invariant: read in a trusted workspace only: a file that came with the folder can claim anything about any file.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fuselight_server.commands.compile_tests import read_failed

if TYPE_CHECKING:
    from fuselight_server.base.store import Store
    from fuselight_server.editor.session.state import State


class FailedTestReader:
    """Reads and shows them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._reading: dict[str, object] = {}
        """The latest reading of each store: an older one is dropped."""

    async def load(self, store: Store) -> None:
        """Show the failed tests of a store in place of those that it had before."""
        if not self._state.trusted:
            return
        folder = str(store.folder)
        mine = self._reading[folder] = object()
        tests = await asyncio.to_thread(read_failed, store)
        if self._reading[folder] is mine:
            self._state.accept_failed_tests(folder, tests)
