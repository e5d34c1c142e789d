"""The folder of a sweep: its rows as JSON lines, and the lock that gives the folder to one sweep at a time.

Invariant: a row is on disk before it counts as done. A line that an interrupted write left behind is cut off, and its
task runs again. The newest row of a task counts. A damaged line never hides the others. No link is followed, and a file
that no sweep has written is neither cut nor replaced.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.folder_lock import try_lock
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import open_regular, open_to_append, read_regular, write_whole
from fuselight_server.base.store import FOLDER, check_not_a_link, is_own
from fuselight_server.sweep.engines import WorkerVersions
from fuselight_server.sweep.rows import SCHEMA, RowStatus, SweepAbout, SweepRow

ROWS, ABOUT, PAGE, MODELS, LOCK, TUNED = (
    "results.jsonl",
    "sweep.json",
    "sweep.html",
    "models",
    "lock",
    "fuselight-tuned.json",
)
_MAX_BYTES = 2**30
_MARK_BYTES = 1 << 16
"""Of a file's beginning, by which it is known as a sweep's."""
_HOLDER = re.compile(rb"\d+ on .*", re.DOTALL)


def _begins_with_row(data: bytes) -> bool:
    """Whether this begins as rows do; an interrupted write may have left a part of the first one."""
    line, _, _ = data.lstrip(b"\n").partition(b"\n")
    return line.startswith(_ROW_START) or (bool(line) and _ROW_START.startswith(line))


_ROW_START = b'{"id":'
_MARKS: Mapping[str, Callable[[bytes], object]] = {
    LOCK: _HOLDER.fullmatch,
    ROWS: _begins_with_row,
    ABOUT: lambda data: data.startswith(b"{") and b'"suite":' in data,
    PAGE: lambda data: b"uselight" in data,
}
"""What tells that a file of the folder is a sweep's, by name."""


class ResultsError(Exception):
    """The results cannot be read or written; the message says why, and what to do."""


@dataclass(frozen=True)
class SweepResults:
    """What a folder or a file has of a sweep."""

    name: str
    rows: tuple[SweepRow, ...]
    """The newest row of each task, in the order of their first rows."""
    about: SweepAbout
    """Suite, versions and command of the sweep, as far as they are known."""
    damaged: int = 0
    """Lines that could not be read."""


class ResultsFolder:
    """The folder of a running sweep, from `take` to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: BinaryIO | None = None
        self._file: BinaryIO | None = None
        self._end = 0
        self.damaged = 0
        """Lines of earlier rows that could not be read."""

    def take_folder(self) -> None:
        """Take the folder, which is made if need be. Raises ResultsError where another sweep has it."""
        try:
            if FOLDER in self.path.parts:
                check_not_a_link(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open_to_append(self.path / LOCK)
            if not try_lock(self._lock.fileno()):
                raise self._taken()
            self._check_files()
            self._lock.truncate(0)
            self._lock.write(f"{os.getpid()} on {platform.node()}".encode())
            self._lock.flush()
        except OSError as error:
            self.close()
            raise self._unwritable(error) from None
        except ResultsError:
            self.close()
            raise

    def _taken(self) -> ResultsError:
        return ResultsError(
            f"another sweep{self._holder()} is writing to {self.path}: wait until it ends, or choose another folder "
            "with --out"
        )

    def _check_files(self) -> None:
        """Raise ResultsError where a file that is to be written is no sweep's."""
        for name, is_ours in _MARKS.items():
            path = self.path / name
            try:
                data = read_regular(path, _MARK_BYTES, follow_link=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                with open_regular(path, follow_link=False) as file:
                    data = file.read(_MARK_BYTES)
            if data and not is_ours(data):
                raise ResultsError(
                    f"{path} is no file of a sweep: move it away, or choose another folder with --out"
                )

    def close(self) -> None:
        """Release the folder."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None

    def open_rows(self) -> tuple[SweepRow, ...]:
        """Return the newest row of each task of earlier runs, and get ready to append. Raises ResultsError."""
        try:
            self._file = open_to_append(self.path / ROWS)
            data = read_regular(self.path / ROWS, _MAX_BYTES + 1, follow_link=False)
            if len(data) > _MAX_BYTES:
                raise ResultsError(f"{self.path / ROWS} is larger than {_MAX_BYTES:,} bytes: move it away")
            whole = data[: data.rfind(b"\n") + 1]
            rows, self.damaged = read_rows(whole)
            self._end = len(whole)
            self._file.truncate(self._end)  # what an interrupted write left
        except OSError as error:
            raise self._unwritable(error) from None
        return newest(rows)

    def append(self, row: SweepRow) -> None:
        """Write a row, so that it survives a crash of this process and of the machine. Raises ResultsError."""
        if self._file is None:
            raise ResultsError(f"{self.path} is not open")
        data = (json.dumps(encode(row), separators=(",", ":")) + "\n").encode("ascii")
        try:
            left = memoryview(data)
            while left:  # past Python's buffer, which would write a lost half again
                left = left[os.write(self._file.fileno(), left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):  # half a row must not stay in front of the next one
                os.ftruncate(self._file.fileno(), self._end)
            raise self._unwritable(error) from None
        self._end += len(data)

    def write(self, name: str, text: str) -> Path:
        """Replace a file of the folder as a whole, and return its path. Raises ResultsError."""
        path = self.path / name
        try:
            write_whole(path, text.encode("utf-8", "backslashreplace"), mode=0o644)
        except OSError as error:
            raise self._unwritable(error) from None
        return path

    def has_rows(self) -> bool:
        """Whether an earlier sweep left rows."""
        path = self.path / ROWS
        return os.path.lexists(path) and path.lstat().st_size > 0

    def _holder(self) -> str:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = read_regular(self.path / LOCK, _MARK_BYTES, follow_link=False)[:200].decode().strip()
            return f" (process {text})" if text else ""
        return ""

    def _unwritable(self, error: OSError) -> ResultsError:
        kept, step = "", "Choose another folder with --out"
        with contextlib.suppress(OSError):
            if self.has_rows():
                kept, step = (
                    "Rows that were written are kept: ",
                    "make room there, or choose another folder with --out",
                )
        return ResultsError(f"cannot write results to {self.path}: {error.strerror or error}. {kept}{step}")


def read_rows(data: bytes) -> tuple[list[SweepRow], int]:
    """The rows of JSON lines, and the number of lines that are none.

    Raises ResultsError for rows of a newer version.
    """
    rows: list[SweepRow] = []
    damaged = 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            value = parse_json(line)
            if isinstance(value, dict) and value.get("schema", SCHEMA) > SCHEMA:
                raise ResultsError("the rows were written by a newer version of Fuselight: update Fuselight")
            rows.append(decode(SweepRow, value))
        except (ValueError, TypeError, DecodeError, RecursionError):
            damaged += 1
    return rows, damaged


def newest(rows: Iterable[SweepRow]) -> tuple[SweepRow, ...]:
    """The newest row of each task, in the order of their first rows."""
    return tuple({row.id: row for row in rows}.values())


def read_results(named: str) -> SweepResults:
    """Read the folder of a sweep, its JSON lines, or an export (`--format json`). Raises ResultsError."""
    path = Path(named)
    is_folder = path.is_dir()
    if is_folder:
        path = path / ROWS
    try:
        data = read_regular(path, _MAX_BYTES, follow_link=not is_folder)
    except OSError as error:
        raise ResultsError(
            f"{named} has no results of a sweep: {error.strerror or error}. Name the folder that `--out` named, its "
            f"{ROWS}, or a file of `fuselight sweep --format json`"
        ) from None
    about = _about_of(path.parent / ABOUT) if path.name == ROWS else SweepAbout()
    rows, damaged = read_rows(data)
    if not rows:
        rows, about = _export(data, about)
    if not rows:
        raise ResultsError(f"{named} has no row of a sweep: name the folder or the file of one that has run")
    return SweepResults(named, newest(rows), about, damaged)


def _export(data: bytes, about: SweepAbout) -> tuple[list[SweepRow], SweepAbout]:
    """Rows of an export, which is one JSON object."""
    try:
        value = parse_json(data)
        rows = [decode(SweepRow, row) for row in value["rows"]]
    except (ValueError, TypeError, KeyError, DecodeError, RecursionError):
        return [], about
    with contextlib.suppress(DecodeError):
        return rows, decode(SweepAbout, value["about"]) if value.get("about") else about
    return rows, about


def _about_of(path: Path) -> SweepAbout:
    try:
        return decode(SweepAbout, parse_json(read_regular(path, follow_link=False)))
    except (OSError, ValueError, DecodeError, RecursionError):
        return SweepAbout()


def earlier_sweep(sweeps: Path, suite: str, path: str) -> Path | None:
    """The newest folder of `sweeps` with a sweep of this suite: of its name, and of its path in `sweep.json`.

    `path`: where the suite is; the name itself of a built-in suite.
    """
    pattern = re.compile(rf"{re.escape(suite)}-\d{{8}}-\d{{6}}")
    with contextlib.suppress(OSError):
        check_not_a_link(sweeps)
        folders = [file for file in sweeps.iterdir() if pattern.fullmatch(file.name) and is_own(file)]
        for folder in sorted(folders, reverse=True):
            if _is_sweep_of(_about_of(folder / ABOUT).path, suite, path):
                return folder
    return None


def _is_sweep_of(recorded: str, suite: str, path: str) -> bool:
    if not recorded or "\0" in recorded:
        return False
    if path == suite:  # older versions recorded a built-in suite as a path that does not exist
        return recorded == suite or (Path(recorded).name == suite and not Path(recorded).exists())
    return os.path.realpath(recorded) == os.path.realpath(path)


def has_versions(row: SweepRow, versions: WorkerVersions | None) -> bool:
    """Whether a row compares with results of these versions: the same torch, and the same minor version of Python."""
    if versions is None or not row.python:  # unknown, or nothing ran
        return True
    return row.torch in (versions.torch or ("",)) and _minor(row.python) == _minor(versions.python)


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]


def is_settled(row: SweepRow, *, retry_failed: bool) -> bool:
    """Whether a resumed sweep leaves the task of a row as it is."""
    return row.status in {RowStatus.DONE, RowStatus.ABSENT} or not retry_failed
