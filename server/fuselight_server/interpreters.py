"""Which interpreter has the user's torch: the ladder of the command line, and of editors that name none.

Invariant: the choice always comes with its reason, which every message about the interpreter repeats.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class InterpreterChoice:
    """An interpreter and why it was taken."""

    executable: str
    why: str


class NoInterpreterError(Exception):
    """No interpreter can be used; the message says what was looked at and what to do."""


def choose(named: str | None, project: Path, environ: Mapping[str, str]) -> InterpreterChoice:
    """The first rung that names an interpreter that exists. Raises NoInterpreterError."""
    if named is not None:
        found = shutil.which(named) or (str(Path(named).absolute()) if _runs(Path(named)) else None)
        if found is None:
            raise NoInterpreterError(
                f"--python {named}: there is no such program. Give the path of a Python with torch."
            )
        return InterpreterChoice(found, "--python")
    found_first = first(project, environ, active_first=True)
    if found_first is not None:
        return found_first
    raise NoInterpreterError(
        "no Python was found (looked at VIRTUAL_ENV, CONDA_PREFIX, .venv, and python3 on PATH). "
        "Name one that has torch with --python PATH."
    )


def first(project: Path, environ: Mapping[str, str], *, active_first: bool) -> InterpreterChoice | None:
    """The first interpreter of the ladder; None where there is not even a Python.

    `active_first`: whether the environment that is active goes before the project's own. It does in a terminal, where
    the user has just activated it; what was active when an editor was started says less than the folder does.
    """
    groups = [_active(environ), _own(project)]
    ladder = itertools.chain(*(groups if active_first else reversed(groups)), _last())
    return next(ladder, None)


def _active(environ: Mapping[str, str]) -> Iterator[InterpreterChoice]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        python = _python_of(Path(folder)) if folder else None
        if python is not None:
            yield InterpreterChoice(python, variable)


def _own(project: Path) -> Iterator[InterpreterChoice]:
    for folder_name in (".venv", "venv"):
        python = _python_of(project / folder_name)
        if python is not None:
            yield InterpreterChoice(python, f"the {folder_name} of {project}")


def _last() -> Iterator[InterpreterChoice]:
    if importlib.util.find_spec("torch") is not None:
        yield InterpreterChoice(sys.executable, "the torch of the Python that runs fuselight")
    found = shutil.which("python3") or shutil.which("python")
    if found is not None:
        yield InterpreterChoice(found, "python3 on PATH")


def _python_of(folder: Path) -> str | None:
    """The interpreter of an environment; its own path, not what it links to, which would lose the environment."""
    for name in ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe"):
        path = folder / name
        if _runs(path):
            return str(path.absolute())
    return None


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
