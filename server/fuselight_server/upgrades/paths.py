"""The path that both sides use for a file, and which installed packages differ.

Invariant: lines of a package are comparable only if both sides have the same version of it. The lines of torch never
are.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        """`transformers` of a file of an installed package, in any form; None of any other file."""
        head, _, rest = self.common(path).partition("site-packages/")
        return rest.partition("/")[0].removesuffix(".py") if rest and not head else None


STANDARD_PATHS = InstalledPaths()
"""With folders of the standard names alone."""


def installed_versions(folders: Iterable[str]) -> dict[str, str]:
    """The version of each package in folders of installed packages; the first folder that has it counts.

    By the name of its distribution and by those that are imported: `pillow` and `pil`.
    """
    versions: dict[str, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in sorted(Path(folder).iterdir()):
                match = _DISTRIBUTION.fullmatch(entry.name)
                if match is not None:
                    for name in (match["name"].replace(".", "_"), *_imported_names(entry)):
                        versions.setdefault(name.lower(), match["version"])
    return versions


def _imported_names(distribution: Path) -> set[str]:
    """The top-level names that a distribution says it has; empty where it says none."""
    for file in ("top_level.txt", "RECORD"):
        with (
            contextlib.suppress(OSError, UnicodeDecodeError),
            (distribution / file).open(encoding="utf-8") as lines,
        ):
            return {name[0] for line in lines if (name := _TOP_LEVEL.match(line)) is not None}
    return set()


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
