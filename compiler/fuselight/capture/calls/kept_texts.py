"""The texts of files that the processes of one measurement have read, so that all of them run the same.

The user may save while a search runs for minutes: a process that starts later must not run what was saved since.
Invariant: of several processes that read a file for the first time, all get the text of one of them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable

from fuselight.shared.report import data_key


def kept_text(folder: str, path: str, read: Callable[[], bytes]) -> bytes:
    """The text of the file at `path` as the first process got it from `read`. Raises what `read` raises."""
    place = os.path.join(folder, data_key(os.fsencode(path)))
    with contextlib.suppress(OSError):
        return _read(place)
    data = read()
    with contextlib.suppress(OSError):  # no room: each process has the text of its own time
        return _kept(folder, place, data)
    return data


def _kept(folder: str, place: str, data: bytes) -> bytes:
    """Keep a text unless another process has kept one; returns the one that is kept. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    descriptor, written = tempfile.mkstemp(dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        with contextlib.suppress(FileExistsError):
            os.link(written, place)  # unlike a rename, it replaces nothing
        return _read(place)
    finally:
        os.unlink(written)


def _read(place: str) -> bytes:
    with open(place, "rb") as file:
        return file.read()
