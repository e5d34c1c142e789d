"""Folders for temporary files, named after the process that owns them, so that those of dead owners can be deleted.

Invariant: only folders of this user are deleted, only those whose process is gone, and no link is followed. A process
of another PID namespace may live though its number is free here: its folders are left alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator

_NAME = re.compile(r"fuselight-[a-z]+-(?P<user>\d+)-(?P<namespace>\d+)-(?P<pid>\d+)-[^-]+")


def new_folder(purpose: str) -> str:
    """Make a folder (mode 0700) that this process owns, and delete those of dead owners. Raises OSError.

    `purpose` is one lower-case word.
    """
    if not os.path.isdir(tempfile.gettempdir()):
        tempfile.tempdir = None  # looks for another one
    remove_abandoned(tempfile.gettempdir())
    return tempfile.mkdtemp(prefix=f"fuselight-{purpose}-{_user()}-{_namespace()}-{os.getpid()}-")


@contextlib.contextmanager
def owned_folder(purpose: str) -> Iterator[str]:
    """A folder as of `new_folder` that is deleted at the end of the block. Raises OSError."""
    folder, owner = new_folder(purpose), os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == owner:  # not in a fork of it
            shutil.rmtree(folder, ignore_errors=True)


def shared_folder(purpose: str, owner: int, key: str) -> str:
    """The folder (mode 0700) that processes of this user share who name the same owner and key. Raises OSError.

    It is made if it does not exist. `owner` is a process that outlives them; `key` has no hyphen.
    """
    remove_abandoned(tempfile.gettempdir())
    name = f"fuselight-{purpose}-{_user()}-{_namespace()}-{owner}-{key}"
    folder = os.path.join(tempfile.gettempdir(), name)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        raise NotADirectoryError(f"{folder} is not a folder of this user")
    return folder


def folders_of(purpose: str) -> list[str]:
    """The folders for a purpose that live processes of this user own, as of `new_folder`; the newest first."""
    here = {"user": str(_user()), "namespace": str(_namespace())}
    start = f"fuselight-{purpose}-"
    known: list[tuple[float, str]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            name = _NAME.fullmatch(entry.name) if entry.name.startswith(start) else None
            if name is None or {key: name[key] for key in here} != here or not is_alive(int(name["pid"])):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == _user():
                    known.append((status.st_mtime, entry.path))
    return [path for _, path in sorted(known, reverse=True)]


def remove_abandoned(parent: str) -> None:
    """Delete the folders in `parent` whose owners are dead."""
    here = {"user": str(_user()), "namespace": str(_namespace())}
    try:
        entries = list(os.scandir(parent))
    except OSError:
        return
    for entry in entries:
        name = _NAME.fullmatch(entry.name)
        if name is None or {key: name[key] for key in here} != here or is_alive(int(name["pid"])):
            continue
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == _user():
                shutil.rmtree(entry.path, ignore_errors=True)


def is_alive(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    except OverflowError:
        return False
    return True


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _namespace() -> int:
    """The PID namespace of this process, 0 where there is none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
