"""What the server knows: one mutable `State` on the event loop, and the frozen `Snapshot` that features read.

Invariant: only the event loop's thread touches `State`. A feature gets a `Snapshot`, answers from it and changes
nothing. LSP types stay outside: clients' capabilities arrive here as plain values.
"""

from __future__ import annotations

import collections
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fuselight_server.settings import Settings
from fuselight_server.static.document import SourceDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fuselight_server.kernel_results import KernelResult
    from fuselight_server.measured_results import MeasuredResult
    from fuselight_server.places import Result
    from fuselight_server.runs import Key, Running
    from fuselight_server.static.moves import Change
    from fuselight_server.static.reading import Reading

LOG_LINES = 500
"""Lines of our own log that a problem report can show."""

RESULTS = 200
"""Targets whose last result is kept; the oldest goes first."""

KERNEL_RESULTS = 20
"""Targets whose kernels are kept: a report with the source of a thousand kernels has some megabytes."""


MEASURED_RESULTS = 20
"""Targets whose benchmarks are kept; the workspace's folder has more of them."""


@dataclass
class Document:
    """One open document."""

    uri: str
    path: str
    """Absolute path for a file; the URI itself where a run has no file to import."""
    version: int
    source: SourceDocument
    runnable: bool
    """Whether it is a file on disk; untitled buffers and notebook cells are not."""

    def reading(self) -> Reading:
        """Read the source as it is now."""
        return self.source.reading()

    def line(self, number: int) -> str | None:
        """Text of the 1-based line without its end; None beyond the last one."""
        if not 0 < number <= self.source.line_count:
            return None
        return self.source.line_bytes(number).decode("utf-8", "surrogatepass")


@dataclass
class Folder:
    """One workspace folder, or the folder of a file that lies outside any."""

    path: str
    uri: str | None
    settings: Settings = field(default_factory=Settings)
    consent: str = "unknown"
    """`unknown`, `run`, `never`, or `later`: not before the user asks for a run."""
    problem: str | None = None
    """Why no run can work here, as a missing torch."""
    torch: str | None = None
    """Version of torch that the worker said hello with."""


@dataclass
class ClientFeatures:
    """What the client can do, as plain values."""

    push: bool = True
    configuration: bool = False
    progress: bool = False
    lens_refresh: bool = False
    watch: bool = False
    diagnostic_refresh: bool = False
    confirm_run: bool = False
    commands: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Snapshot:
    """One document and all that features may say about it."""

    document: Document
    reading: Reading
    settings: Settings
    results: Mapping[Key, Result]
    """Results that say something about this file."""
    running: Mapping[Key, Running]
    client: ClientFeatures
    can_run: bool
    """Whether a run may be offered: the file is on disk and the workspace is trusted."""
    kernels: Mapping[Key, KernelResult] = field(default_factory=dict)
    """Results of tier kernels that say something about this file."""
    measured: Mapping[Key, MeasuredResult] = field(default_factory=dict)
    """Benchmarks that say something about this file."""
    waiting: frozenset[Key] = frozenset()
    """Runs of this file's targets that others go before."""

    @property
    def path(self) -> str:
        """The document's path."""
        return self.document.path

    def line(self, number: int) -> str | None:
        """Text of the 1-based line."""
        return self.document.line(number)


class State:
    """Documents, folders, results and the log."""

    def __init__(self) -> None:
        """Start with nothing open."""
        self.documents: dict[str, Document] = {}
        self.folders: dict[str, Folder] = {}
        self.results: dict[Key, Result] = {}
        self.kernels: dict[Key, KernelResult] = {}
        self.measured: dict[Key, MeasuredResult] = {}
        self.client = ClientFeatures()
        self.trusted = True
        self.storage: str | None = None
        self.client_settings: object = None
        """The settings that came with the start, for a client that cannot be asked."""
        self.log_lines: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        self.on_log: Callable[[str], None] = lambda _line: None
        self._by_path: dict[str, Document] = {}

    def log(self, line: str) -> None:
        """Keep a line for a problem report and show it in the client's log."""
        self.log_lines.append(f"{time.strftime('%H:%M:%S')} {line}")
        self.on_log(line)

    def open(self, document: Document) -> None:
        """Take in an opened document."""
        self.documents[document.uri] = document
        self._by_path[document.path] = document

    def close(self, uri: str) -> Document | None:
        """Forget a closed document; None if it was not open."""
        document = self.documents.pop(uri, None)
        if document is not None and self._by_path.get(document.path) is document:
            del self._by_path[document.path]
        return document

    def at(self, path: str) -> Document | None:
        """Return the open document of a path."""
        return self._by_path.get(path)

    def change(self, path: str, change: Change) -> None:
        """Move what is known for one change of an open document."""
        for result in self.everything():
            result.change(path, change)

    def keep(self, result: Result) -> frozenset[str]:
        """Put a result in place of the older one of its target, which stands on if the new one learnt nothing.

        Returns the files of results that had to go, as there are too many.
        """
        older = self.results.pop(result.key, None)
        if older is not None and not result.learnt:
            result.earlier = older if older.learnt else older.earlier
            if result.earlier is not None:
                result.earlier.stale = True
        self.results[result.key] = result
        gone: set[str] = set()
        while len(self.results) > RESULTS:
            gone |= self.results.pop(next(iter(self.results))).paths()
        return frozenset(gone)

    def everything(self) -> Iterator[Result | KernelResult | MeasuredResult]:
        """Yield every result, of whichever tier."""
        yield from self.results.values()
        yield from self.kernels.values()
        yield from self.measured.values()

    def keep_kernels(self, result: KernelResult) -> frozenset[str]:
        """Put a result of tier kernels in place of the older one of its target.

        Returns the files of results that had to go, as there are too many.
        """
        return _keep(self.kernels, result, KERNEL_RESULTS)

    def keep_measured(self, result: MeasuredResult) -> frozenset[str]:
        """Put a benchmark in place of the older one of its target, and return as `keep_kernels` does."""
        return _keep(self.measured, result, MEASURED_RESULTS)

    def forget(self, path: str) -> frozenset[str]:
        """Drop what is known of a file or folder that is gone; return the files that showed it."""
        shown: set[str] = {path}
        for key in [key for key in self.results if within(key.path, path)]:
            shown |= self.results.pop(key).paths()
        for kept in (self.kernels, self.measured):
            for key in [key for key in kept if within(key.path, path)]:
                shown |= kept.pop(key).paths()
        for result in self.everything():
            for one in [one for one in result.paths() | result.depends if within(one, path)]:
                result.forget(one)
                shown.add(one)
        return frozenset(shown)

    def folder_of(self, path: str) -> Folder:
        """Return the innermost workspace folder of `path`; outside any, the file's own folder."""
        holds = [folder for folder in self.folders.values() if folder.uri and within(path, folder.path)]
        if holds:
            return max(holds, key=lambda folder: len(folder.path))
        own = os.path.dirname(path)  # noqa: PTH120 - paths stay text
        if own not in self.folders:
            outside = self.folders.get("")
            settings = outside.settings if outside else Settings()
            self.folders[own] = Folder(path=own, uri=None, settings=settings)
        return self.folders[own]

    def snapshot(
        self, uri: str, running: Mapping[Key, Running], waiting: Iterable[Key] = ()
    ) -> Snapshot | None:
        """Return what features may say of an open document; None if it is not open."""
        document = self.documents.get(uri)
        if document is None:
            return None
        path = document.path
        results = {
            key: result
            for key, result in self.results.items()
            if key.path == path or path in result.depends or path in result.paths()
        }
        return Snapshot(
            document=document,
            reading=document.reading(),
            settings=self.folder_of(path).settings if document.runnable else self.outside_settings(),
            results=results,
            running={key: run for key, run in running.items() if key.path == path},
            client=self.client,
            can_run=document.runnable and self.trusted,
            kernels={
                key: result
                for key, result in self.kernels.items()
                if key.path == path or path in result.paths()
            },
            measured={
                key: result
                for key, result in self.measured.items()
                if key.path == path or path in result.paths()
            },
            waiting=frozenset(key for key in waiting if key.path == path),
        )

    def outside_settings(self) -> Settings:
        """Return the settings of what lies in no folder."""
        outside = self.folders.get("")
        return outside.settings if outside else Settings()

    def read_line(self, path: str, line: int) -> str | None:
        """Text of a 1-based line, from the editor if the file is open there, else from the disk."""
        document = self.at(path)
        if document is not None:
            return document.line(line)
        lines = disk_lines(path)
        return lines[line - 1] if 0 < line <= len(lines) else None

    def overlays(self, roots: tuple[str, ...], also: str) -> dict[str, str]:
        """Texts of the open files under `roots` (and `also`) that are not on disk as the editor has them."""
        return {
            document.path: document.source.text
            for document in self.documents.values()
            if document.runnable
            and (document.path == also or any(within(document.path, root) for root in roots))
            and disk_text(document.path) != document.source.text
        }


Kept = TypeVar("Kept", "KernelResult", "MeasuredResult")


def _keep(kept: dict[Key, Kept], result: Kept, most: int) -> frozenset[str]:
    """Keep a result; where it is not whole, or learnt nothing, with the last one that is."""
    older = kept.pop(result.key, None)
    if older is not None:
        result.follow(older)
    kept[result.key] = result
    gone: set[str] = set()
    while len(kept) > most:
        gone |= kept.pop(next(iter(kept))).paths()
    return frozenset(gone)


_LINE_END = re.compile(r"\r\n|\n|\r")
_DISK: collections.OrderedDict[str, tuple[tuple[int, int], list[str]]] = collections.OrderedDict()
_DISK_FILES = 64


def disk_lines(path: str) -> list[str]:
    """Lines of a file on disk, kept until its time or size changes; empty when it cannot be read."""
    try:
        stat = Path(path).stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        kept = _DISK.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        text = Path(path).read_bytes().decode("utf-8-sig", "replace")
        lines = split_text(text)
    except OSError:
        return []
    _DISK[path] = (stamp, lines)
    while len(_DISK) > _DISK_FILES:
        _DISK.popitem(last=False)
    return lines


def split_text(text: str) -> list[str]:
    """Lines as Python and editors count them: a form feed or U+2028 ends none."""
    return _LINE_END.split(text)


def disk_text(path: str) -> str | None:
    """Text of a file on disk as an editor would open it; None when it cannot be read as UTF-8."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/\\") + os.sep)
