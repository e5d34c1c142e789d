"""Prevents a run on save from writing into the workspace: its files go to a private folder instead.

Invariant: inside `WriteGuard.active`, `open`, `torch.save` and the functions of `os` that delete, rename or truncate
leave every workspace file unchanged, and the program reads back what it wrote. Not covered: subprocesses, and libraries
that write through native code (safetensors, HDF5, SQLite).
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import pathlib
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.patching import patched
from fuselight.shared.report import Location, Note, is_user_file

_WRITING = frozenset("wax+")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT
_NAMED = 3
"""Files that the note names."""


@dataclass
class WriteGuard:
    """Where the files of one run go."""

    roots: tuple[str, ...]
    folder: str
    """Private folder of the run."""
    diverted: dict[str, str] = field(default_factory=dict)
    """Path in the workspace to the file that stands for it; empty for one that was only to be deleted."""
    first: Location | None = None
    """The line of the user's that wrote first."""

    def notes(self) -> tuple[Note, ...]:
        """What the report says about the files that were not written."""
        if not self.diverted:
            return ()
        names = [f"`{os.path.relpath(path, self._root_of(path))}`" for path in self.diverted]
        shown = ", ".join(names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = f"this run on save did not write or change {shown}{more}"
        return (Note("writes_diverted", text, self.first),)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Divert the files that are written inside the block."""
        with contextlib.ExitStack() as stack:

            def replace(name: str, guard: Callable[..., Any], *owners: Any) -> None:
                guarded = targets.seen_by_dynamo_as(getattr(owners[0], name), guard)
                for owner in owners:
                    stack.enter_context(patched(owner, name, guarded))

            replace("open", self._open, builtins, io)
            replace("open", self._os_open, os)
            replace("save", self._save, torch, torch.serialization)
            replace("truncate", self._truncate, os)
            for name in ("remove", "unlink", "rmdir"):
                replace(name, self._delete, os)
            for name in ("rename", "replace"):
                replace(name, self._rename, os)
            replace("rmtree", self._delete, shutil)
            stack.enter_context(_pathlib_of_python_3_10())
            yield

    def _open(self, real: Callable[..., Any], file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        writes = isinstance(mode, str) and not _WRITING.isdisjoint(mode)
        keeps = writes and "w" not in mode
        return real(self._path(file, writes=writes, keeps=keeps), mode, *args, **kwargs)

    def _os_open(self, real: Callable[..., Any], path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is None:
            writes = bool(flags & _WRITE_FLAGS)
            path = self._path(path, writes=writes, keeps=not flags & os.O_TRUNC)
        return real(path, flags, *args, **kwargs)

    def _save(self, real: Callable[..., Any], obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        return real(obj, self._path(f, writes=True), *args, **kwargs)

    def _truncate(self, real: Callable[..., Any], path: Any, length: int) -> Any:
        return real(self._path(path, writes=True, keeps=True), length)

    def _delete(self, real: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> Any:
        at = self._guarded(path) if kwargs.get("dir_fd") is None else None
        copy = self.diverted.get(at) if at is not None else None
        if copy and os.path.isfile(copy):
            return real(copy)
        if at is None or not os.path.lexists(at):
            return real(path, *args, **kwargs)  # raises what it would raise
        self._note(at)
        return None

    def _rename(self, real: Callable[..., Any], src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        source, target = self._guarded(src), self._guarded(dst)
        if source is None and target is None:
            return real(src, dst, *args, **kwargs)
        if source is not None and os.path.isdir(source):
            self._note(source)
            return None
        # A file of the workspace stays: a copy of it is renamed.
        here = self._path(src, writes=source is not None and os.path.isfile(source), keeps=True)
        return real(here, self._path(dst, writes=True), *args, **kwargs)

    def _guarded(self, path: Any) -> str | None:
        """Return the absolute path of a file of the workspace; None for anything else."""
        try:
            text = os.fsdecode(os.fspath(path))
        except TypeError:
            return None  # a descriptor, or a file that is open
        at = os.path.realpath(text)
        inside = any(_within(name, root) for name in (at, os.path.abspath(text)) for root in self._real_roots)
        return at if inside and not _within(at, self.folder) else None

    @functools.cached_property
    def _real_roots(self) -> tuple[str, ...]:
        return tuple({root for text in self.roots for root in (text, os.path.realpath(text))})

    def _root_of(self, path: str) -> str:
        return max((root for root in self._real_roots if _within(path, root)), key=len, default=os.sep)

    def _path(self, path: Any, *, writes: bool, keeps: bool = False) -> Any:
        """Return what to open for `path`; `keeps`: the file's contents are still wanted."""
        at = self._guarded(path)
        if at is None:
            return path
        copy = self.diverted.get(at)
        if copy and os.path.lexists(copy):
            return copy
        if not writes or os.path.isdir(at) or not os.path.isdir(os.path.dirname(at)):
            return path  # the real call reads it, or raises what it would raise
        if not copy:
            os.makedirs(self.folder, exist_ok=True)
            ending = os.path.splitext(at)[1]
            copy = os.path.join(self.folder, f"{len(self.diverted)}{ending}")
            self._note(at, copy)
        if keeps and os.path.isfile(at):
            shutil.copyfile(at, copy)
        return copy

    def _note(self, at: str, copy: str = "") -> None:
        self.diverted[at] = copy or self.diverted.get(at, "")
        if self.first is None:
            self.first = _users_line(self.roots)


@contextlib.contextmanager
def _pathlib_of_python_3_10() -> Iterator[None]:
    """Let `pathlib` of Python 3.10, which keeps functions of its own, use those that are in force."""
    accessor: Any = getattr(pathlib, "_NormalAccessor", None)
    if accessor is None:
        yield
        return
    names = {"open": io, "unlink": os, "rmdir": os, "rename": os, "replace": os}
    with contextlib.ExitStack() as stack:
        for name, owner in names.items():
            if name in vars(accessor):
                stack.enter_context(patched(accessor, name, staticmethod(getattr(owner, name))))
        yield


def _users_line(roots: Sequence[str]) -> Location | None:
    start = sys._getframe(1)  # noqa: SLF001 - the only way to a caller's line without formatting its whole stack
    for frame, line in traceback.walk_stack(start):
        if is_user_file(frame.f_code.co_filename, roots):
            return Location(frame.f_code.co_filename, line)
    return None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
