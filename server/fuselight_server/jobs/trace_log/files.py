"""Finds and opens the logs of a job.

Invariant: files of others are opened by the rules of `foreign_files` (regular files only, never waiting, judged by the
open descriptor), and a folder gives nothing that lies outside it. Logs have no bound in size: they are only streamed.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fuselight.shared.foreign_files import open_regular
from fuselight_server.jobs.trace_log.model import LogNote, NoteKind

MAX_FILES = 20_000
MAX_ENTRIES = 500_000
"""Names in a folder and below that are looked at."""
MAX_DEPTH = 8
MAX_UNPACKED = 64 << 30
"""Bytes of one unpacked file that are read: a small packed file can unpack to any size."""
_NAMED = re.compile(r"(?:dedicated_log_torch_trace_.*\.log|raw\.log)(?:\.gz)?$")
_ANY = re.compile(r".*\.log(?:\.gz)?$")
_HEAD = re.compile(rb"(?:\[rank\d+\]:)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\n]*?\] \{\"")
_RANK = re.compile(r"(?:^|_)rank_?(\d+)(?=_|\.|$)")
_PACKED = b"\x1f\x8b"
_SAMPLE = 4096


class LogError(Exception):
    """Nothing can be read: the message says why, and what to do."""


@dataclass(frozen=True)
class LogFile:
    """A log that was found: its path, its size on disk and the rank in its name or in that of its folder."""

    path: str
    size: int
    rank: int | None


@dataclass(frozen=True)
class FoundLogs:
    """The logs of the paths that were named."""

    files: tuple[LogFile, ...]
    notes: tuple[LogNote, ...]


def find_logs(paths: Sequence[str | os.PathLike[str]]) -> FoundLogs:
    """The logs that the paths name or contain. Raises LogError where there are none."""
    files: dict[str, LogFile] = {}
    notes: list[LogNote] = []
    for path in (os.fspath(path) for path in paths):
        is_folder = Path(path).is_dir()
        folder = list(_in_folder(path, notes)) if is_folder else [path]
        for name in folder[: MAX_FILES - len(files)]:
            file = _log_file(name, notes, is_named=not is_folder)
            if file is not None:
                files.setdefault(file.path, file)
        if len(folder) > MAX_FILES:
            message = f"The folder has more than {MAX_FILES:,} logs: the others are not read."
            notes.append(LogNote(NoteKind.TOO_MANY_FILES, message, path))
    if not files:
        raise LogError(_nothing(paths))
    return FoundLogs(tuple(files.values()), tuple(notes))


def _nothing(paths: Sequence[str | os.PathLike[str]]) -> str:
    named = ", ".join(f"`{os.fspath(path)}`" for path in paths[:3])
    return (
        f"{named} has no log of torch.compile. Run the job with `TORCH_TRACE=FOLDER`, then open that folder."
    )


def _log_file(name: str, notes: list[LogNote], *, is_named: bool) -> LogFile | None:
    try:
        with open_regular(name) as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        if is_named:
            raise LogError(f"`{name}` cannot be read: {_cause(error)}. Check the path.") from None
        notes.append(LogNote(NoteKind.UNREADABLE_FILE, f"The file cannot be read: {_cause(error)}.", name))
        return None
    return LogFile(name, size, _rank_in(name))


def _cause(error: OSError) -> str:
    return error.strerror or str(error)


def _rank_in(name: str) -> int | None:
    """The rank of a log: in its name, or in the name of its folder as tlparse writes it."""
    path = Path(name)
    match = _RANK.search(path.name) or _RANK.fullmatch(path.parent.name)
    return None if match is None or len(match[1]) > 9 else int(match[1])  # noqa: PLR2004 - a number of any length


def _in_folder(folder: str, notes: list[LogNote]) -> Iterator[str]:
    """The logs in a folder and below, by name: those with torch's names, else any that look like one."""
    names = files_below(folder, _ANY, notes)
    named = [name for name in names if _NAMED.match(Path(name).name)]
    yield from named or (name for name in names if _looks_like_log(name))


def _natural(name: str) -> list[tuple[int, str]]:
    """Orders `rank_2` before `rank_10`."""
    return [(int(part[:18]), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def files_below(folder: str, name: re.Pattern[str], notes: list[LogNote]) -> list[str]:
    """The files in a folder and below whose names match, in the order of the numbers in their paths.

    What was left out for a bound, or as a link to a place outside, is added to the notes.
    """
    return sorted(_walk(folder, name, notes), key=_natural)


def _walk(folder: str, pattern: re.Pattern[str], notes: list[LogNote]) -> Iterator[str]:
    root = os.path.realpath(folder)
    depth = folder.rstrip(os.sep).count(os.sep)
    seen = 0
    for above, folders, names in os.walk(folder):
        seen += len(names) + len(folders)
        if seen > MAX_ENTRIES:
            message = f"The folder has more than {MAX_ENTRIES:,} files: the others are not read."
            notes.append(LogNote(NoteKind.TOO_MANY_FILES, message, folder))
            return
        if above.count(os.sep) - depth >= MAX_DEPTH:
            folders.clear()
        folders.sort()
        for name in names:
            path = str(Path(above, name))
            if not pattern.match(name):
                continue
            if Path(path).is_symlink() and not _is_inside(os.path.realpath(path), root):
                message = "The file is a link to a place outside the folder: it is not read."
                notes.append(LogNote(NoteKind.LINK, message, path))
                continue
            yield path


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _looks_like_log(name: str) -> bool:
    try:
        with closing(LogStream(name)) as stream:
            return _HEAD.match(stream.read(_SAMPLE)) is not None
    except OSError:
        return False


class LogStream:
    """The unpacked bytes of a log, read forward. Raises OSError, also for a damaged packed file."""

    def __init__(self, path: str) -> None:
        """Open the file."""
        self._file: BinaryIO = open_regular(path)
        start = self._file.read(len(_PACKED))
        self._file.seek(0)
        self.is_packed = start == _PACKED
        self._stream: BinaryIO | gzip.GzipFile = (
            gzip.GzipFile(fileobj=self._file, mode="rb") if self.is_packed else self._file
        )
        self.offset = 0
        """Unpacked bytes that were read."""

    def read(self, size: int) -> bytes:
        """`size` further bytes, fewer before the end or before damage; none at the end."""
        if self.offset >= MAX_UNPACKED:
            return b""
        data = self._unpacked(size) if isinstance(self._stream, gzip.GzipFile) else self._stream.read(size)
        self.offset += len(data)
        return data

    def _unpacked(self, size: int) -> bytes:
        stream, parts, left = self._stream, [], size
        try:
            while left and (part := stream.read1(left)):  # type: ignore[union-attr]
                parts.append(part)
                left -= len(part)
        except (EOFError, OSError, zlib.error) as error:
            if not parts:  # else the next reading meets it again
                raise OSError(f"the packed file is damaged or cut: {error}") from None
        return b"".join(parts)

    def seek(self, offset: int) -> None:
        """Go to an offset of the unpacked bytes; going back in a packed file unpacks it from its start."""
        try:
            self._stream.seek(offset)
        except (EOFError, zlib.error) as error:
            raise OSError(f"the packed file is damaged or cut: {error}") from None
        self.offset = offset

    @property
    def position(self) -> int:
        """Bytes of the file on disk that were read."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
