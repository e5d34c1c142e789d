"""The path that both sides use for a file, and which installed packages differ.

Invariant: lines of a package are comparable only if both sides have the same version of it. The lines of torch never
are.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.foreign_files import read_regular

TORCH = "torch"

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_DISTRIBUTION = re.compile(r"(?P<name>[\w.]+?)-(?P<version>\d[^-]*)\.dist-info")
_TOP_LEVEL = re.compile(r"\w+(?=/|\.py,|\s*$)")
_STANDARD = re.compile(r".*/lib/python3\.\d+/")


@dataclass(frozen=True)
class InstalledPaths:
    """Tells the files of installed packages from all others."""

    folders: frozenset[str] = frozenset()
    """Where packages are installed on either side: also folders with other names, which a `.pth` file may add."""
    namespaces: frozenset[str] = frozenset()
    """As in `InstalledPackages`."""

    def common(self, path: str) -> str:
        """`site-packages/torch/nn/modules/linear.py` of an installed file; any other path as it is."""
        text, is_installed = _PACKAGES.subn("site-packages/", path, count=1)
        if is_installed:
            return text
        folder = max((each for each in self.folders if path.startswith(f"{each}/")), key=len, default=None)
        if folder is not None:
            return f"site-packages/{path[len(folder) + 1 :]}"
        return _STANDARD.sub("lib/python/", path, count=1)

    def package(self, path: str) -> str | None:
        """`transformers` of a file of an installed package, in any form; None of any other file.

        Of a namespace it is the part: `google.auth`.
        """
        head, _, rest = self.common(path).partition("site-packages/")
        return part_of(rest.removesuffix(".py").split("/"), self.namespaces) if rest and not head else None


STANDARD_PATHS = InstalledPaths()
"""With folders of the standard names alone."""


@dataclass(frozen=True)
class _Distribution:
    """A distribution in a folder of packages."""

    name: str
    version: str
    folder: Path
    top: frozenset[str]
    """Top-level names that can be imported; empty where it says none."""

    def modules(self) -> Iterator[tuple[str, ...]]:
        """The path of each of its Python files, by its parts without endings."""
        for line in _lines_of(self.folder / "RECORD"):
            path, is_python, _ = line.partition(".py,")
            if is_python:
                yield tuple(path.lower().split("/"))


@dataclass(frozen=True)
class InstalledPackages:
    """What both sides have installed."""

    namespaces: frozenset[str] = frozenset()
    """Packages that several distributions share, as `google` and `google.cloud`: each has parts of it."""
    versions: tuple[dict[str, str], dict[str, str]] = ({}, {})
    """On either side, by the name of a distribution and by those that are imported: `pillow`, `pil`, `google.auth`."""


def installed_packages(before: Iterable[str], after: Iterable[str]) -> InstalledPackages:
    """The packages in folders of installed packages; the first folder that has one counts."""
    sides = [list(_distributions(folders)) for folders in (before, after)]
    owners: dict[str, set[str]] = defaultdict(set)
    for distribution in (*sides[0], *sides[1]):
        for name in distribution.top:
            owners[name].add(distribution.name)
    shared = {name for name, names in owners.items() if len(names) > 1}
    modules = {
        id(distribution): list(distribution.modules())
        for distribution in (*sides[0], *sides[1])
        if not shared.isdisjoint(distribution.top)
    }
    parts: dict[str, set[str]] = defaultdict(set)
    for distribution in (*sides[0], *sides[1]):
        for path in modules.get(id(distribution), ()):
            for depth in range(1, len(path) + 1):
                parts[".".join(path[:depth])].add(distribution.name)
    namespaces = frozenset(name for name, names in parts.items() if len(names) > 1)
    versions: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for side, known in zip(sides, versions, strict=True):
        for distribution in side:
            names = {part_of(path, namespaces) for path in modules.get(id(distribution), ())}
            for name in {distribution.name, *((names | distribution.top) - namespaces)}:
                known.setdefault(name, distribution.version)
    return InstalledPackages(namespaces, versions)


def part_of(path: Sequence[str], namespaces: Collection[str]) -> str:
    """The package of a file, or the part of a namespace that it is in: `google.auth` of `google/auth/jwt`."""
    depth = 1
    while depth < len(path) and ".".join(path[:depth]).lower() in namespaces:
        depth += 1
    return ".".join(path[:depth])


def _distributions(folders: Iterable[str]) -> Iterator[_Distribution]:
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in sorted(Path(folder).iterdir()):
                match = _DISTRIBUTION.fullmatch(entry.name)
                if match is not None:
                    name = match["name"].replace(".", "_").lower()
                    yield _Distribution(name, match["version"], entry, frozenset(_imported_names(entry)))


def _imported_names(distribution: Path) -> set[str]:
    """The top-level names that a distribution says it has, in small letters; empty where it says none."""
    for file in ("top_level.txt", "RECORD"):
        if lines := _lines_of(distribution / file):
            return {name[0].lower() for line in lines if (name := _TOP_LEVEL.match(line)) is not None}
    return set()


def _lines_of(path: Path) -> list[str]:
    """The lines of a file of a distribution; none where it cannot be read."""
    try:
        return read_regular(path).decode("utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        return []


def differing_packages(
    used: Iterable[str], before: dict[str, str], after: dict[str, str]
) -> dict[str, tuple[str, str]]:
    """The packages of which the sides have two versions, torch left out, with both."""
    return {
        name: (before[name.lower()], after[name.lower()])
        for name in sorted(used)
        if name != TORCH
        and name.lower() in before
        and name.lower() in after
        and before[name.lower()] != after[name.lower()]
    }
