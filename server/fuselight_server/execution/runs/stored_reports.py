"""Reports in a folder of the workspace's store, each with what it takes to know that its sources are unchanged.

Among them the last capture of each target: a new session shows its findings without a run. Invariant: the number and
size of the files are bounded, the oldest go first; a damaged file is removed and counts as missing. No link is
followed. A capture is returned only where every file that ran has the text that ran, by its hash, and the same code of
Fuselight's own made it. It answers `fuselight check` only if this user's Fuselight signed it and the run would be the
same (repeated_runs.py). What the program printed is not kept.
"""

from __future__ import annotations

import contextlib
import gzip
import hmac
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.folder_lock import locked_folder
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import LEFT, read_regular, signature, write_whole
from fuselight.shared.report import Output, Report, TargetRef, Tier, data_key
from fuselight.shared.version import code_key
from fuselight_server.base.store import Store, files_of, is_own, make_folder, read_gzip, remove_left
from fuselight_server.execution.runs.repeated_runs import RunRecord

UNREADABLE = (OSError, EOFError, zlib.error, ValueError, DecodeError, RecursionError)
"""What reading a damaged report raises."""


_MAX = 256
"""Captures that are kept."""
_MAX_BYTES = 32 * 1024 * 1024
_MAX_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class StoredReport:
    """One file of the folder."""

    report: Report
    libraries: dict[str, tuple[int, int]]
    """Installed files that code came from: size and time of writing, nanoseconds."""
    run: RunRecord | None = None
    """What a run must have in common with this one to give the same report; None if that is not known."""
    signed: str = ""
    """The signature of the report and of `run`."""

    def changed_file(self, texts: Mapping[str, str]) -> str | None:
        """Return the first file that is not as it ran: by its hash, or by its stamp for an installed file.

        `texts` are used in place of the files on disk.
        """
        for path, key in self.report.files.items():
            text = texts.get(path)
            try:
                data = read_regular(path) if text is None else text.encode("utf-8", "surrogatepass")
            except OSError:
                return path
            if data_key(data) != key:
                return path
        return next((path for path, stamp in self.libraries.items() if _stamp(path) != stamp), None)


@dataclass(frozen=True)
class StoredReports:
    """One folder of reports. Nothing is created before a report is kept."""

    folder: Path
    most: int
    """Reports that are kept."""
    most_bytes: int
    """Size of all of them on disk."""
    most_seconds: float = float("inf")
    """Age from which a report is removed."""

    def files(self) -> list[Path]:
        """Return the files that are within the bounds, the newest first."""
        return self._sorted()[0]

    def path(self, name: str) -> Path:
        """Return the file of a report."""
        return self.folder / f"{name}.json.gz"

    def read(self, path: Path) -> StoredReport:
        """Read a file, and remove it if it is damaged. One without a valid signature has no `run`.

        Raises one of UNREADABLE.
        """
        try:
            data = parse_json(read_gzip(path, self.most_bytes))
            stored: StoredReport = decode(StoredReport, data)
            if stored.run is not None and not _is_signed(data):
                stored = replace(stored, run=None)
            if any(not 0 <= record.frame < len(stored.report.frames) for record in stored.report.compiles):
                raise ValueError("a compile of no frame")
        except FileNotFoundError:
            raise
        except UNREADABLE:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return stored

    def keep_report(self, name: str, report: Report, run: RunRecord | None = None) -> str:
        """Replace the report of this name; returns its signature, empty without `run`. Raises OSError."""
        make_folder(self.folder)
        stored = encode(StoredReport(report, _libraries(report), run))
        if run is not None:
            stored["signed"] = signature(_signed_part(stored), create=True)
        data = json.dumps(stored, separators=(",", ":")).encode("utf-8", "surrogateescape")
        write_whole(self.path(name), gzip.compress(data, compresslevel=1))
        for path in self._sorted()[1]:
            path.unlink(missing_ok=True)
        remove_left(files_of(self.folder, f"*{LEFT}"))
        return str(stored.get("signed", ""))

    def clear(self) -> None:
        """Remove every report."""
        for path in (*files_of(self.folder, "*.json.gz"), *files_of(self.folder, f"*{LEFT}")):
            path.unlink(missing_ok=True)
        if is_own(self.folder):
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def _sorted(self) -> tuple[list[Path], list[Path]]:
        """Return the files within the bounds, the newest first, and the others."""
        entries = []
        for path in files_of(self.folder, "*.json.gz"):
            with contextlib.suppress(OSError):  # another window removes its oldest
                entries.append((path.stat().st_mtime, path.stat().st_size, path))
        kept: list[Path] = []
        others: list[Path] = []
        total = 0
        for written, size, path in sorted(entries, reverse=True):
            total += size
            fits = len(kept) < self.most and total <= self.most_bytes
            (kept if fits and time.time() - written < self.most_seconds else others).append(path)
        return kept, others


def _signed_part(stored: Mapping[str, Any]) -> bytes:
    """What a signature covers."""
    part = {name: stored.get(name) for name in ("report", "libraries", "run")}
    return json.dumps(part, sort_keys=True, separators=(",", ":")).encode("ascii")


def _is_signed(stored: Mapping[str, Any]) -> bool:
    try:
        expected = signature(_signed_part(stored))
    except OSError:
        return False
    return expected is not None and hmac.compare_digest(str(stored.get("signed")).encode(), expected.encode())


def _libraries(report: Report) -> dict[str, tuple[int, int]]:
    """Return the state of the installed files whose lines were compiled: an upgrade rewrites them."""
    paths = {frame.location.path for frame in report.frames}
    paths |= {
        at.path
        for graph in report.generated
        for kernel in graph.kernels
        for operator in kernel.operators
        for at in operator.stack
    }
    stamps = {path: _stamp(path) for path in sorted(paths - report.files.keys())}
    return {path: stamp for path, stamp in stamps.items() if stamp is not None}


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def stored_captures(store: Store) -> StoredReports:
    """Return the captures that are kept in a store."""
    return StoredReports(store.folder / "captures", _MAX, _MAX_BYTES, _MAX_SECONDS)


def keep_capture(store: Store, report: Report, run: RunRecord | None = None) -> str:
    """Keep a capture in place of the last one of its target; returns its key, empty without `run`. Raises OSError."""
    if not report.files:
        return ""
    store.prepare()
    light = replace(report, output=Output(), texts={}, reads=None)
    with locked_folder(str(store.folder)):
        return stored_captures(store).keep_report(_name(report.target), light, run)


def keep_trials(store: Store, target: TargetRef, report: Report) -> str:
    """Keep further trials in the capture of a target; returns its new key. Raises one of UNREADABLE."""
    captures = stored_captures(store)
    path = captures.path(_name(target))
    with locked_folder(str(store.folder)):  # else a run that is kept meanwhile would be lost
        stored, status = captures.read(path), path.stat()
        if stored.report.files != report.files:
            raise ValueError("another run has replaced the capture")
        tried = replace(stored.report, trials=report.trials, problems=report.problems)
        key = captures.keep_report(_name(target), tried, stored.run)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the run is as old as it was
    return key


def has_captures(store: Store) -> bool:
    """Whether any capture is kept."""
    return bool(stored_captures(store).files())


@dataclass(frozen=True)
class RepeatedCapture:
    """The report that a run would give again."""

    report: Report
    captured_at: datetime
    key: str
    """Its signature, which no other capture has."""


def repeated_capture(store: Store, target: TargetRef, identity: str) -> RepeatedCapture | None:
    """The report that a run of this identity would give again; None if a run is needed."""
    captures = stored_captures(store)
    path = captures.path(_name(target))
    try:
        stored = captures.read(path)
        moment = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    except UNREADABLE:
        return None
    run = stored.run
    if run is None or run.identity != identity or stored.report.target != target:
        return None
    if time.time() - moment.timestamp() > _MAX_SECONDS or not stored.report.files:
        return None
    is_same = stored.changed_file({}) is None and run.is_current()
    return RepeatedCapture(stored.report, moment, stored.signed) if is_same else None


def unchanged_captures(store: Store) -> Iterator[tuple[Report, str]]:
    """Yield the captures whose sources are unchanged on disk, and when each was made: ISO 8601, UTC."""
    captures = stored_captures(store)
    for path in captures.files():
        try:
            stored = captures.read(path)
            moment = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        except UNREADABLE:
            continue
        report = stored.report
        is_one = report.tier is Tier.CAPTURE and captures.path(_name(report.target)) == path
        if is_one and report.files and stored.changed_file({}) is None:
            yield report, moment.isoformat()


def _name(target: TargetRef) -> str:
    return data_key(f"{code_key()}\0{target.path}\0{target.name}".encode("utf-8", "surrogatepass"))
