"""Shared by the annotated cases: their releases of torch, their files, and the selection of cases."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.version import TESTED_TORCH

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path


RELEASES = tuple(f"{major}.{minor}" for major, minor in TESTED_TORCH)
"""The releases of torch for which the cases have expectations."""
MAIN_RELEASE = "2.13"
"""The release that `make test` uses."""
RELEASES_NAMED = r"(?:\(([\d., ]+)\))?"
"""A pattern for the releases after the kind of an expectation; without releases it applies to all."""
_FURTHER = re.compile(r"(?m)^# run by: make corpora$")
"""A line of a program whose kinds of findings other programs have, too: `make test` leaves it out."""


def is_further(program: Path) -> bool:
    """Whether `make corpora` alone runs a program, besides `make test TORCH=`."""
    return _FURTHER.search(program.read_text(encoding="utf-8")) is not None


def cases_of(programs: Iterable[tuple[str, Path]]) -> list[Any]:
    """The parameters of a test that runs once for each name; further programs are marked `corpora`."""
    files = dict(programs)
    return marked(files, {name for name, path in files.items() if is_further(path)})


def marked(values: Iterable[Any], further: Container[Any]) -> list[Any]:
    """The parameters of a test that runs once for each value; the `further` ones are marked `corpora`."""
    return [pytest.param(value, marks=pytest.mark.corpora if value in further else ()) for value in values]


def releases_of(names: str | None) -> tuple[str, ...]:
    """Parse the releases of an expectation; none means all."""
    return tuple(names.split(", ")) if names else RELEASES


def named(releases: tuple[str, ...]) -> str:
    """Format the releases of an expectation."""
    return "" if releases == RELEASES else f"({', '.join(releases)})"


def torch_release() -> str:
    """The major and minor version of the installed torch, such as `2.13`."""
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
    """The files of the selected tests that use the requested fixture, by their parameter `name`.

    All files if no selected test has that parameter.
    """
    items = [item for item in request.session.items if item.path == request.path]
    users = [item for item in items if request.fixturename in getattr(item, "fixturenames", ())]
    wanted = {item.callspec.params["name"] for item in users if hasattr(item, "callspec")}
    return tuple(workspace / name for name in files if not wanted or name in wanted)


def selected_names(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """The values of a parameter in the selected tests of a module, in order: what a fixture has to prepare."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return list(dict.fromkeys(values[parameter] for values in parameters if parameter in values))
