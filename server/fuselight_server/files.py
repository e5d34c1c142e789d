"""Files as an editor reads them: their text, their lines, and whether one lies within another.

Invariant: only regular files of a bounded size are read, so that a pipe or a device cannot hang a process or fill its
memory. The cache of lines has a bound.
"""

from __future__ import annotations

import collections
import errno
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_END = re.compile(r"\r\n|\n|\r")
_DISK: collections.OrderedDict[str, tuple[tuple[int, int], list[str]]] = collections.OrderedDict()
_DISK_FILES = 64
SOURCE_BYTES = 64 * 1024 * 1024
"""The largest source file that is read."""
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"}
)  # and everything that starts with a dot


def open_regular(path: str | Path, *, follow_link: bool = True) -> BinaryIO:
    """Open a regular file for reading. Raises OSError for anything else: a pipe, a device, a folder."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | (0 if follow_link else getattr(os, "O_NOFOLLOW", 0)))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_regular(path: str | Path, limit: int = SOURCE_BYTES, *, follow_link: bool = True) -> bytes:
    """Read a regular file of at most `limit` bytes. Raises OSError for any other."""
    with open_regular(path, follow_link=follow_link) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return data


def disk_lines(path: str) -> list[str]:
    """Lines of a file on disk, kept until its time or size changes; empty when it cannot be read."""
    try:
        stat = Path(path).stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        kept = _DISK.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        text = read_regular(path).decode("utf-8-sig", "replace")
        lines = split_text(text)
    except (OSError, ValueError):  # a path with a null byte
        return []
    _DISK[path] = (stamp, lines)
    while len(_DISK) > _DISK_FILES:
        _DISK.popitem(last=False)
    return lines


def split_text(text: str) -> list[str]:
    """Lines as Python and editors count them: a form feed or U+2028 ends none."""
    return _LINE_END.split(text)


def disk_text(path: str) -> str | None:
    """Text of a file on disk as an editor would open it; None when it cannot be read as UTF-8."""
    try:
        return read_regular(path).decode("utf-8-sig")
    except (OSError, ValueError):  # a path with a null byte, or text that is not UTF-8
        return None


def walk_sources(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folders below `folder`, itself first, in a stable order, with the names of all files in each.

    Environments, caches and folders whose name starts with a dot are left out.
    """
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED_FOLDERS
            and not name.startswith(".")
            and not (Path(parent) / name / "pyvenv.cfg").exists()
        )
        yield Path(parent), sorted(names)


def within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/\\") + os.sep)
