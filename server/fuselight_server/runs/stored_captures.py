"""The last capture of each target, kept in the workspace's store: a new session shows its findings without a run.

Invariant: a capture is returned only where every file that ran has the text that ran, by its hash, and the same code of
Fuselight's own made it. What the program printed is not kept.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from fuselight.report import Output, Report, TargetRef, Tier, data_key
from fuselight.version import code_key
from fuselight_server.runs.stored_reports import UNREADABLE, StoredReports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.store import Store

_MOST = 64
_MOST_BYTES = 16 * 1024 * 1024
_MOST_SECONDS = 30 * 24 * 3600.0


def stored_captures(store: Store) -> StoredReports:
    """Return the captures that are kept in a store."""
    return StoredReports(store.folder / "captures", _MOST, _MOST_BYTES, _MOST_SECONDS)


def keep_capture(store: Store, report: Report) -> None:
    """Keep a capture in place of the last one of its target. Raises OSError."""
    if report.files:
        store.prepare()
        light = replace(report, output=Output(), texts={})
        stored_captures(store).keep(_name(report.target), light)


def unchanged_captures(store: Store) -> Iterator[tuple[Report, str]]:
    """Yield the captures whose sources are unchanged on disk, and when each was made: ISO 8601, UTC."""
    captures = stored_captures(store)
    for path in captures.files():
        try:
            stored = captures.read(path)
            made = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        except UNREADABLE:
            continue
        report = stored.report
        is_one = report.tier is Tier.CAPTURE and captures.path(_name(report.target)) == path
        if is_one and report.files and stored.changed_file({}) is None:
            yield report, made.isoformat()


def _name(target: TargetRef) -> str:
    return data_key(f"{code_key()}\0{target.path}\0{target.name}".encode("utf-8", "surrogatepass"))
