"""Files that change outside the editor's buffers: watched, renamed, deleted; and the store of `fuselight run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from fuselight_server import convert
from fuselight_server.store import FOLDER, REPORT

if TYPE_CHECKING:
    from fuselight_server.features.server import Server

WATCHED = ("**/*.py", f"**/{FOLDER}/{REPORT}")

PYTHON_FILES = types.FileOperationRegistrationOptions(
    filters=[types.FileOperationFilter(pattern=types.FileOperationPattern(glob="**/*.py"), scheme="file")]
)


def watched_changed(server: Server, params: types.DidChangeWatchedFilesParams) -> None:
    """Answer `workspace/didChangeWatchedFiles`."""
    for event in params.changes:
        path = convert.path(event.uri)
        if path is None:
            continue
        if os.path.basename(path) == REPORT:  # noqa: PTH119 - paths stay text
            folder = server.state.folders.get(str(Path(path).parent.parent))
            if folder is not None:
                server.spawn(server.analysis.load_program(folder), "reading the last run")
        elif event.type == types.FileChangeType.Deleted:
            server.analysis.gone(path)
        elif event.type == types.FileChangeType.Changed:
            server.analysis.changed_on_disk(path)


def renamed(server: Server, params: types.RenameFilesParams) -> None:
    """Answer `workspace/didRenameFiles`: what was found under the old name is run again under the new one."""
    for file in params.files:
        old, new = convert.path(file.old_uri), convert.path(file.new_uri)
        if old is not None:
            server.analysis.gone(old)
        if new is not None and server.state.at(new) is not None:
            server.analysis.saved(new, automatic=True)


def deleted(server: Server, params: types.DeleteFilesParams) -> None:
    """Answer `workspace/didDeleteFiles`."""
    for file in params.files:
        path = convert.path(file.uri)
        if path is not None:
            server.analysis.gone(path)
