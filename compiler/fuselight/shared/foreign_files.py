"""Files and folders that this process did not write: opened, read, locked and replaced without trusting them.

Whatever a repository, a results folder or a shared temporary folder brings may be a link, a pipe, a device, endless,
or another user's. Invariant: a file is judged by its open descriptor, never by its name alone; opening one never waits,
reading one is bounded, and nothing is created or changed through a link. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

STORE = ".fuselight"
"""Name of the folder in which Fuselight keeps what it learned of a project."""
SOURCE_BYTES = 64 * 1024 * 1024
"""The largest source file that is read."""
_ROOT_MARKS = (STORE, ".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
LEFT = ".new"
"""Ending of a file that is being written, or that a writer which was killed has left."""
_ADMINISTRATOR = 0
_KEY, _KEY_BYTES = "key", 32
_UNWAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_UNLINKED = getattr(os, "O_NOFOLLOW", 0)

StrPath = str | os.PathLike[str]


def open_regular(path: StrPath, *, follow_link: bool = True, is_own: bool = False) -> BinaryIO:
    """Open a regular file for reading. Raises OSError for anything else: a pipe, a device, a folder.

    `follow_link=False` refuses a link at the end of the path, `is_own` a file of another user.
    """
    return os.fdopen(_opened(path, os.O_RDONLY, follow_link=follow_link, is_own=is_own), "rb")


def read_regular(
    path: StrPath, limit: int = SOURCE_BYTES, *, follow_link: bool = True, is_own: bool = False
) -> bytes:
    """Read a regular file of at most `limit` bytes; see `open_regular`. Raises OSError for any other."""
    with open_regular(path, follow_link=follow_link, is_own=is_own) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(limit + 1) if size <= limit else b""
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes", os.fspath(path))
    return data


def open_to_append(path: StrPath) -> BinaryIO:
    """Open or create a file of this user's, to read and append; no link is followed. Raises OSError."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    return os.fdopen(_opened(path, flags, follow_link=False, is_own=True), "a+b", buffering=0)


def _opened(path: StrPath, flags: int, *, follow_link: bool, is_own: bool) -> int:
    try:
        handle = os.open(path, flags | _UNWAITING | (0 if follow_link else _UNLINKED), 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise linked(path) from None
        if error.errno == errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise _irregular(path) from None
        raise
    state = os.fstat(handle)
    if stat.S_ISREG(state.st_mode) and (not is_own or is_trusted_owner(state.st_uid)):
        return handle
    os.close(handle)
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", os.fspath(path))
    if not stat.S_ISREG(state.st_mode):
        raise _irregular(path)
    raise PermissionError(errno.EPERM, "it belongs to another user", os.fspath(path))


def _irregular(path: StrPath) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def linked(path: StrPath) -> OSError:
    """The error for a link where none is followed."""
    return OSError(errno.ELOOP, "it is a link, which Fuselight does not follow", os.fspath(path))


def is_trusted_owner(user: int) -> bool:
    """Whether a file of this user id may be trusted: our own, or the administrator's."""
    return not hasattr(os, "geteuid") or user in {os.geteuid(), _ADMINISTRATOR}


def check_folder(folder: StrPath) -> None:
    """Raise OSError unless nobody but this user and the administrator can put a file of theirs in place of ours."""
    state = os.stat(folder)
    if not hasattr(os, "geteuid"):
        return
    if not is_trusted_owner(state.st_uid):
        raise PermissionError(errno.EPERM, "its folder belongs to another user", os.fspath(folder))
    if state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "every user can write to its folder", os.fspath(folder))


def make_private_folder(folder: StrPath) -> None:
    """Create a folder that is closed to others, or check that there is one. Raises OSError for any other."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    check_private_folder(folder)


def check_private_folder(folder: StrPath) -> None:
    """Raise OSError unless this is a folder of this user alone, and no link."""
    state = os.lstat(folder)
    if stat.S_ISLNK(state.st_mode):
        raise linked(folder)
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder", os.fspath(folder))
    if not hasattr(os, "geteuid"):
        return
    if state.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", os.fspath(folder))
    if stat.S_IMODE(state.st_mode) & 0o077:
        raise PermissionError(errno.EPERM, "other users can open it", os.fspath(folder))


def make_folders(root: StrPath, names: Iterable[str]) -> None:
    """Create `root` and the folders in it, one in the other. Raises OSError where one of `names` is a link."""
    folder = os.fspath(root)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        folder = os.path.join(folder, name)
        if os.path.islink(folder):
            raise linked(folder)
        os.makedirs(folder, exist_ok=True)


def write_whole(path: StrPath, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file as a whole, a link itself rather than what it names: a reader sees the old file or the new one.

    Raises OSError; the file is then as it was.
    """
    folder, name = os.path.split(os.fspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder or os.curdir, prefix=name, suffix=LEFT)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if mode != 0o600:  # noqa: PLR2004 - as mkstemp makes it
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def project_root(path: StrPath) -> Path:
    """The nearest folder at or above `path` that looks like a project's; else the file's own folder. Links resolved.

    The project is the one that has the path as it is named: a folder of it that links to another project is not in it.
    """
    named = Path(os.path.abspath(path))
    start = named if named.is_dir() else named.parent
    root = _marked(start)
    for folder in (root, *root.parents) if root is not None else ():
        if folder.is_symlink():
            root = _marked(folder.parent) or root
    return (root or start).resolve()


def leaves_project(path: StrPath) -> bool:
    """Whether a link leads from the path out of the project that has it."""
    real, root = os.path.realpath(path), str(project_root(path))
    try:
        return os.path.commonpath((real, root)) != root
    except ValueError:  # on another drive
        return True


def folders_to_root(start: StrPath) -> Iterator[Path]:
    """The folder `start` and those above it, to the project's root; without one to the home, if `start` is in it."""
    folder = _folder_of(start)
    end = _marked(folder) or (Path.home() if Path.home() in folder.parents else folder)
    yield folder
    for above in folder.parents if folder != end else ():
        yield above
        if above == end:
            return


def _folder_of(path: StrPath) -> Path:
    named = Path(path)
    return (named if named.is_dir() else named.parent).resolve()


def _marked(start: Path) -> Path | None:
    home = Path.home()
    for folder in (start, *start.parents):
        if folder == home and folder != start:
            break
        if any(os.path.lexists(folder / mark) for mark in _ROOT_MARKS):
            return folder
    return None


def signature(data: bytes, *, create: bool = False) -> str | None:
    """What proves that this user has seen `data`: nobody without the key in the user's state folder can compute it.

    None without a key, which `create` makes. Raises OSError if the key cannot be read or made.
    """
    folder = os.path.join(
        os.environ.get("XDG_STATE_HOME") or os.path.join(Path.home(), ".local", "state"), "fuselight"
    )
    path = os.path.join(folder, _KEY)
    if create and not os.path.lexists(path):
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        make_private_folder(folder)
        _create_key(path)
    try:
        check_private_folder(folder)
        key = read_regular(path, _KEY_BYTES, follow_link=False, is_own=True)
    except FileNotFoundError:
        return None
    if len(key) != _KEY_BYTES:
        raise OSError(errno.EINVAL, "it is no key", path)
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _create_key(path: str) -> None:
    """Make the key, unless another process does at the same time."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
