"""Which interpreter has the user's torch: the ladder of the command line, and of editors that name none.

Invariant: the choice always comes with its reason, which every message about the interpreter repeats. No interpreter is
started here: what is known of one is read from its files.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.report import Failure
from fuselight.shared.worker_launch import missing_torch, platform_problem, start_failure
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.settings import Interpreter

_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
_ENVIRONMENT_VARIABLE = re.compile(r"\$\{env:([^}]+)\}")
_ISOLATED = re.compile(r"^\s*include-system-site-packages\s*=\s*false\s*$", re.MULTILINE | re.IGNORECASE)
_MAX_TEXT = 1 << 20
_PACKAGES = ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages")


class NoInterpreterError(CommandError):
    """No interpreter can be used; the message says what was looked at and what to do."""


def choose(named: str | None, project: Path, environ: Mapping[str, str]) -> Interpreter:
    """The first rung that names an interpreter that exists. Raises NoInterpreterError."""
    if named is not None:
        path = shutil.which(named) or (str(Path(named).absolute()) if _runs(Path(named)) else None)
        if path is None:
            raise NoInterpreterError(
                f"--python {named}: there is no such program. Give the path of a Python with torch."
            )
        return Interpreter(path, why="--python")
    found_first = first(project, environ, active_first=True)
    if found_first is not None:
        return found_first
    problem = platform_problem(sys.platform)
    if problem is not None:  # a Python would not help there
        raise NoInterpreterError(f"{problem.message}: {problem.next_step}.")
    raise NoInterpreterError(
        "no Python was found (looked at VIRTUAL_ENV, CONDA_PREFIX, .venv, and python3 on PATH). "
        "Name a Python that has torch."
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
    path = shutil.which("python3") or shutil.which("python")
    return Interpreter(path, why="python3 on PATH") if path is not None else None


def expand(text: str, folder: Path, environ: Mapping[str, str]) -> str:
    """The path that a setting names, with what VS Code expands in it; a relative path is one of the folder."""
    filled = text.strip().replace("${workspaceFolder}", str(folder)).replace("${userHome}", "~")
    filled = _ENVIRONMENT_VARIABLE.sub(lambda variable: environ.get(variable[1], ""), filled)
    path = Path(os.path.expanduser(filled))  # noqa: PTH111 - Path.expanduser raises for an unknown user
    return str(folder / path) if len(path.parts) > 1 else filled


def known_problem(executable: str, environ: Mapping[str, str]) -> Failure | None:
    """Why an interpreter can run nothing, where its files alone show that; None where only a start can tell."""
    problem = platform_problem(sys.platform)
    if problem is not None:
        return problem
    if shutil.which(executable) is None and not Path(executable).exists():
        return start_failure(executable, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
    environment = Path(executable).parent.parent
    packages = [folder for pattern in _PACKAGES for folder in environment.glob(pattern)]
    if not _is_isolated(environment):
        return None  # torch may be elsewhere
    on_path = [Path(entry) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    names = {name for folder in (*packages, *on_path) if folder.is_dir() for name in _names_in(folder)}
    return missing_torch(executable) if packages and names.isdisjoint({"torch", "elsewhere"}) else None


def package_folders(executable: Path) -> list[Path]:
    """The folders of an interpreter's packages: those of its environment, then those of the Python that it links to."""
    prefixes = dict.fromkeys((executable.parent.parent, executable.resolve().parent.parent))
    return [folder for prefix in prefixes for pattern in _PACKAGES for folder in sorted(prefix.glob(pattern))]


def _is_isolated(environment: Path) -> bool:
    try:
        return _ISOLATED.search(_read_text(environment / "pyvenv.cfg")) is not None
    except OSError:
        return False


def _names_in(folder: Path) -> Iterator[str]:
    """The distributions and packages of a folder, and `elsewhere` where it adds others to the path."""
    for path in folder.iterdir():
        yield path.name.partition("-")[0].lower()
        if path.name in {"sitecustomize.py", "usercustomize.py"} or (path.suffix == ".pth" and _adds(path)):
            yield "elsewhere"


def _adds(path: Path) -> bool:
    """Whether a `.pth` file adds a folder to the path, or may import torch: its lines with `import` run code."""
    try:
        lines = _read_text(path).splitlines()
    except OSError:
        return True  # nobody knows
    code = "\n".join(line for line in lines if line.startswith(("import ", "import\t")))
    is_path = any(line.strip() and not line.startswith(("#", "import ", "import\t")) for line in lines)
    return is_path or any(word in code for word in ("addsitedir", "sys.path", "torch"))


def _read_text(path: Path) -> str:
    return read_regular(path, _MAX_TEXT).decode("utf-8", "replace")


def python_of(folder: Path) -> str | None:
    """The interpreter of an environment; its own path, not what it links to, which would lose the environment."""
    for name in ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe"):
        path = folder / name
        if _runs(path):
            return str(path.absolute())
    return None


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
