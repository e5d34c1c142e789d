"""Which interpreter a side of an upgrade means: a path, an environment, or a release of torch that uv installs.

Invariant: nothing is installed and no network is used unless the user asked for it; an installation that did not end is
never used, and only one process installs at a time.
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

from fuselight.shared.folder_lock import tried_lock
from fuselight.shared.version import OLDEST_TORCH
from fuselight.shared.version import release as release_number
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.interpreters import NoInterpreterError, python_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

_RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?")
_SIZE = "up to 3 GB"
_COMPLETE = "fuselight-complete"
"""File of an environment whose installation has ended."""
_TAIL = 600
"""Characters of what uv printed that an error shows."""
_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class TorchRelease:
    """A release of torch in an environment of Fuselight's own."""

    version: str
    folder: Path
    uv: tuple[str, ...] | None
    """The command of uv; None if it is not installed."""
    option: str
    """The option that named it."""

    @property
    def python(self) -> str | None:
        """The interpreter, if the release is installed."""
        return python_of(self.folder) if (self.folder / _COMPLETE).is_file() else None

    @property
    def commands(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What makes the environment, and what installs the release in it."""
        uv = self.uv or ("uv",)
        wanted = self.version if self.version.count(".") > 1 else f"{self.version}.*"
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return (
            (*uv, "venv", "--clear", "--python", python, str(self.folder)),
            (*uv, "pip", "install", "--python", str(self.folder), f"torch=={wanted}", "numpy"),
        )

    @property
    def shown_commands(self) -> str:
        """The commands, as a shell takes them."""
        return " && ".join(shlex.join(command) for command in self.commands)

    def error(self, text: str) -> NoInterpreterError:
        """An error that names the option."""
        return NoInterpreterError(f"`{self.option} {self.version}`: {text}")


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
        what = (
            "this file is not a program"
            if path.is_file()
            else "there is no such program, environment or version of torch"
        )
        meant = _RELEASE.search(path.name)
        version = f"the version as `{meant[0]}`" if meant else "a version such as `2.13`"
        raise NoInterpreterError(
            f"`{option} {named}`: {what}. Give the path of a Python with torch, or {version}."
        )
    return Interpreter(os.path.abspath(program), why=option)  # noqa: PTH100 - resolve() loses the environment


def _release(named: str, option: str, environ: Mapping[str, str]) -> TorchRelease:
    if release_number(named) < OLDEST_TORCH:
        raise NoInterpreterError(
            f"`{option} {named}`: Fuselight needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer."
        )
    return TorchRelease(named, cache_folder(environ) / "torch" / named, _uv_command(), option)


def _uv_command() -> tuple[str, ...] | None:
    program = shutil.which("uv")
    if program is not None:
        return (program,)
    beside = Path(sys.executable).parent / "uv"
    return (str(beside),) if beside.is_file() else None


async def interpreters_of(
    sides: Sequence[Interpreter | TorchRelease], show: Callable[[str], None]
) -> list[Interpreter]:
    """The interpreters of the sides; releases that are missing are installed. Raises NoInterpreterError."""
    missing = [side for side in sides if isinstance(side, TorchRelease) and side.python is None]
    if missing:
        await _install(missing, show)
    return [_interpreter_of(side) for side in sides]


def check_installed(sides: Sequence[Interpreter | TorchRelease], *, installs: bool) -> None:
    """Raise NoInterpreterError if a release is missing and is not, or cannot be, installed."""
    for side in sides:
        if isinstance(side, Interpreter) or side.python is not None:
            continue
        if not installs:
            raise side.error(
                f"this version is not installed. Add `--install`, which downloads {_SIZE} and runs "
                f"`{side.shown_commands}`."
            )
        if side.uv is None:
            raise side.error(
                "uv, which installs it, is not on PATH. Install uv (`pip install uv`), or give the path of a Python "
                "with this version."
            )


def _interpreter_of(side: Interpreter | TorchRelease) -> Interpreter:
    if isinstance(side, Interpreter):
        return side
    if side.python is None:
        raise side.error(f"{side.folder} has no Python after `{side.shown_commands}`.")
    return Interpreter(side.python, why=side.option)


async def _install(releases: Sequence[TorchRelease], show: Callable[[str], None]) -> None:
    """Install releases; whether uv can find all of them is known before the first is downloaded."""
    folder = releases[0].folder.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise releases[0].error(
            f"`{folder}` cannot be written: {error.strerror}. Name another cache folder in XDG_CACHE_HOME."
        ) from None
    async with _alone(folder, show):
        missing = [
            release for release in releases if release.python is None
        ]  # another process may have installed it
        try:
            for release in missing:
                await _run(release.commands[0], release)
            for release in missing[1:]:
                await _run((*release.commands[1], "--dry-run"), release)
            for release in missing:
                show(f"installing torch {release.version} in {release.folder} ({_SIZE})")
                await _run(release.commands[1], release)
                if python_of(release.folder) is not None:
                    (release.folder / _COMPLETE).touch()
        finally:
            for release in missing:
                if release.python is None:
                    shutil.rmtree(release.folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _alone(folder: Path, show: Callable[[str], None]) -> AsyncIterator[None]:
    """Wait until no other process installs into the folder, and keep others out."""
    while True:
        with tried_lock(str(folder)) as is_free:
            if is_free:
                yield
                return
        show(f"waiting for another `--install` into {folder}")
        await asyncio.sleep(_WAIT_SECONDS)


async def _run(command: tuple[str, ...], release: TorchRelease) -> None:
    """Run a step of the installation. Raises NoInterpreterError."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise release.error(f"`{command[0]}` cannot be started: {error.strerror}. Repair uv.") from None
    try:
        printed, _ = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    if process.returncode != 0:
        cause = last_lines(printed.decode("utf-8", "replace"))
        raise release.error(f"`{shlex.join(command)}` failed: {cause or 'it printed nothing'}")


def last_lines(printed: str) -> str:
    """The end of what uv printed: whole lines, from its error on if it names one."""
    lines = [line for line in printed.splitlines() if line.strip()]
    errors = [index for index, line in enumerate(lines) if line.startswith("error:")]
    if errors:
        lines = lines[errors[-1] :]
    while len(lines) > 1 and sum(map(len, lines)) > _TAIL:
        del lines[1 if errors else 0]  # the line of the error stays
    return "\n".join(lines)[-_TAIL:].strip()
