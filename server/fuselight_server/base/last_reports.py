"""The last report of each target, kept in a folder of the workspace's `.fuselight/`.

Invariant: files are 0600 and replaced as a whole, the newest ones stay, and a damaged one reads as absent.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import write_whole
from fuselight.shared.report import Report, data_key
from fuselight_server.base.store import Store, files_of, is_own, make_folder, read_gzip

_MAX_BYTES = 64 * 1024 * 1024
"""Of one report, unpacked."""
_ENDING = ".json.gz"
_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, DecodeError, RecursionError)


@dataclass(frozen=True)
class LastReports:
    """The last reports of one kind of run in one store."""

    store: Store
    name: str
    """Of their folder in the store."""
    max_targets: int = 50
    """Targets of one workspace: those whose last report is the oldest go."""

    def keep_report(self, report: Report) -> None:
        """Keep a report in place of the last one of its target. Raises OSError."""
        data = json.dumps(encode(report), separators=(",", ":")).encode("utf-8", "surrogatepass")
        if len(data) > _MAX_BYTES:
            raise OSError(f"a report of {len(data):,} bytes is too large to be kept")
        self.store.prepare()
        make_folder(self._folder)
        write_whole(self._file(report.target.path, report.target.name), gzip.compress(data, 1))
        for path in self._newest()[self.max_targets :]:
            path.unlink(missing_ok=True)

    def reports(self) -> Iterator[tuple[Report, str]]:
        """Yield the reports that can be read, the newest first, with when each was written, in ISO 8601."""
        for path in self._newest()[: self.max_targets]:
            try:
                report: Report = decode(Report, parse_json(read_gzip(path, _MAX_BYTES)))
                written = path.stat().st_mtime
            except _UNREADABLE:
                continue
            yield report, datetime.fromtimestamp(written, timezone.utc).isoformat(timespec="seconds")

    def forget(self) -> None:
        """Remove all of them. Raises OSError."""
        if not is_own(self._folder) or not self._folder.is_dir():
            return
        for path in files_of(self._folder, f"*{_ENDING}*"):
            path.unlink(missing_ok=True)
        if not any(self._folder.iterdir()):
            self._folder.rmdir()

    @property
    def _folder(self) -> Path:
        return self.store.folder / self.name

    def _file(self, path: str, target: str) -> Path:
        """By the file's path below the project."""
        below = Path(os.path.relpath(os.path.realpath(path), self.store.folder.parent)).as_posix()
        key = data_key(f"{below}\0{target}".encode("utf-8", "surrogatepass"))
        return self._folder / f"{key}{_ENDING}"

    def _newest(self) -> list[Path]:
        def written(path: Path) -> float:
            try:
                return path.stat().st_mtime
            except OSError:  # another process removed it
                return 0.0

        return sorted(files_of(self._folder, f"*{_ENDING}"), key=written, reverse=True)
