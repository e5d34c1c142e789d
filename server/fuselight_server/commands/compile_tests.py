"""The tests that fail because of what torch.compile did, kept for the editor: `.fuselight/tests.json`.

Invariant: a test that ran again replaces what was kept of it. What is kept of a file belongs to its exact text, by
hash.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.folder_lock import locked_folder
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import read_regular, write_whole
from fuselight.shared.report import data_key
from fuselight_server.base.finding import Finding
from fuselight_server.base.store import TESTS, Store, is_own

_SCHEMA = 1
_MAX_BYTES = 32 * 1024 * 1024
_MAX_TESTS = 500
"""Failed tests that are kept; the oldest go first."""


@dataclass(frozen=True)
class FailedCompileTest:
    """A failed test, and the findings that made it fail."""

    test: str
    """As pytest names it: `tests/test_net.py::test_one_graph[4]`."""
    findings: tuple[Finding, ...]
    files: dict[str, str] = field(default_factory=dict)
    """The files of the findings, with the hash of the text that ran; without those that could not be read."""


def failed_test(test: str, findings: Iterable[Finding]) -> FailedCompileTest:
    """A failed test, with the hashes of the files as they are now."""
    rows = tuple(findings)
    files = {path: key for path in sorted({row.span.path for row in rows}) if (key := _key(path)) is not None}
    return FailedCompileTest(test, rows, files)


def _key(path: str) -> str | None:
    try:
        return data_key(read_regular(path, _MAX_BYTES))
    except OSError:
        return None


def read_failed(store: Store) -> tuple[FailedCompileTest, ...]:
    """The kept tests of a store; none if there is no file, or none that can be read."""
    if not is_own(store.folder):
        return ()
    try:
        data = parse_json(read_regular(_path(store), _MAX_BYTES, follow_link=False))
        if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
            return ()
        return tuple(decode(FailedCompileTest, entry) for entry in data.get("tests", ()))
    except (OSError, ValueError, DecodeError, RecursionError, TypeError):
        return ()


def keep_failed(store: Store, ran: Collection[str], failed: Iterable[FailedCompileTest]) -> None:
    """Keep the failed tests among those that ran; what was kept of the others that ran is dropped. Raises OSError."""
    failed = tuple(failed)
    if not failed and not _path(store).exists():
        return
    store.prepare()
    with locked_folder(str(store.folder)):
        others = [entry for entry in read_failed(store) if entry.test not in ran]
        kept = [*others, *failed][-_MAX_TESTS:]
        data = json.dumps({"schema": _SCHEMA, "tests": [encode(entry) for entry in kept]}).encode()
        if len(data) <= _MAX_BYTES:
            write_whole(_path(store), data)


def _path(store: Store) -> Path:
    return store.folder / TESTS
