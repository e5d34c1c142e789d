"""Which interpreter a side of an upgrade means: a path, an environment, or a release of torch that uv installs.

Invariant: nothing is installed and no network is used unless the user asked for it; an installation that did not end is
never used, and only one process installs at a time. Every project uses what is installed, so no project decides where
it comes from: uv reads the user's own configuration and no other, gets no variable that a file of the workspace sets,
and an environment without the user's signature is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.folder_lock import tried_lock
from fuselight.shared.foreign_files import (
    check_folder,
    folders_to_root,
    is_trusted_owner,
    read_regular,
    signature,
    write_whole,
)
from fuselight.shared.version import OLDEST_TORCH
from fuselight.shared.version import release as release_number
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.interpreters import NoInterpreterError, python_of

_RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?")
_SIZE = "up to 3 GB"
_COMPLETE = "fuselight-complete"
"""File of an environment whose installation has ended: the user's signature of what was installed."""
_MAX_CONFIGURATION = 1 << 20
_MAX_RECORD = 32 << 20
_SETTINGS_OF_TOOLS = ("UV_", "PIP_", "PYTHON", "VIRTUAL_ENV", "CONDA_")
"""Starts of the names of variables that can choose an index, a cache or an interpreter."""
_PATHS_OF_USER = ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_SET_BY_FILE = re.compile(rb"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=", re.MULTILINE)
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
    configuration: Path | None
    """The user's own configuration of uv, which may name the index of a company."""
    environ: Mapping[str, str]
    """The environment of uv."""

    @property
    def python(self) -> str | None:
        """The interpreter, if the user's Fuselight installed the release and it was not exchanged since."""
        try:
            check_folder(self.folder)
            complete = read_regular(self.folder / _COMPLETE, 256, follow_link=False, is_own=True)
            expected = signature(self._contents())
        except OSError:
            return None
        is_complete = expected is not None and complete.decode("ascii", "replace").strip() == expected
        return python_of(self.folder) if is_complete else None

    def mark_complete(self) -> None:
        """Sign what was installed. Raises OSError."""
        write_whole(self.folder / _COMPLETE, (signature(self._contents(), create=True) or "").encode())

    def _contents(self) -> bytes:
        """What is signed: the place, the version, the configuration and torch's list of its files with their hashes."""
        digest = hashlib.sha256()
        for record in sorted(self.folder.glob("[Ll]ib*/**/site-packages/torch-*.dist-info/RECORD")):
            digest.update(read_regular(record, _MAX_RECORD, follow_link=False))
        parts = (_COMPLETE, os.path.realpath(self.folder), self.version, digest.hexdigest())
        return "\0".join(parts).encode("utf-8", "surrogateescape")

    @property
    def commands(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What makes the environment, and what installs the release in it."""
        uv = self.uv or ("uv",)
        wanted = self.version if self.version.count(".") > 1 else f"{self.version}.*"
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        own = () if self.configuration is None else ("--config-file", str(self.configuration))
        return (
            (*uv, "venv", "--no-config", *own, "--clear", "--python", python, str(self.folder)),
            (
                *(*uv, "pip", "install", "--no-config", *own),
                *("--python", str(self.folder), f"torch=={wanted}", "numpy"),
            ),
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
    if os.path.isabs(environ.get("XDG_CACHE_HOME", "")):  # noqa: PTH117 - a relative one does not count
        return Path(environ["XDG_CACHE_HOME"]) / "fuselight"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fuselight"
    if sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / "fuselight" / "cache"
    return Path.home() / ".cache" / "fuselight"


def find_side(named: str, option: str, environ: Mapping[str, str]) -> Interpreter | TorchRelease:
    """What the user named with an option. Raises NoInterpreterError."""
    path = Path(named)
    if _RELEASE.fullmatch(named):  # also where a folder has this name: it is named by `./2.13`
        return _release(named, option, environ)
    if path.is_dir():
        python = python_of(path)
        if python is None:
            raise NoInterpreterError(
                f"`{option} {named}`: this folder has no Python. Give a virtual environment, the path of a Python, or "
                "a version of torch such as `2.13`."
            )
        return Interpreter(python, why=option)
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
    own = _environment_of_uv(environ)
    configuration = _user_configuration(own)
    folder = cache_folder(own) / "torch" / f"{named}{_configuration_key(configuration)}"
    return TorchRelease(named, folder, _uv_command(own), option, configuration, own)


def _environment_of_uv(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the user has set: none that configures uv, and none that a file of the workspace sets."""
    return {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith(_SETTINGS_OF_TOOLS)
        and name not in _set_by_workspace(os.getcwd())  # noqa: PTH109 - it is a key of a cache
        and not (name in _PATHS_OF_USER and not os.path.isabs(value))  # noqa: PTH117 - as for `getcwd`
    }


@functools.lru_cache(maxsize=1)
def _set_by_workspace(folder: str) -> frozenset[str]:
    """The variables in `.env` files of a folder and those above it, which editors and shells put into a terminal."""
    names: set[str] = set()
    for above in folders_to_root(folder):
        for path in (*above.glob(".env"), *above.glob(".env.*"), *above.glob(".envrc")):
            with contextlib.suppress(OSError):
                names |= {
                    os.fsdecode(name) for name in _SET_BY_FILE.findall(read_regular(path, _MAX_CONFIGURATION))
                }
    return frozenset(names)


def _user_configuration(environ: Mapping[str, str]) -> Path | None:
    """The configuration of uv of the user, else of the machine, where uv looks for them."""
    if sys.platform == "win32":
        folders = [environ.get("APPDATA", ""), environ.get("PROGRAMDATA", "")]
    else:
        home = environ.get("HOME", "")
        own = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
        folders = [own, *environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep), "/etc"]
    for folder in folders:
        path = Path(folder, "uv", "uv.toml")
        with contextlib.suppress(OSError):
            if path.is_absolute() and path.is_file() and is_trusted_owner(path.stat().st_uid):
                return path
    return None


def _configuration_key(path: Path | None) -> str:
    """What distinguishes the environments of two configurations: another index may have other builds."""
    if path is None:
        return ""
    try:
        data = read_regular(path, _MAX_CONFIGURATION)
    except OSError as error:
        raise NoInterpreterError(f"uv's configuration `{path}` cannot be read: {error.strerror}.") from None
    return f"-{hashlib.sha256(data).hexdigest()[:8]}"


def _uv_command(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The command of uv: on PATH, whose relative folders are those of the workspace, else next to this Python."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder, "uv")
        program = shutil.which(str(path)) if path.is_absolute() else None
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
                    _sign(release)
        finally:
            for release in missing:
                if release.python is None:
                    shutil.rmtree(release.folder, ignore_errors=True)


def _sign(release: TorchRelease) -> None:
    try:
        release.mark_complete()
    except OSError as error:
        raise release.error(f"it cannot be signed: {error.strerror}. Check `{error.filename}`.") from None


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
            cwd=release.folder.parent,
            env=dict(release.environ),
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
