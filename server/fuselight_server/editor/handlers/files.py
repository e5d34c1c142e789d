"""Files that change outside the editor's buffers: watched, renamed, deleted; and the store of `fuselight run`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from lsprotocol import types

from fuselight_server.base.files import within
from fuselight_server.base.store import FOLDER, REPORT, TESTS, Store
from fuselight_server.editor.handlers.protocol import MEASURED_CHANGED
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import TargetChanged
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.session.state import State
from fuselight_server.explain.benchmarks.history import take_along

_SUFFIXES = (".py", ".ipynb")
_OURS = (REPORT, TESTS)
WATCHERS = [
    *(types.FileSystemWatcher(glob_pattern=f"**/*{suffix}") for suffix in _SUFFIXES),
    *(types.FileSystemWatcher(glob_pattern=f"**/{FOLDER}/{name}") for name in _OURS),
    # A deleted folder is one event, without its files.
    types.FileSystemWatcher(glob_pattern="**/*", kind=types.WatchKind.Delete),
]

PYTHON_FILES = types.FileOperationRegistrationOptions(
    filters=[
        types.FileOperationFilter(pattern=types.FileOperationPattern(glob=glob, matches=kind), scheme="file")
        for glob, kind in (
            ("**/*.py", types.FileOperationPatternKind.File),
            ("**/*.ipynb", types.FileOperationPatternKind.File),
            ("**/*", types.FileOperationPatternKind.Folder),
        )
    ]
)


def watched_changed(server: Server, params: types.DidChangeWatchedFilesParams) -> None:
    """Answer `workspace/didChangeWatchedFiles`."""
    known: set[str] | None = None
    for event in params.changes:
        path = convert.path(event.uri)
        if path is None:
            continue
        is_deleted = event.type == types.FileChangeType.Deleted
        if is_deleted and not path.endswith((*_SUFFIXES, *_OURS)):
            known = known_files(server.state) if known is None else known
            if not any(within(file, path) for file in known):
                continue  # neither a folder with files that matter, nor one of these
        file_changed(server, path, is_deleted=is_deleted)


def known_files(state: State) -> set[str]:
    """The files of results, of failed tests and of open documents."""
    paths = {path for result in state.results.values() for path in (*result.depends, *result.paths())}
    paths |= {document.path for document in state.documents.values() if document.runnable}
    return paths | state.failed_tests.paths()


def file_changed(server: Server, path: str, *, is_deleted: bool) -> None:
    """Take in that a file was written or deleted, perhaps by another program."""
    if os.path.basename(path) == REPORT:  # noqa: PTH119 - paths stay text
        server.spawn(server.analysis.program_reports.load(Store(Path(path).parent)), "reading the last run")
    elif os.path.basename(path) == TESTS:  # noqa: PTH119 - paths stay text
        server.spawn(server.analysis.failed_tests.load(Store(Path(path).parent)), "reading failed tests")
    elif is_deleted and not os.path.exists(path):  # noqa: PTH110 - paths stay text
        server.analysis.documents.remove_path(path)
    else:  # a checkout may take a file away and bring it back
        server.analysis.documents.changed_on_disk(path)


def renamed(server: Server, params: types.RenameFilesParams) -> None:
    """Answer `workspace/didRenameFiles`: targets run again under the new name, and benchmarks move to it."""
    for file in params.files:
        old, new = convert.path(file.old_uri), convert.path(file.new_uri)
        if old is not None:
            server.analysis.documents.remove_path(old)
        if new is None:
            continue
        if old is not None and server.state.trusted:
            server.spawn(_move_benchmarks(server, old, new), "moving benchmarks")
        for document in list(server.state.documents.values()):
            if within(document.path, new):
                server.analysis.saves.saved(document.path, automatic=True)


async def _move_benchmarks(server: Server, old: str, new: str) -> None:
    try:
        moved = await asyncio.to_thread(lambda: list(take_along(old, new)))
    except OSError as error:
        server.state.log(f"benchmarks of {old} stay under its old name: {error.strerror or error}")
        return
    for history in moved:
        where: TargetChanged = {"uri": server.uri_of(history.path), "target": history.target}
        server.announce(MEASURED_CHANGED, where)


def deleted(server: Server, params: types.DeleteFilesParams) -> None:
    """Answer `workspace/didDeleteFiles`."""
    for file in params.files:
        path = convert.path(file.uri)
        if path is not None:
            server.analysis.documents.remove_path(path)
