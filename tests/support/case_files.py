"""Shared by the annotated cases: their release of torch, their files, and the selection of cases."""

from __future__ import annotations

import importlib.metadata
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest


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
