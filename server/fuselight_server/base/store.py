"""The workspace's `.fuselight/` folder, with the report of the last `fuselight run`.

The folder holds the user's code: mode 0700, files 0600, and a .gitignore that keeps it out of a repository. Invariant:
files are replaced as a whole and bounded in size, a damaged one reads as absent, and no link is followed: a repository
may bring a `.fuselight` that leads anywhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json, unpack
from fuselight.shared.foreign_files import LEFT, STORE, open_regular, project_root, read_regular, write_whole
from fuselight.shared.kernel_calls import calls_of_notebook
from fuselight.shared.notebooks.cells import SUFFIX, NotebookError, read_cells
from fuselight.shared.report import Report, text_key

FOLDER = STORE
REPORT = "last-run.json"
TESTS = "tests.json"
"""The failed tests of the last sessions (commands/compile_tests.py)."""
_MAX_BYTES = 32 * 1024 * 1024
_LEFT_SECONDS = 3600
"""Age from which a file that is being written is taken for one whose writer was killed."""


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
        make_folder(self.folder)
        ignore = self.folder / ".gitignore"
        if not os.path.lexists(ignore):
            write_whole(ignore, b"*\n")
        remove_left(self._left())

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
        return read_report(self.report_path) if is_own(self.folder) else None

    def clear(self) -> None:
        """Remove the files of the store."""
        if not is_own(self.folder):
            return
        for path in (self.report_path, self.folder / TESTS, self.folder / ".gitignore", *self._left()):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _left(self) -> list[Path]:
        """Files that are being written, or that writers which were killed have left."""
        return files_of(self.folder, f"*{LEFT}")


def read_report(path: Path) -> Report | None:
    """A report from a file that anything may have happened to: None if absent, damaged or too large."""
    try:
        report = decode(Report, parse_json(read_regular(path, _MAX_BYTES, follow_link=False)))
    except (OSError, ValueError, DecodeError, RecursionError):
        return None
    return report if all(0 <= record.frame < len(report.frames) for record in report.compiles) else None


def is_own(folder: Path) -> bool:
    """Whether a folder of the store lies in the workspace: no folder from `.fuselight` down to it is a link."""
    while folder.name != FOLDER and folder != folder.parent:
        if os.path.islink(folder):  # noqa: PTH114 - it raises nothing
            return False
        folder = folder.parent
    return not os.path.islink(folder)  # noqa: PTH114 - the same


def check_not_a_link(folder: Path) -> None:
    """Raise OSError where a folder of the store is a link."""
    if not is_own(folder):
        raise OSError(errno.ELOOP, "it is a link, which Fuselight does not follow", str(folder))


def make_folder(folder: Path) -> None:
    """Make a folder of the store, closed to others. Raises OSError where a folder down to it is a link."""
    check_not_a_link(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_not_a_link(folder)


def files_of(folder: Path, pattern: str) -> list[Path]:
    """List the files of a folder of the store; none if the folder is a symbolic link."""
    return list(folder.glob(pattern)) if is_own(folder) else []


def remove_left(paths: Iterable[Path]) -> None:
    """Remove files that writers which were killed have left: not those that are being written."""
    for path in paths:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                path.unlink()


def read_gzip(path: Path, limit: int) -> bytes:
    """Unpack a file of the store. Raises OSError; a linked folder counts as missing."""
    if not is_own(path.parent):
        raise FileNotFoundError(errno.ENOENT, "the folder is a symbolic link", str(path))
    with open_regular(path, follow_link=False) as packed:
        return unpack(packed, limit)


def recorded_calls(report: Report | None, path: str) -> dict[str, tuple[str, ...]]:
    """The calls in `path` that a run recorded, by target name, for the ladder's rung `recorded`.

    Of a notebook, those that its own kernel has recorded come first.
    """
    return {**_calls_of_run(report, path), **(_calls_of_kernel(path) if path.endswith(SUFFIX) else {})}


def _calls_of_kernel(path: str) -> dict[str, tuple[str, ...]]:
    try:
        cells = read_cells(read_regular(path))
    except (OSError, NotebookError):
        return {}
    return calls_of_notebook(path, {text_key(cell.text) for cell in cells})


def _calls_of_run(report: Report | None, path: str) -> dict[str, tuple[str, ...]]:
    calls: dict[str, dict[str, None]] = {}
    for recorded_call in report.recorded if report is not None else ():
        if os.path.realpath(recorded_call.path) == os.path.realpath(path):
            calls.setdefault(recorded_call.target, {})[recorded_call.text] = None
    return {name: tuple(calls) for name, calls in calls.items()}


def _dump(report: Report) -> bytes:
    return json.dumps(encode(report), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogateescape"
    )
