"""Records which files and folders a run reads, by an audit hook, so that its report can be kept.

Invariant: user code does not notice it. The hook calls only functions that were bound before any user code ran, raises
nothing, and Dynamo leaves it to Python. Native code that opens files by itself is not seen.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fuselight import PACKAGE
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.shared.report import Reads
from fuselight.worker.child.asked_paths import AskedPaths

_FILE, _FOLDER, _NEW = "file", "folder", "new path"
_NEW_AT = {"os.mkdir": 0, "os.rename": 1, "os.symlink": 1, "os.link": 1}
"""Audit events of a path that the run makes, to the index of the path in their arguments."""
_KINDS = {
    "open": _FILE,
    "ctypes.dlopen": _FILE,
    "os.listdir": _FOLDER,
    "os.scandir": _FOLDER,
    **dict.fromkeys(_NEW_AT, _NEW),
    **dict.fromkeys(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"), "the network"),
    **dict.fromkeys(("socket.bind", "socket.sendto", "socket.sendmsg"), "the network"),
    **dict.fromkeys(("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.system"), "another process"),
    **dict.fromkeys(("os.fork", "os.forkpty", "os.exec"), "another process"),
    "sqlite3.connect": "a database",
}
"""Audit events, and what they tell: a file, a folder, or in words what cannot be compared later."""
_STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
"""Modules that are imported to start processes, which raises no audit event."""
_MAX = 2000
"""Files, and folders: a run that reads more is not kept."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MISSING = (-1, 0)
_SEPARATOR = os.sep
_IMPORTER = "<frozen importlib._bootstrap_external>"
"""The file of Python's own importer, as its frames name it."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_OURS = PACKAGE


class ReadRecorder:
    """What this process reads from `start` to `result`."""

    def __init__(self, own: Iterable[str] = ()) -> None:
        """`own`: folders of this run, which count for nothing."""
        self._files: dict[str, tuple[int, int]] = {}
        self._folders: dict[str, int] = {}
        self._import_folders: dict[str, None] = {}
        self._others: dict[str, None] = {}
        self._written: set[str] = set()
        self._skipped = tuple(f"{folder}{os.sep}" for folder in (*own, *installed_folders(), *_SYSTEM))
        self._asked = AskedPaths(self._skipped, self._written)
        self._active = [True]

    def start(self) -> None:
        """Record from now on."""
        hook = self._hook()
        self._asked.start()
        sys.addaudithook(hook)

    def result(self, files: Iterable[str] = (), imported: Iterable[str] = ()) -> Reads:
        """What was read. `files`: further ones; `imported`: those that the report names with their texts."""
        self._active.clear()
        self._asked.stop()
        if self._asked.is_full:
            self._others["many files"] = None
        known = frozenset(imported)
        # A run may read what an earlier one wrote.
        left = (path for path in self._written if _state(path) != _MISSING)
        for path in itertools.chain(files, left):
            self._files.setdefault(path, _state(path))
        if any(name in sys.modules for name in _STARTERS):
            self._others["another process"] = None
        states = {os.path.normpath(path): state for path, state in self._files.items()}
        return Reads(
            files={path: state for path, state in states.items() if path not in known},
            folders={os.path.normpath(path): time for path, time in self._folders.items()},
            import_folders=tuple(dict.fromkeys(map(os.path.normpath, self._import_folders))),
            asked={path: state for path, state in self._asked.states.items() if path not in known},
            others=tuple(self._others),
        )

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """Each audit event of the run passes through it."""
        others, active, skipped, owner = self._others, self._active, self._skipped, os.getpid()
        kind_of, getpid, error = _KINDS.get, os.getpid, Exception
        absolute, take_file, take_folder = _absolute(), self._file_taker(), self._folder_taker()
        take_new, new_at, of_source = self._asked.note_created, _NEW_AT, self._source_finder()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            kind = kind_of(event)
            if kind is None or not active or getpid() != owner:
                return
            try:
                if kind is not _FILE and kind is not _FOLDER and kind is not _NEW:
                    others[kind] = None
                    return
                path = absolute(event, arguments[new_at[event] if kind is _NEW else 0])
                if path is None or (path + _SEPARATOR).startswith(skipped):
                    return
                if kind is _NEW:
                    take_new(path)
                elif kind is _FOLDER:
                    take_folder(path)
                else:
                    is_changed = event == "open" and _is_change(arguments[1], arguments[2])
                    path = of_source(path, is_changed)
                    if path is not None:
                        take_file(path, is_changed)
            except error:
                others["a path that could not be read"] = None

        for function in (
            hook,
            absolute,
            take_file,
            take_folder,
            of_source,
            AskedPaths.note_created,
            _is_change,
        ):
            targets.skip_frames(function.__code__)
        return hook

    def _source_finder(self) -> Callable[[str, bool], str | None]:
        """What names the source in the place of a compiled module, None for one that is written."""
        folders, get_state = self._folders, os.stat
        bytecode, separator = f"{os.sep}__pycache__{os.sep}", _SEPARATOR

        def of_source(path: str, is_changed: bool) -> str | None:  # noqa: FBT001 - called here alone
            folder, marker, name = path.rpartition(bytecode)
            if not marker:
                return path
            if not is_changed:
                return folder + separator + name.partition(".")[0] + ".py"
            if folder in folders:  # its time changed as `__pycache__` was made in it
                folders[folder] = get_state(folder).st_mtime_ns
            return None

        return of_source

    def _folder_taker(self) -> Callable[[str], None]:
        folders, import_folders, others = self._folders, self._import_folders, self._others
        get_frame, get_state, size = sys._getframe, os.stat, len  # noqa: SLF001 - the caller's frame

        def take_folder(path: str) -> None:
            if size(folders) + size(import_folders) >= _MAX:
                others["many folders"] = None
                return
            reader = get_frame(2).f_code.co_filename
            if reader == _IMPORTER or reader.startswith(_OURS):
                import_folders[path] = None
            elif path not in folders:
                folders[path] = get_state(path).st_mtime_ns

        return take_folder

    def _file_taker(self) -> Callable[[str, bool], None]:
        files, others, written = self._files, self._others, self._written
        get_state, is_regular, is_folder, size = os.stat, stat.S_ISREG, stat.S_ISDIR, len
        missing = OSError

        def take_file(path: str, is_changed: bool) -> None:  # noqa: FBT001 - called here alone
            if not is_changed and (path in files or path in written):
                return
            if size(files) + size(written) >= _MAX:
                others["many files"] = None
                return
            if is_changed:
                if files.pop(path, _MISSING) != _MISSING:
                    others["a file that it changes"] = None
                written.add(path)
                return
            try:
                status = get_state(path)
            except missing:
                files[path] = _MISSING
                return
            if is_regular(status.st_mode):
                files[path] = (status.st_size, status.st_mtime_ns)
            elif not is_folder(status.st_mode):
                others["a pipe or a device"] = None

        return take_file


def _absolute() -> Callable[[str, Any], str | None]:
    """What makes the first argument of an audit event an absolute path, None where it is none."""
    getcwd, fspath, decode = os.getcwd, os.fspath, os.fsdecode
    check, text, number = isinstance, str, int

    def absolute(event: str, path: Any) -> str | None:
        if check(path, number):
            return None  # a descriptor, whose file was opened before
        given = "." if path is None else fspath(path)
        name: str = given if check(given, text) else decode(given)
        if name[:1] == _SEPARATOR:
            return name
        if event == "ctypes.dlopen" and _SEPARATOR not in name:
            return None  # a library of the system
        return getcwd() + _SEPARATOR + name

    return absolute


def _is_change(mode: str | None, flags: int) -> bool:
    """Whether a file is opened to be written: by `open`, which has a mode, or by `os.open`."""
    if mode is None:
        return flags & _WRITES != 0
    return "r" not in mode or "+" in mode


_SYSTEM = ("/proc", "/sys", "/dev")


def installed_folders() -> Iterator[str]:
    """Folders of installed packages, of Python's own library, and of Fuselight: an installation changes those."""
    yield _OURS
    yield os.path.dirname(os.path.abspath(os.__file__))
    yield from (path for path in sys.path if os.path.basename(path) in _PACKAGES)


def loaded_outside() -> tuple[str, ...]:
    """Files of loaded modules that are in no such folder, such as packages that are installed as links to a project."""
    inside = tuple(f"{folder}{os.sep}" for folder in installed_folders())
    paths = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return tuple(
        path
        for path in paths
        if isinstance(path, str) and os.path.isabs(path) and not path.startswith(inside)
    )


def _state(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return _MISSING
    return status.st_size, status.st_mtime_ns
