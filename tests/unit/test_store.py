"""The `.fuselight/` folder: closed, whole, bounded, and robust to damage."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fuselight.report import Recorded
from fuselight_server import store as store_module
from fuselight_server.store import Store, project_root, recorded_calls
from tests.support.reports import FILE, report


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_report_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    assert store.read_report() == report()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_nobody_else_can_read_it_and_git_does_not_see_it(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    assert mode(store.folder) == 0o700
    assert mode(store.report_path) == 0o600
    assert (store.folder / ".gitignore").read_text() == "*\n"


def test_nothing_is_left_but_what_belongs_there(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    store.write_report(report(generation=2))
    assert sorted(path.name for path in store.folder.iterdir()) == [".gitignore", "last-run.json"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"target": 3}', b"[" * 100_000, b"\xff\xfe"])
def test_a_damaged_report_reads_as_none(tmp_path: Path, data: bytes) -> None:
    store = Store.at(tmp_path)
    store.prepare()
    store.report_path.write_bytes(data)
    assert store.read_report() is None


def test_no_folder_is_made_by_reading(tmp_path: Path) -> None:
    assert Store.at(tmp_path).read_report() is None
    assert not (tmp_path / ".fuselight").exists()


def test_texts_are_given_up_before_the_report_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_MAX_BYTES", 4000)
    store = Store.at(tmp_path)
    store.write_report(report(texts={"key": "x" * 5000}))
    kept = store.read_report()
    assert kept is not None
    assert kept.texts == {}


def test_clearing_takes_the_folder_away(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    store.clear()
    assert not store.folder.exists()


def test_the_nearest_project_above_a_file_is_its_root(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "pkg" / "sub").mkdir(parents=True)
    assert project_root(tmp_path / "pkg" / "sub" / "m.py") == tmp_path.resolve()
    (tmp_path / "pkg" / ".fuselight").mkdir()
    assert Store.of(tmp_path / "pkg" / "sub" / "m.py").folder == tmp_path.resolve() / "pkg" / ".fuselight"


def test_recorded_calls_are_those_of_the_file_by_target_each_once() -> None:
    recorded = (
        Recorded(FILE, "step", 3, "step(f32[4])"),
        Recorded(FILE, "step", 3, "step(f32[4])"),
        Recorded(FILE, "step", 3, "step(f32[7])"),
        Recorded("/project/other.py", "step", 3, "step(f32[9])"),
    )
    assert recorded_calls(report(recorded=recorded), FILE) == {"step": ("step(f32[4])", "step(f32[7])")}
    assert recorded_calls(None, FILE) == {}
