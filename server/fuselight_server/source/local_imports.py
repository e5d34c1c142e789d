"""The modules of its project that a Python file imports, directly or not, read without running anything.

Invariant: only files in the given folders are found; installed packages are not followed. An import counts wherever it
is written, in a function or under a condition. A name that is computed (`importlib.import_module`) is not found.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.report import is_user_file
from fuselight_server.source.syntax import imported_names

_INIT = "__init__.py"


@dataclass(frozen=True)
class _Source:
    digest: str
    names: tuple[str, ...]
    """What it imports, as written: dotted, with dots in front where relative."""


@dataclass
class LocalImports:
    """Reads each file once, for all the files whose imports are asked for."""

    _sources: dict[str, _Source] = field(default_factory=dict)
    _files: dict[tuple[str, str], str] = field(default_factory=dict)

    def digests(self, path: str, folders: Sequence[str]) -> Mapping[str, str]:
        """Dotted name of each module that the file imports, to a digest of its text. The file is left out.

        `folders`: where imports are looked for after the folder of the file itself.
        """
        return {name: self._source(file).digest for name, file in self.files(path, folders).items()}

    def files(self, path: str, folders: Sequence[str]) -> Mapping[str, str]:
        """Dotted name of each module that the file imports, to its file; as in `digests`."""
        package, own = _package_of(Path(path))
        files: dict[str, str] = {}
        waiting = [package, *_absolute(self._source(path).names, package)]
        seen: set[str] = set()
        while waiting:
            for module in _with_parents(waiting.pop()):
                if module in seen:
                    continue
                seen.add(module)
                file = self._file(module, own, folders)
                if not file or file == path:
                    continue
                source = self._source(file)
                files[module] = file
                inside = module if file.endswith(_INIT) else module.rpartition(".")[0]
                waiting += _absolute(source.names, inside)
        return files

    def _file(self, module: str, own: str, folders: Sequence[str]) -> str:
        """The file of a module; empty where it is not in the folders."""
        top = module.partition(".")[0]
        if top == "torch":
            return ""
        # Python's own modules come before the project's folders, but after the folder of the file.
        places = [own] if top in sys.stdlib_module_names else [own, *folders]
        return next(filter(None, (self._file_in(place, module) for place in places)), "")

    def _file_in(self, place: str, module: str) -> str:
        known = self._files.get((place, module))
        if known is None:
            base = Path(place, *module.split("."))
            files = (base / _INIT, base.with_name(f"{base.name}.py"))
            known = next((str(file) for file in files if file.is_file()), "")
            self._files[place, module] = known
        return known

    def _source(self, path: str) -> _Source:
        if path not in self._sources:
            try:
                data = read_regular(path)
            except OSError as error:
                self._sources[path] = _Source(f"unreadable: {error.strerror}", ())
            else:
                digest = hashlib.sha256(data).hexdigest()
                self._sources[path] = _Source(digest, imported_names(data.replace(b"\r\n", b"\n")))
        return self._sources[path]


def import_folders(roots: Sequence[str]) -> list[str]:
    """Folders of projects in which the worker finds imports: each root, its `src`, and what PYTHONPATH names in it."""
    places = [place for root in roots for place in (root, str(Path(root, "src")))]
    for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        place = str(Path(entry).absolute())
        if entry and (place in places or is_user_file(place, roots)):
            places.insert(0, place)
    return list(dict.fromkeys(places))


def _package_of(path: Path) -> tuple[str, str]:
    """The dotted package that a file is in, and the folder that Python searches first for its imports."""
    folder, parts = path.parent, []
    while (folder / _INIT).is_file() and folder.parent != folder:
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts)), str(folder)


def _absolute(names: Sequence[str], package: str) -> Iterator[str]:
    """The dotted names without dots in front, as seen from a package."""
    for name in names:
        rest = name.lstrip(".")
        dots = len(name) - len(rest)
        parts = package.split(".") if dots and package else []
        kept = parts[: max(len(parts) - dots + 1, 0)]
        yield ".".join([*kept, rest] if rest else kept)


def _with_parents(name: str) -> Iterator[str]:
    """`a`, `a.b`, `a.b.c`: importing a module imports the packages that it is in."""
    parts = name.split(".")
    for count, part in enumerate(parts, 1):
        if not part.isidentifier():
            return
        yield ".".join(parts[:count])
