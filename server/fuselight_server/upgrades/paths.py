"""The path that both sides use for a file, and which installed packages differ.

Invariant: lines of a package are comparable only if both sides have the same version of it. The lines of torch never
are.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TORCH = "torch"

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_DISTRIBUTION = re.compile(r"(?P<name>[\w.]+?)-(?P<version>\d[^-]*)\.dist-info")
_STANDARD = re.compile(r".*/lib/python3\.\d+/")


def common_path(path: str) -> str:
    """`site-packages/torch/nn/modules/linear.py` of an installed file; any other path as it is."""
    text, is_installed = _PACKAGES.subn("site-packages/", path, count=1)
    return text if is_installed else _STANDARD.sub("lib/python/", path, count=1)


def package_of(path: str) -> str | None:
    """`transformers` of a file of an installed package, in any form; None of any other file."""
    head, _, rest = common_path(path).partition("site-packages/")
    return rest.partition("/")[0].removesuffix(".py") if rest and not head else None


def installed_versions(folders: Iterable[str]) -> dict[str, str]:
    """The version of each package in folders of installed packages, by name; the first folder that has it counts."""
    versions: dict[str, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            for entry in sorted(Path(folder).iterdir()):
                match = _DISTRIBUTION.fullmatch(entry.name)
                if match is not None:
                    versions.setdefault(match["name"].lower().replace(".", "_"), match["version"])
    return versions


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
