"""Classes that a file imports from other files of its project, read without running anything.

Invariant: only small regular files are read, and a lookup ends after a few files, so a keystroke never waits for it.
"""

from __future__ import annotations

import dataclasses
import functools
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight_server.source.chunks import Memory, cut
from fuselight_server.source.names import ImportedClass, Names, collect
from fuselight_server.source.syntax import read_chunk

_LARGEST = 1_000_000
"""Bytes of a file that is read."""
_UP = 6
"""Folders above the importing file in which an absolute import is looked for."""
_INSTALLED = frozenset({"torch", *sys.stdlib_module_names})
_HOPS = 6
"""Files that one lookup follows: a base class of a base class, or a name that a package re-exports."""


@dataclass
class ImportedClasses:
    """What the file at `path` imports: `models.base.Net` or `.base.Net` to the class, None where it is unknown."""

    path: str
    _classes: dict[str, ImportedClass] = field(default_factory=dict)

    def __call__(self, full: str) -> ImportedClass | None:
        """Look up one name."""
        imported_class = _find(Path(self.path), full, _HOPS)
        if imported_class is not None:
            self._classes[full] = imported_class
        return imported_class

    def are_stale(self) -> bool:
        """Whether an answer that was given is no longer the answer."""
        return any(_find(Path(self.path), full, _HOPS) != owner for full, owner in self._classes.items())


def _find(importer: Path, full: str, hops: int) -> ImportedClass | None:
    module, _, name = full.rpartition(".")
    if hops == 0 or not name or module.partition(".")[0] in _INSTALLED:
        return None
    for file in module_files(importer, module):
        names = _names_in(file)
        if names is None:
            continue
        scope = (name,)
        if scope not in names.classes:
            return _find(file, names.full(name, ()), hops - 1)
        names = dataclasses.replace(
            names, imported_class=functools.partial(_find, file, hops=hops - 1), _modules={}
        )
        return ImportedClass(names.is_module(scope), names.forward(scope))
    return None


def module_files(importer: Path, module: str) -> Iterator[Path]:
    """Files that the dotted `module` may name, as seen from the importing file."""
    dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.split(".") if part]
    if dots:
        folders = [importer.parents[dots - 1]] if dots <= len(importer.parents) else []
    else:
        folders = [folder / inside for folder in importer.parents[:_UP] for inside in ("", "src")]
    for folder in folders:
        place = folder.joinpath(*parts)
        if parts:
            yield place.with_name(f"{place.name}.py")
        yield place / "__init__.py"


def _names_in(file: Path) -> Names | None:
    try:
        status = file.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        return None
    return _read(file, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=256)
def _read(file: Path, _changed: int, _size: int) -> Names | None:
    try:
        data = read_regular(file, _LARGEST)
    except OSError:
        return None
    return collect(read_chunk(piece) for piece in cut(data.replace(b"\r\n", b"\n"), Memory()))
