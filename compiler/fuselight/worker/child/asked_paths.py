"""Records the paths whose existence, type, size or time a run asks for: `os.path.exists`, `Path.stat`, `os.access`.

Python raises no audit event for these, so `os.stat`, `os.lstat` and `os.access` are replaced until the run ends.
Invariant: user code does not notice it. They return and raise what they did, and Dynamo breaks at them in the same
words.
"""

from __future__ import annotations

import contextlib
import genericpath
import glob
import importlib.metadata
import inspect
import linecache
import os
import pathlib
import pkgutil
import posixpath
import shutil
import stat
import sys
import tokenize
import traceback
import types
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch

from fuselight import PACKAGE
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.patching import patched

MAX = 2000
"""Paths: a run that asks for more is not kept."""
MISSING = (0, -1, -1)
_TYPE_ONLY = frozenset(
    {
        *("exists", "lexists", "isfile", "isdir", "islink", "isjunction", "ismount", "is_file", "is_dir"),
        *("is_symlink", "is_mount", "is_socket", "is_fifo", "is_block_device", "is_char_device", "resolve"),
        *("realpath", "_joinrealpath", "mkdir", "makedirs", "rmtree", "which", "_access_check"),
    }
)
"""Functions of Python that ask whether and what a path is, and nothing else of it."""


def _files_of(*modules: types.ModuleType) -> Iterator[str]:
    """How the files of modules begin, as their frames name them; those that start Python have no path there."""
    for module in modules:
        path = str(module.__file__)
        yield os.path.dirname(path) + os.sep if hasattr(module, "__path__") else path
        yield f"<frozen {module.__name__}>"


_PASSED_ON = tuple(_files_of(genericpath, posixpath, pathlib, glob, shutil, os))
"""Python's functions that ask for their caller."""
_OURS = PACKAGE + os.sep
_FOR_ITSELF = (
    *_files_of(linecache, inspect, tokenize, traceback, pkgutil, importlib.metadata, torch),
    "<frozen importlib",
    _OURS,
)
"""Who asks for a purpose that is not the program's: to read source lines, to find packages, torch and Fuselight."""
_WRAPPERS = (__file__, *targets.REPLACED_CALL_FILES)
"""Files whose functions are between the caller and the real one."""
_DEPTH = 16
_SETS = ("supports_dir_fd", "supports_effective_ids", "supports_fd", "supports_follow_symlinks")


class AskedPaths:
    """The paths that were asked for between `start` and `stop`."""

    def __init__(self, skipped: tuple[str, ...], written: Container[str]) -> None:
        """`skipped`: how paths begin that do not count. `written`: files that the run itself has written by then."""
        self.states: dict[str, tuple[int, int, int]] = {}
        """Absolute path to its type, size and time of change; -1 for what was not asked, `MISSING` for no such path."""
        self.is_full = False
        self._created: list[str] = []
        self._written = written
        self._skipped = skipped
        self._exit = contextlib.ExitStack()
        self._stat = os.stat

    def start(self) -> None:
        """Record from now on."""
        for name in ("stat", "lstat", "access"):
            self._replace(name)
        accessor: Any = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10 keeps functions of its own
        if accessor is not None and "stat" in vars(accessor):
            self._exit.enter_context(patched(accessor, "stat", staticmethod(os.stat)))

    def stop(self) -> None:
        """Record nothing more."""
        self._exit.close()

    def note_created(self, path: str) -> None:
        """The run is about to make a path: what it asks of that later is no question about what it was given."""
        if len(self._created) < MAX and _state_of(path, self._stat, is_type_only=True) == MISSING:
            self._created.append(path + os.sep)

    def _replace(self, name: str) -> None:
        real = getattr(os, name)
        recorded = targets.seen_by_dynamo_as(real, self._recorded)
        for known in (getattr(os, group, None) for group in _SETS):
            if known is not None and real in known:
                known.add(recorded)
                self._exit.callback(known.discard, recorded)
        self._exit.enter_context(patched(os, name, recorded))

    def _recorded(self, real: Callable[..., Any], path: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(path, int) and named.get("dir_fd") is None:
            with contextlib.suppress(Exception):  # the real call raises what it would raise
                self._note(os.fsdecode(path), is_access=real.__name__ == "access")
        return real(path, *args, **named)

    def _note(self, given: str, *, is_access: bool) -> None:
        path = os.path.normpath(given if given[:1] == os.sep else os.path.join(os.getcwd(), given))
        at = path + os.sep
        if path in self._written or at.startswith((*self._skipped, *self._created)):
            return
        if len(self.states) >= MAX:
            self.is_full = True
            return
        is_type_only = _asks_for_type(sys._getframe(1), is_access)  # noqa: SLF001 - the caller's frame
        known = self.states.get(path)
        if is_type_only is None or (known is not None and (is_type_only or known[1:] != (-1, -1))):
            return
        self.states[path] = _state_of(path, self._stat, is_type_only=is_type_only)


def _asks_for_type(frame: Any, is_type_only: bool) -> bool | None:  # noqa: FBT001 - called here alone
    """Whether the program asks what a path is and nothing else of it; None if the question is not the program's."""
    seen = 0
    while frame is not None and seen < _DEPTH:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        frame, seen = frame.f_back, seen + 1
        if path in _WRAPPERS:
            continue
        if path.startswith(_PASSED_ON):
            is_type_only = is_type_only or name in _TYPE_ONLY
            continue
        return None if path.startswith(_FOR_ITSELF) else is_type_only
    return is_type_only


def _state_of(
    path: str, read: Callable[[str], os.stat_result], *, is_type_only: bool
) -> tuple[int, int, int]:
    """The type of a path, and its size and time of change unless only the type is asked for."""
    try:
        status = read(path)
    except (OSError, ValueError):
        return MISSING
    kind = stat.S_IFMT(status.st_mode)
    return (kind, -1, -1) if is_type_only else (kind, status.st_size, status.st_mtime_ns)
