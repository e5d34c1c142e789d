"""Which files of a project a sweep sends to other machines, and their copies.

Invariant: a file is sent only if version control tracks it, the suite names it, or such a named file imports it. A link
is not followed out of the project, and nothing of a repository runs: git is asked with its hooks turned off.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from fuselight.shared.foreign_files import open_regular
from fuselight_server.base.files import within
from fuselight_server.base.formatting import format_count, format_first
from fuselight_server.base.git import ask_git
from fuselight_server.source.local_imports import LocalImports, import_folders

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "artifacts"})
_SHOWN = 12
"""Names of files in a sentence."""


@dataclass(frozen=True)
class Upload:
    """The files of one project that are sent."""

    root: str
    files: tuple[tuple[str, str], ...]
    """Name below the root, and where its bytes are: elsewhere in the project for a link."""
    left_out: tuple[str, ...] = ()
    """Names of links that are not followed."""
    size: int = 0
    """Bytes of all files."""

    def sentence(self, where: str) -> str:
        """What is sent, for the user."""
        size = f"{self.size / 2**20:.1f} MB" if self.size >= 2**20 else f"{self.size / 2**10:.1f} kB"
        names = _listed([name for name, _ in self.files])
        text = f"sending {format_count(len(self.files), 'file')} ({size}) of {self.root} to {where}: {names}"
        if self.left_out:
            text += f". Links that leave what is sent stay here: {_listed(self.left_out)}"
        return text

    def copy_to(self, target: Path) -> None:
        """Copy the files to a folder. Raises OSError."""
        target.mkdir(parents=True, exist_ok=True)
        for name, source in self.files:
            there = target / name
            there.parent.mkdir(parents=True, exist_ok=True)
            with open_regular(source, follow_link=False) as read, there.open("xb") as written:
                shutil.copyfileobj(read, written)


def upload_of(root: str, named: Iterable[str]) -> Upload:
    """What is sent of the project at `root` for the files that the suite names."""
    wanted = dict.fromkeys((*_named(root, named), *filter(_is_sent, _tracked(root))))
    top = os.path.realpath(root)
    files: list[tuple[str, str]] = []
    left_out: list[str] = []
    size = 0
    for name in sorted(wanted):
        real = os.path.realpath(os.path.join(top, name))  # noqa: PTH118 - a name as git writes it
        if not os.path.isfile(real):  # noqa: PTH113 - removed since, a folder, a pipe
            continue
        if not within(real, top) or os.path.relpath(real, top) not in wanted:
            left_out.append(name)
            continue
        size += Path(real).stat().st_size
        files.append((name, real))
    return Upload(root, tuple(files), tuple(left_out), size)


def _named(root: str, named: Iterable[str]) -> Iterator[str]:
    """The files of a suite below a root, and the modules of the project that they import."""
    imports, folders = LocalImports(), import_folders([root])
    for path in named:
        for file in (path, *imports.files(path, folders).values()):
            if within(file, root):
                yield os.path.relpath(file, root)
            elif within(os.path.realpath(file), os.path.realpath(root)):  # named by way of a link
                yield os.path.relpath(os.path.realpath(file), os.path.realpath(root))


def _tracked(root: str) -> list[str]:
    """What git tracks below a folder; nothing where it does not answer."""
    try:
        names = ask_git(root, "ls-files", "-z")
    except OSError:
        return []
    return [os.fsdecode(name) for name in names.split(b"\0") if name]


def _is_sent(name: str) -> bool:
    """Whether a tracked file is the project's own: neither hidden nor installed."""
    parts = PurePath(name).parts
    return not _SKIPPED.intersection(parts[:-1]) and not any(part.startswith(".") for part in parts)


def _listed(names: Iterable[str]) -> str:
    return format_first(list(names), _SHOWN)
