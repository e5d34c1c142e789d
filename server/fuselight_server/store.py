"""The workspace's `.fuselight/` folder: what the last `fuselight run` learnt.

The editor shows it, and the ladder of inputs takes recorded calls from it.
It holds the user's code, so: mode 0700, files 0600, and a .gitignore of its own that keeps all of it out of a
repository. Invariant: files are replaced as a whole and bounded in size; a damaged one reads as absent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
import time
from pathlib import Path

from fuselight.codec import DecodeError, decode, encode
from fuselight.report import Report

FOLDER = ".fuselight"
REPORT = "last-run.json"
_MAX_BYTES = 32 * 1024 * 1024
_LEFT = ".new"
_LEFT_SECONDS = 3600
"""Age from which a file that is being written is taken for one whose writer was killed."""
_ROOT_MARKS = (FOLDER, ".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")


def project_root(path: Path) -> Path:
    """The nearest folder at or above `path` that looks like a project's; else the file's own folder."""
    start = path if path.is_dir() else path.parent
    start = start.resolve()
    home = Path.home()
    for folder in (start, *start.parents):
        if folder == home and folder != start:
            break
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    return start


@dataclasses.dataclass(frozen=True)
class Store:
    """One `.fuselight/` folder. Nothing is created before something is written."""

    folder: Path

    @classmethod
    def at(cls, root: Path) -> Store:
        """The store of a project root."""
        return cls(root / FOLDER)

    @classmethod
    def of(cls, path: Path) -> Store:
        """The store that serves a file: the nearest one at or above it, else that of its project root."""
        return cls.at(project_root(path))

    @property
    def report_path(self) -> Path:
        """Where the last run's report lies."""
        return self.folder / REPORT

    def prepare(self) -> None:
        """Create the folder, closed to others and invisible to git. Raises OSError."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            write_whole(ignore, b"*\n")
        for left in self._left():
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                    left.unlink()

    def write_report(self, report: Report) -> None:
        """Keep a run's report in place of the last one; texts are left out where it would be too large."""
        self.prepare()
        data = _dump(report)
        if len(data) > _MAX_BYTES:
            data = _dump(dataclasses.replace(report, texts={}))
        if len(data) <= _MAX_BYTES:
            write_whole(self.report_path, data)

    def read_report(self) -> Report | None:
        """The last run's report; None where there is none that can be read."""
        return read_report(self.report_path)

    def clear(self) -> None:
        """Remove what the store holds."""
        for path in (self.report_path, self.folder / ".gitignore", *self._left()):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _left(self) -> list[Path]:
        """What writers that were killed have left, and what one that is at it has so far."""
        return [path for name in (REPORT, ".gitignore") for path in self.folder.glob(f"{name}*{_LEFT}")]


def read_report(path: Path) -> Report | None:
    """A report from a file that anything may have happened to: None if absent, damaged or too large."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        return decode(Report, json.loads(path.read_bytes()))
    except (OSError, ValueError, DecodeError, RecursionError):
        return None


def recorded_calls(report: Report | None, path: str) -> dict[str, tuple[str, ...]]:
    """The calls in `path` that a run recorded, by target name, for the ladder's rung `recorded`."""
    if report is None:
        return {}
    out: dict[str, list[str]] = {}
    for one in report.recorded:
        if os.path.realpath(one.path) == os.path.realpath(path):
            calls = out.setdefault(one.target, [])
            if one.text not in calls:
                calls.append(one.text)
    return {name: tuple(calls) for name, calls in out.items()}


def _dump(report: Report) -> bytes:
    return json.dumps(encode(report), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogateescape"
    )


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole: a reader sees the old one or the new one. mkstemp makes it 0600."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=_LEFT)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
