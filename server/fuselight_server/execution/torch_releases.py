"""Which interpreter a side of an upgrade means: a path, an environment, or a release of torch that uv installs.

Invariant: nothing is installed and no network is used unless the user asked for it; an installation that did not end is
never used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.version import OLDEST_TORCH
from fuselight.shared.version import release as release_number
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.interpreters import NoInterpreterError, python_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?")
_SIZE = "up to 3 GB"
_COMPLETE = "fuselight-complete"
"""File of an environment whose installation has ended."""
_TAIL = 300


@dataclass(frozen=True)
class TorchRelease:
    """A release of torch in an environment of Fuselight's own."""

    version: str
    folder: Path
    uv: tuple[str, ...] | None
    """The command of uv; None if it is not installed."""

    @property
    def python(self) -> str | None:
        """The interpreter, if the release is installed."""
        return python_of(self.folder) if (self.folder / _COMPLETE).is_file() else None

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """What installs it."""
        uv = self.uv or ("uv",)
        wanted = self.version if self.version.count(".") > 1 else f"{self.version}.*"
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return (
            (*uv, "venv", "--clear", "--python", python, str(self.folder)),
            (*uv, "pip", "install", "--python", str(self.folder), f"torch=={wanted}", "numpy"),
        )


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where Fuselight keeps what it has installed."""
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "fuselight"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fuselight"
    if sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / "fuselight" / "cache"
    return Path.home() / ".cache" / "fuselight"


def find_side(named: str, option: str, environ: Mapping[str, str]) -> Interpreter | TorchRelease:
    """What the user named with an option. Raises NoInterpreterError."""
    path = Path(named)
    if path.is_dir():
        python = python_of(path)
        if python is None:
            raise NoInterpreterError(
                f"`{option} {named}`: this folder has no Python. Give a virtual environment, the path of a Python, or "
                "a version of torch such as `2.13`."
            )
        return Interpreter(python, why=option)
    if _RELEASE.fullmatch(named) and not path.exists():
        return _release(named, option, environ)
    program = shutil.which(named)
    if program is None:
        raise NoInterpreterError(
            f"`{option} {named}`: there is no such program, environment or version of torch. Give the path of a Python "
            "with torch, or a version such as `2.13`."
        )
    return Interpreter(os.path.abspath(program), why=option)  # noqa: PTH100 - resolve() loses the environment


def _release(named: str, option: str, environ: Mapping[str, str]) -> TorchRelease:
    if release_number(named) < OLDEST_TORCH:
        raise NoInterpreterError(
            f"`{option} {named}`: Fuselight needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer."
        )
    return TorchRelease(named, cache_folder(environ) / "torch" / named, _uv_command())


def _uv_command() -> tuple[str, ...] | None:
    program = shutil.which("uv")
    if program is not None:
        return (program,)
    beside = Path(sys.executable).parent / "uv"
    return (str(beside),) if beside.is_file() else None


async def interpreter_of(
    release: TorchRelease, option: str, *, installs: bool, show: Callable[[str], None]
) -> Interpreter:
    """The interpreter of a release, which is installed first if asked. Raises NoInterpreterError."""
    if release.python is not None:
        return Interpreter(release.python, why=option)
    commands = " && ".join(shlex.join(command) for command in release.commands)
    if not installs:
        raise NoInterpreterError(
            f"`{option} {release.version}`: this version is not installed. Add `--install`, which downloads {_SIZE} "
            f"and runs `{commands}`."
        )
    if release.uv is None:
        raise NoInterpreterError(
            f"`{option} {release.version}`: uv, which installs it, is not on PATH. Install uv (`pip install uv`), or "
            "give the path of a Python with this version."
        )
    show(f"installing torch {release.version} in {release.folder} ({_SIZE})")
    for command in release.commands:
        await _run(command, option, release)
    python = python_of(release.folder)
    if python is None:
        raise NoInterpreterError(
            f"`{option} {release.version}`: {release.folder} has no Python after `{commands}`."
        )
    (release.folder / _COMPLETE).touch()
    return Interpreter(python, why=option)


async def _run(command: tuple[str, ...], option: str, release: TorchRelease) -> None:
    """Run a step of the installation. Raises NoInterpreterError."""
    release.folder.parent.mkdir(parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    if process.returncode != 0:
        text = printed.decode("utf-8", "replace").strip()[-_TAIL:]
        raise NoInterpreterError(
            f"`{option} {release.version}`: `{shlex.join(command)}` failed: {text or 'it printed nothing'}"
        )
