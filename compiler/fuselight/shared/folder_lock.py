"""A lock on a folder, for processes that read a file in it and write it again.

Invariant: the lock leaves no file in the folder, and a process that was killed leaves no lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from fuselight.shared.foreign_files import open_to_append

LOCK_SECONDS = 10.0
"""Longest wait for a process that writes; writing takes milliseconds."""

_fcntl: Any = importlib.import_module("fcntl") if sys.platform != "win32" else None
_msvcrt: Any = importlib.import_module("msvcrt") if sys.platform == "win32" else None


@contextlib.contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Within the block, no other process is in such a block for the same folder, unless locks do not work there."""
    with _opened_lock(folder) as handle:
        if handle is not None:
            _wait_for_lock(handle)
        yield


@contextlib.contextmanager
def tried_lock(folder: str) -> Iterator[bool]:
    """As `locked_folder`, for work that takes minutes: it waits for nobody, and gives whether the folder is free."""
    with _opened_lock(folder) as handle:
        yield handle is None or try_lock(handle)


@contextlib.contextmanager
def _opened_lock(folder: str) -> Iterator[int | None]:
    handle = None
    with contextlib.suppress(OSError):  # a missing folder is reported where the file is written
        handle = _open_lock(folder)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)  # which unlocks it


def _open_lock(folder: str) -> int:
    """Open what processes lock for a folder: itself; a temporary file where folders cannot be locked."""
    if _fcntl is not None:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    name = hashlib.sha256(os.path.normcase(os.path.realpath(folder)).encode(errors="replace")).hexdigest()[
        :16
    ]
    with open_to_append(os.path.join(tempfile.gettempdir(), f"fuselight-{name}.lock")) as file:
        return os.dup(file.fileno())


def _wait_for_lock(handle: int) -> None:
    """Lock a file or folder, or go on without it: after `LOCK_SECONDS`, or where locks do not work."""
    end = time.monotonic() + LOCK_SECONDS
    while not try_lock(handle):
        if time.monotonic() > end:
            return
        time.sleep(0.01)


def try_lock(handle: int) -> bool:
    """Lock a file or folder until it is closed, unless another process has it; true where locks do not work."""
    try:
        if _fcntl is not None:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif _msvcrt is not None:
            _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):  # another process has it; Windows refuses it in the second way
        return False
    except OSError:  # a file system without locks
        return True
    return True
