"""Files as an editor reads them: their text, their lines, and whether one lies within another.

Invariant: files are read by `fuselight.shared.foreign_files`, so that a pipe or a device cannot hang a process or fill
its memory. The cache of lines has a bound. The text of a notebook is the module of its code cells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.notebooks.module_text import module_of_notebook
from fuselight_server.base.recent import Recent

_LINE_END = re.compile(r"\r\n|\n|\r")
_DISK_FILES = 64
_DISK: Recent[str, tuple[tuple[int, int], list[str]]] = Recent(_DISK_FILES)
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"}
)  # and everything that starts with a dot


def disk_lines(path: str) -> list[str]:
    """Lines of a file on disk, kept until its time or size changes; empty when it cannot be read."""
    try:
        stat = Path(path).stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        kept = _DISK.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        text = read_python(path).decode("utf-8-sig", "replace")
        lines = split_text(text)
    except (OSError, ValueError):  # a path with a null byte
        return []
    _DISK.keep(path, (stamp, lines))
    return lines


def read_python(path: str) -> bytes:
    """Read a file as Python: of a notebook, the module of its cells. Raises OSError, ValueError for no notebook."""
    data = read_regular(path)
    return module_of_notebook(data).encode("utf-8", "surrogatepass") if path.endswith(SUFFIX) else data


def split_text(text: str) -> list[str]:
    """Lines as Python and editors count them: a form feed or U+2028 ends none."""
    return _LINE_END.split(text)


def disk_text(path: str) -> str | None:
    """Text of a file on disk as an editor would open it; None when it cannot be read as UTF-8."""
    try:
        return read_python(path).decode("utf-8-sig")
    except (OSError, ValueError):  # a path with a null byte, or text that is not UTF-8
        return None


_HIDDEN_TOOLS = re.compile(
    r"\.(?:git|hg|svn|bzr|tox|nox|eggs|fuselight|vscode|idea|ipynb_checkpoints|\w*cache\w*|venv.*|env)"
)
"""Folders of tools, none of which has a program's source."""


def walk_sources(folder: Path, *, with_hidden: bool = False) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folders below `folder`, itself first, in a stable order, with the names of all files in each.

    Environments, caches and folders whose name starts with a dot are left out; `with_hidden`: of those that start with
    a dot only the folders of tools.
    """
    for parent, folders, names in os.walk(folder):
        kept = (
            name
            for name in folders
            if name not in _SKIPPED_FOLDERS
            and not (_HIDDEN_TOOLS.fullmatch(name) if with_hidden else name.startswith("."))
            and not (Path(parent) / name / "pyvenv.cfg").exists()
        )
        folders[:] = sorted(kept, key=lambda name: (name.startswith("."), name))
        yield Path(parent), sorted(names)


def leaves(file: Path, folder: Path) -> bool:
    """Whether a file that was found in a folder is a link out of it: what the user named does not include that."""
    return file.is_symlink() and not within(os.path.realpath(file), os.path.realpath(folder))


def within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/\\") + os.sep)
