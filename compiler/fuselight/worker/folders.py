"""The folder of one host, for the files of its runs.

Invariant: it is closed to others (mode 0700) and named after its process, so that one whose process is gone can go.
User code may delete it, and all of the folder for temporary files: it is then made again, under another name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile


class HostFolder:
    """The folder of this process, made when it is first needed. A fork of this process does not own it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._path: str | None = None

    def new_folder(self, prefix: str) -> str:
        """Make a folder inside. Raises OSError."""
        if self._path is None or not os.path.isdir(self._path):
            self._path = _make()
        return tempfile.mkdtemp(prefix=prefix, dir=self._path)

    def remove(self) -> None:
        """Delete it, in the process that made it alone."""
        if self._path is not None and os.getpid() == self._owner:
            shutil.rmtree(self._path, ignore_errors=True)


def _make() -> str:
    """Make this host's folder (mode 0700), and delete those of hosts that were killed."""
    prefix = f"fuselight-worker-{os.getuid()}-"
    if not os.path.isdir(tempfile.gettempdir()):
        tempfile.tempdir = None  # looks for another one
    parent = tempfile.gettempdir()
    for name in _names_in(parent):
        pid = name.removeprefix(prefix).partition("-")[0]
        if name.startswith(prefix) and pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-")


def _names_in(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
