"""Shared by the annotated cases: their releases of torch, their files, and the selection of cases."""

from __future__ import annotations

import importlib.metadata
import shutil
from typing import TYPE_CHECKING

from fuselight.version import TESTED_TORCH

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest


RELEASES = tuple(f"{major}.{minor}" for major, minor in TESTED_TORCH)
"""The releases of torch for which the cases say what is to come."""
MAIN_RELEASE = "2.13"
"""The one that `make test` runs on."""
RELEASES_NAMED = r"(?:\(([\d., ]+)\))?"
"""A pattern: the releases after the kind of an expectation, none for all of them."""


def releases_of(names: str | None) -> tuple[str, ...]:
    """Read the releases that an expectation names; without names they are all."""
    return tuple(names.split(", ")) if names else RELEASES


def named(releases: tuple[str, ...]) -> str:
    """Write the releases of an expectation."""
    return "" if releases == RELEASES else f"({', '.join(releases)})"


def torch_release() -> str:
    """The first two numbers of the torch that is here, as `2.13`."""
    try:
        return ".".join(importlib.metadata.version("torch").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "no torch"


def copied(cases: Path, files: Iterable[str], folder: Path) -> Path:
    """Make `folder` a project with these files of `cases`."""
    (folder / "pyproject.toml").touch()
    for name in files:
        shutil.copy(cases / name, folder)
    return folder


def selected(request: pytest.FixtureRequest, workspace: Path, files: Iterable[str]) -> tuple[Path, ...]:
    """The files of the tests that were selected, by their parameter `name`; all for a test that has none."""
    items = [item for item in request.session.items if item.path == request.path]
    wanted = {item.callspec.params["name"] if hasattr(item, "callspec") else None for item in items}
    return tuple(workspace / name for name in files if None in wanted or name in wanted)
