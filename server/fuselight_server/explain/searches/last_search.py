"""The last search of each target, kept in the workspace's `.fuselight/` folder.

Invariant: files are 0600 and replaced as a whole, the newest `KEPT` stay, and a damaged one reads as absent. Texts of
kernels, profiles and what the program printed are not kept.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.codec import decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import write_whole
from fuselight.shared.report import Output, Report, data_key
from fuselight_server.base.store import Store, files_of, is_own, make_folder, read_gzip
from fuselight_server.explain.benchmarks.history import UNREADABLE, relative

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = 50
"""Targets of one workspace: those whose last search is the oldest go."""
_MAX_BYTES = 64 * 1024 * 1024
"""Of one search, unpacked."""
_ENDING = ".json.gz"


def keep_search(store: Store, report: Report) -> None:
    """Keep a search in place of the last one of its target. Raises OSError."""
    tuned = report.tuned
    if tuned is None:
        return
    light = tuple(
        replace(
            candidate,
            configuration=replace(candidate.configuration, profile=None, generated=(), compile_steps=()),
        )
        for candidate in tuned.candidates
    )
    small = replace(report, texts={}, output=Output(), assembled={}, tuned=replace(tuned, candidates=light))
    data = json.dumps(encode(small), separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(data) > _MAX_BYTES:
        raise OSError(f"a search of {len(data):,} bytes is too large to be kept")
    store.prepare()
    folder = _folder(store)
    make_folder(folder)
    write_whole(_file(store, report.target.path, report.target.name), gzip.compress(data, 1))
    for path in _newest(store)[KEPT:]:
        path.unlink(missing_ok=True)


def kept_searches(store: Store) -> Iterator[Report]:
    """Yield the searches that can be read, the newest first."""
    for path in _newest(store)[:KEPT]:
        try:
            report: Report = decode(Report, parse_json(read_gzip(path, _MAX_BYTES)))
        except UNREADABLE:
            continue
        if report.tuned is not None:
            yield report


def forget_searches(store: Store) -> None:
    """Remove all searches that are kept in a store. Raises OSError."""
    folder = _folder(store)
    if not is_own(folder) or not folder.is_dir():
        return
    for path in files_of(folder, f"*{_ENDING}*"):
        path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _folder(store: Store) -> Path:
    return store.folder / "tune"


def _file(store: Store, path: str, target: str) -> Path:
    """By the file's path below the project."""
    key = data_key(f"{relative(store, path)}\0{target}".encode("utf-8", "surrogatepass"))
    return _folder(store) / f"{key}{_ENDING}"


def _newest(store: Store) -> list[Path]:
    def written(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:  # another process removed it
            return 0.0

    return sorted(files_of(_folder(store), f"*{_ENDING}"), key=written, reverse=True)
