"""Which interpreter has the user's torch: the ladder of the command line, and of editors that name none.

Invariant: the choice always comes with its reason, which every message about the interpreter repeats.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.settings import Interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping


_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


class NoInterpreterError(CommandError):
    """No interpreter can be used; the message says what was looked at and what to do."""


def choose(named: str | None, project: Path, environ: Mapping[str, str]) -> Interpreter:
    """The first rung that names an interpreter that exists. Raises NoInterpreterError."""
    if named is not None:
        version = shutil.which(named) or (str(Path(named).absolute()) if _runs(Path(named)) else None)
        if version is None:
            raise NoInterpreterError(
                f"--python {named}: there is no such program. Give the path of a Python with torch."
            )
        return Interpreter(version, why="--python")
    found_first = first(project, environ, active_first=True)
    if found_first is not None:
        return found_first
    raise NoInterpreterError(
        "no Python was found (looked at VIRTUAL_ENV, CONDA_PREFIX, .venv, and python3 on PATH). "
        "Name one that has torch with --python PATH."
    )


def first(project: Path, environ: Mapping[str, str], *, active_first: bool) -> Interpreter | None:
    """The first interpreter of the ladder; None where there is not even a Python.

    `active_first`: whether the environment that is active goes before the project's own. It does in a terminal, where
    the user has just activated it; what was active when an editor was started says less than the folder does.
    """
    active = [(Path(environ[variable]), variable) for variable in _ACTIVE if environ.get(variable)]
    own = [(project / name, f"the {name} of {project}") for name in (".venv", "venv")]
    for folder, why in (*active, *own) if active_first else (*own, *active):
        python = python_of(folder)
        if python is not None:
            return Interpreter(python, why=why)
    if importlib.util.find_spec("torch") is not None:
        return Interpreter(sys.executable, why="the torch of the Python that runs fuselight")
    version = shutil.which("python3") or shutil.which("python")
    return Interpreter(version, why="python3 on PATH") if version is not None else None


def python_of(folder: Path) -> str | None:
    """The interpreter of an environment; its own path, not what it links to, which would lose the environment."""
    for name in ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe"):
        path = folder / name
        if _runs(path):
            return str(path.absolute())
    return None


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
