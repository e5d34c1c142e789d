"""Reports of tier kernels, kept in the workspace: code that has not changed is not generated again.

Invariant: a hit means the same request, versions and variables, the same code of Fuselight's own, the same text of
every workspace file that ran, and unchanged library files. A folder that cannot be written or a damaged file is a miss
and is logged. The size is bounded: the oldest entries are removed.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.codec import DecodeError, decode, encode
from fuselight.report import VARIABLES, Report, Versions, data_key
from fuselight.version import code_key
from fuselight_server.files import read_regular
from fuselight_server.store import check_not_a_link, files_of, is_own, read_gzip, write_whole

if TYPE_CHECKING:
    from fuselight.protocol import RunRequest
    from fuselight_server.store import Store

_KEPT = 64
_MOST_BYTES = 256 * 1024 * 1024
_CHANGING = ("id", "generation", "overlays", "limits", "preload")
"""Fields of a request that decide nothing about what is generated; the text of buffers is compared file by file."""


@dataclass(frozen=True)
class Found:
    """What the cache had: a report, or why there is none."""

    report: Report | None
    why: str


@dataclass(frozen=True)
class _Kept:
    """What lies in a file of the cache."""

    report: Report
    libraries: dict[str, tuple[int, int]]
    """Files beside the workspace's that code came from: size and time of writing, nanoseconds."""


@dataclass(frozen=True)
class KernelCache:
    """One folder of reports. Nothing is created before something is kept."""

    folder: Path

    def find(self, request: RunRequest, versions: Versions) -> Found:
        """The report of an equal request, with the generation of this one."""
        path = self._path(request, versions)
        try:
            kept: _Kept = decode(_Kept, json.loads(read_gzip(path, _MOST_BYTES)))
        except FileNotFoundError:
            return Found(None, "not generated before with these inputs, device and versions")
        except (OSError, EOFError, zlib.error, ValueError, DecodeError, RecursionError) as error:
            with contextlib.suppress(OSError):
                path.unlink()
            return Found(None, f"what was kept cannot be read: {error}"[:300])
        report = kept.report
        changed = _changed(report, request.overlays) or _replaced(kept.libraries)
        if changed is not None:
            return Found(None, f"{Path(changed).name} has changed")
        with contextlib.suppress(OSError):
            path.touch()
        return Found(replace(report, generation=request.generation), "unchanged")

    def keep(self, request: RunRequest, report: Report) -> str | None:
        """Keep a report in which nothing failed. Returns why that is not possible, None where it is."""
        if report.failures or not report.files:
            return None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_not_a_link(self.folder)
            kept = encode(_Kept(report, _libraries(report)))
            data = json.dumps(kept, separators=(",", ":")).encode("utf-8", "surrogateescape")
            write_whole(self._path(request, report.versions), gzip.compress(data, compresslevel=1))
            self._drop_oldest()
        except OSError as error:
            return f"kernels cannot be kept in {self.folder}: {error.strerror or error}"
        return None

    def clear(self) -> None:
        """Remove everything that is kept."""
        for path in files_of(self.folder, "*.json.gz"):
            path.unlink(missing_ok=True)
        if is_own(self.folder):
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def _path(self, request: RunRequest, versions: Versions) -> Path:
        asked = {name: value for name, value in encode(request).items() if name not in _CHANGING}
        if request.inputs.main_line is None:
            asked.pop("automatic", None)  # it changes nothing but how far a `__main__` block runs
        whole = json.dumps(
            [code_key(), _variables(), type(request).__name__, asked, encode(versions)], sort_keys=True
        )
        return self.folder / f"{data_key(whole.encode('utf-8', 'surrogatepass'))}.json.gz"

    def _drop_oldest(self) -> None:
        kept = sorted(
            (
                (path.stat().st_mtime, path.stat().st_size, path)
                for path in files_of(self.folder, "*.json.gz")
            ),
            reverse=True,
        )
        total = 0
        for position, (_, size, path) in enumerate(kept):
            total += size
            if position >= _KEPT or total > _MOST_BYTES:
                path.unlink(missing_ok=True)


def _variables() -> dict[str, str]:
    """Return what the worker inherits that torch and its compilers read, but for where they keep things."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(VARIABLES) and not name.endswith(("_DIR", "_HOME"))
    }


def cache_of(store: Store) -> KernelCache:
    """The kernels that are kept in a store."""
    return KernelCache(store.folder / "kernels")


def keep(store: Store, request: RunRequest, report: Report) -> str | None:
    """Keep a report; returns why that is not possible. The store is made first: its folder is closed to others."""
    if report.failures or not report.files:
        return None
    try:
        store.prepare()
    except OSError as error:
        return f"kernels cannot be kept in {store.folder}: {error.strerror or error}"
    return cache_of(store).keep(request, report)


def _changed(report: Report, overlays: dict[str, str]) -> str | None:
    """The first file whose text is not the one that ran."""
    for path, key in report.files.items():
        text = overlays.get(path)
        try:
            data = read_regular(path) if text is None else text.encode("utf-8", "surrogatepass")
        except OSError:
            return path
        if data_key(data) != key:
            return path
    return None


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


def _replaced(libraries: dict[str, tuple[int, int]]) -> str | None:
    """The first file that is another one by now."""
    return next((path for path, stamp in libraries.items() if _stamp(path) != stamp), None)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
