"""Kept data that somebody else wrote or damaged counts as missing, and a full disk leaves files as they were."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.foreign_files import write_whole
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.store import Store
from fuselight_server.commands import baseline, count_baseline
from fuselight_server.commands.chosen_files import keep_choices, kept_choices
from fuselight_server.commands.compile_tests import read_failed
from fuselight_server.execution.runs.stored_reports import UNREADABLE, StoredReports
from tests.support.reports import report

BOMB = gzip.compress(bytes(200 << 20))
POISON: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"9" * 5_000,
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 900 + b"1" + b"}" * 900,
    "other types": json.dumps({"schema": [], "findings": 7, "checks": [], "tests": 5, "report": []}).encode(),
    "not utf-8": b"\xff\xfe{}",
    "half": json.dumps({"report": {"frames": [{"location": "\ud800"}]}}).encode(),
}


def read_all(project: Path) -> None:
    """Read what is kept in a project; only the errors that the readers promise go on."""
    store = Store.at(project)
    store.read_report()
    assert read_failed(store) == ()
    kept_choices(project)
    reports = StoredReports(store.folder / "captures", 9, 1 << 24)
    for path in reports.files():
        with contextlib.suppress(*UNREADABLE):
            reports.read(path)
    for read in (baseline.read, count_baseline.read):
        with contextlib.suppress(CommandError):
            read(project / "base.json")


def put(project: Path, data: bytes) -> None:
    captures = project / ".fuselight" / "captures"
    captures.mkdir(parents=True, exist_ok=True)
    for name in ("last-run.json", "tests.json", "answers.json", "files.json"):
        (project / ".fuselight" / name).write_bytes(data)
    (project / "base.json").write_bytes(data)
    (captures / "a.json.gz").write_bytes(data)
    (captures / "b.json.gz").write_bytes(gzip.compress(data))


@pytest.mark.parametrize("name", [*POISON, "bomb"])
def test_poisoned_data_counts_as_missing(tmp_path: Path, name: str) -> None:
    put(tmp_path, POISON.get(name, BOMB))
    read_all(tmp_path)
    assert Store.at(tmp_path).read_report() is None
    assert not kept_choices(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_data_counts_as_missing(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311 - the same damage in each run
    store = Store.at(tmp_path)
    store.write_report(report())
    whole = bytearray(store.report_path.read_bytes())
    for _ in range(numbers.randint(1, 30)):
        whole[numbers.randrange(len(whole))] = numbers.randrange(256)
    put(tmp_path, bytes(whole[: numbers.randrange(len(whole))] if seed % 3 == 0 else whole))
    read_all(tmp_path)


@pytest.mark.parametrize("step", ["write", "replace", "mkstemp"])
def test_a_full_disk_leaves_files_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    keep_choices(tmp_path, {"a": "b"})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    targets = {
        "write": "fuselight.shared.foreign_files.os.fdopen",
        "replace": "fuselight.shared.foreign_files.os.replace",
        "mkstemp": "fuselight.shared.foreign_files.tempfile.mkstemp",
    }
    with monkeypatch.context() as patched:
        patched.setattr(targets[step], full)
        with pytest.raises(OSError, match="No space left"):
            write_whole(store.report_path, b"new")
        with pytest.raises(OSError, match="No space left"):
            count_baseline.write(tmp_path / "base.json", {})
        keep_choices(tmp_path, {"c": "d"})  # keeps nothing, and is no error
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
