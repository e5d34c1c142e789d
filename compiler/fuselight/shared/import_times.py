"""How long the imports of this process take, by line of the user's files, up to the first compile.

Invariant: no frame of ours is on the stack while a module is imported, so that tracebacks, warnings and the recursion
limit are those of a plain run. Under a Python whose import system has no such lock manager nothing is timed.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

RECORD = "fuselight_imports"
"""Name of the artifact in torch's log with the imports of its process (`report.Imports`)."""

_MAX_LINES = 1_000
_MAX_IMPORTS = 20_000
"""Imports after which nothing more is timed: a program that reloads a module in a loop."""
_MAX_MODULES = 8
_MAX_FRAMES = 300
_MANAGER = "_ModuleLockManager"
"""The class whose objects the import system holds while it imports a module."""
_NOT_USERS = frozenset(("fuselight", "functorch", "torch", "torchgen", "triton"))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))).replace(os.sep, "/") + "/"
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")

_clock = time.perf_counter


class ImportTimes:
    """The imports of this process. `install` begins, and `finish` ends it at the first compile."""

    def __init__(self) -> None:
        self._bootstrap: Any = sys.modules.get("importlib._bootstrap") or sys.modules.get("_frozen_importlib")
        self._real: Any = getattr(self._bootstrap, _MANAGER, None)
        self._ours: Any = None if self._real is None else _timed_manager(self._real, self)
        self._folder = os.getcwd()
        self._is_users: dict[str, bool] = {}
        self._is_forked = False
        self._clear()

    def _clear(self) -> None:
        self._threads: Any = _thread._local()  # noqa: SLF001 - threading.local, without the import of threading
        self._lines: dict[tuple[str, int], _Line] = {}
        self._outside = 0.0
        self._intervals: list[tuple[float, float]] = []
        self._dropped: set[tuple[str, int]] = set()
        self._began, self._began_at = _clock(), time.time()
        self._finished: dict[str, Any] | None = None

    def install(self) -> None:
        """Time imports from now on. A fork of this process begins with its own."""
        if self._real is None:
            return
        setattr(self._bootstrap, _MANAGER, self._ours)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._restart)

    def begin_program(self) -> None:
        """Forget what was imported until now: the program begins here."""
        self._clear()

    def stop_and_report(self) -> dict[str, Any] | None:
        """Stop, and return `report.Imports` as JSON values, the same each time; None where nothing could be timed."""
        if self._real is None:
            return None
        if self._finished is None:
            self._uninstall()
            self._finished = self._data()
        return self._finished

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what this thread does inside: Fuselight's own imports, within one of the program's."""
        start = _clock()
        self._threads.pauses = getattr(self._threads, "pauses", 0) + 1
        try:
            yield
        finally:
            self._threads.pauses -= 1
            passed = _clock() - start
            for entry in self._stack():
                entry.start += passed

    def _uninstall(self) -> None:
        if getattr(self._bootstrap, _MANAGER, None) is self._ours:
            setattr(self._bootstrap, _MANAGER, self._real)

    def _restart(self) -> None:
        """Begin with nothing in a fork: its parent's imports are not its own."""
        stack = self._stack()
        self._clear()
        self._is_forked = True
        for entry in stack:  # the fork goes on inside of these
            entry.start, entry.nested = self._began, 0.0
        self._threads.stack = stack
        setattr(self._bootstrap, _MANAGER, self._ours)

    def _stack(self) -> list[_OpenImport]:
        """The imports that this thread is inside of."""
        try:
            stack: list[_OpenImport] = self._threads.stack
        except AttributeError:
            stack = self._threads.stack = []
        return stack

    def begin(self, name: str, frame: FrameType | None) -> _OpenImport | None:
        """An import begins, in a frame of the import system. Returns what `end` takes; None for a part of another."""
        if getattr(self._threads, "pauses", 0):
            return None
        stack = self._stack()
        frame = _importer(frame)
        if stack and (frame is None or not self._is_of_user(frame)):
            return None
        for _ in range(_MAX_FRAMES):
            if frame is None or self._is_of_user(frame):
                break
            frame = frame.f_back
        else:
            frame = None
        key = None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        if stack and stack[-1].key == key:  # the parent of a package's module
            return None
        entry = _OpenImport(key, name, _clock())
        stack.append(entry)
        return entry

    def end(self, entry: _OpenImport) -> None:
        """An import has ended, with a module or with an exception."""
        now, stack = _clock(), self._stack()
        while stack and stack.pop() is not entry:
            pass
        self._add(entry, now, stack, self._lines, self._intervals)
        if len(self._intervals) >= _MAX_IMPORTS:
            self._uninstall()

    def _add(
        self,
        entry: _OpenImport,
        now: float,
        around: list[_OpenImport],
        lines: dict[tuple[str, int], _Line],
        intervals: list[tuple[float, float]],
    ) -> None:
        seconds = max(0.0, now - entry.start)
        if around:
            around[-1].nested += seconds
        else:
            intervals.append((entry.start, now))
        if entry.key is None:
            self._outside += max(0.0, seconds - entry.nested)
            return
        line = lines.get(entry.key)
        if line is None:
            if len(lines) >= _MAX_LINES:
                self._dropped.add(entry.key)
                return
            line = lines.setdefault(entry.key, _Line())
        line.own += max(0.0, seconds - entry.nested)
        if not any(other.key == entry.key for other in around):
            line.seconds += seconds
        line.modules[entry.name] = line.modules.get(entry.name, 0.0) + seconds

    def _is_of_user(self, frame: FrameType) -> bool:
        path = frame.f_code.co_filename
        known = self._is_users.get(path)
        if known is None:
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            plain = path.replace(os.sep, "/")
            known = not (
                path.startswith("<")
                or package in _NOT_USERS
                or plain.startswith(_PACKAGE)
                or any(part in plain for part in _INSTALLED)
            )
            self._is_users[path] = known
        return known

    def _data(self) -> dict[str, Any]:
        now, outside = _clock(), self._outside
        lines = {key: line.copy() for key, line in list(self._lines.items())}
        intervals = list(self._intervals)
        open_entries = [
            _OpenImport(entry.key, entry.name, entry.start, entry.nested) for entry in self._stack()
        ]
        while open_entries:  # the compile is inside of these
            self._add(open_entries.pop(), now, open_entries, lines, intervals)
        data = {
            "began": self._began_at,
            "until_compile": now - self._began,
            "seconds": _union(intervals),
            "outside_seconds": self._outside,
            "is_forked": self._is_forked,
            "more_lines": len(self._dropped),
            "lines": [
                {
                    "location": {"path": os.path.normpath(os.path.join(self._folder, path)), "line": number},
                    "modules": sorted(line.modules, key=lambda name: -line.modules[name])[:_MAX_MODULES],
                    "module_count": len(line.modules),
                    "seconds": line.seconds,
                    "own_seconds": line.own,
                }
                for (path, number), line in lines.items()
            ],
        }
        self._outside = outside
        return data


class _OpenImport:
    """An import that is going on."""

    __slots__ = ("key", "name", "nested", "start")

    def __init__(self, key: tuple[str, int] | None, name: str, start: float, nested: float = 0.0) -> None:
        self.key, self.name, self.start, self.nested = key, name, start, nested


class _Line:
    """The imports of one line."""

    __slots__ = ("modules", "own", "seconds")

    def __init__(self) -> None:
        self.seconds = self.own = 0.0
        self.modules: dict[str, float] = {}

    def copy(self) -> _Line:
        line = _Line()
        line.seconds, line.own, line.modules = self.seconds, self.own, dict(self.modules)
        return line


def _timed_manager(real: Any, times: ImportTimes) -> Any:
    """The class of the import system, whose objects also say when they are entered and left."""

    class Manager(real):  # type: ignore[misc]
        def __enter__(self) -> Any:
            self.entry = times.begin(self._name, sys._getframe(1))  # noqa: SLF001 - the frame that imports
            try:
                return super().__enter__()
            except BaseException:
                self._end()
                raise

        def __exit__(self, *error: object) -> Any:
            try:
                return super().__exit__(*error)
            finally:
                self._end()

        def _end(self) -> None:
            if self.entry is not None:
                times.end(self.entry)

    Manager.__name__ = Manager.__qualname__ = real.__name__
    return Manager


def _importer(frame: FrameType | None) -> FrameType | None:
    """The frame that imports: the first one outside of the import system."""
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        if not path.startswith("<frozen importlib") and not (
            code.co_name == "import_module"
            and path.endswith(("importlib/__init__.py", "importlib\\__init__.py"))
        ):
            return frame
        frame = frame.f_back
    return None


def _union(intervals: list[tuple[float, float]]) -> float:
    """The seconds in which at least one thread imported."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


_active: list[ImportTimes] = []


def install() -> ImportTimes:
    """Time the imports of this process from now on, if that has not begun."""
    if not _active:
        _active.append(ImportTimes())
        _active[0].install()
    return _active[0]


def active() -> ImportTimes | None:
    """The imports of this process; None if they are not timed."""
    return _active[0] if _active else None
