"""Files that change on the disk, for a client that does not report them: looked at every few seconds.

Invariant: only files that a result or an open document depends on are looked at, by their time and size, off the event
loop; a client that watches files costs nothing here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fuselight_server.base.store import REPORT, TESTS, Store
from fuselight_server.editor.handlers.files import file_changed, known_files
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.session.state import State

SECONDS = 2.0
"""Between two looks."""
_MAX = 5000
"""Files that are looked at."""

Stamp = tuple[int, int] | None
"""Time and size of a file; None where there is none."""


@dataclass(frozen=True)
class DiskChange:
    """A file that is not as it was at the last look."""

    path: str
    is_deleted: bool


def watched_paths(state: State) -> list[str]:
    """The files that matter: of results, of open documents, and what `fuselight run` and pytest have left."""
    paths = known_files(state)
    folders = [folder.path for folder in state.folders.values() if folder.uri is not None]
    paths |= {str(Store.at(Path(folder)).folder / name) for folder in folders for name in (REPORT, TESTS)}
    return sorted(path for path in paths if os.path.isabs(path))[:_MAX]  # noqa: PTH117 - paths stay text


def stamps_of(paths: Iterable[str]) -> dict[str, Stamp]:
    """Look at files."""
    return {path: _stamp(path) for path in paths}


def changes(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> list[DiskChange]:
    """What differs between two looks; a file that was not looked at before has not changed."""
    return [
        DiskChange(path, is_deleted=stamp is None)
        for path, stamp in now.items()
        if path in before and before[path] != stamp
    ]


async def poll(server: Server) -> None:
    """Look at the files until the server ends."""
    before: dict[str, Stamp] = {}
    while True:
        now = await asyncio.to_thread(stamps_of, watched_paths(server.state))
        for change in changes(before, now):
            try:
                file_changed(server, change.path, is_deleted=change.is_deleted)
            except Exception as error:  # noqa: BLE001 - the next change is looked at all the same
                server.failed("reading a changed file", error)
        before = now
        await asyncio.sleep(SECONDS)


def _stamp(path: str) -> Stamp:
    try:
        state = os.stat(path)  # noqa: PTH116 - paths stay text
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_size
