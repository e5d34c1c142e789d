"""The `.fuselight/` folder: private, complete, bounded, and robust to damage."""

from __future__ import annotations

import gzip
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.foreign_files import project_root
from fuselight.shared.report import Compile, Outcome, Problem, Recorded
from fuselight_server.base import store as store_module
from fuselight_server.base.files import disk_lines, disk_text
from fuselight_server.base.store import Store, recorded_calls
from fuselight_server.commands import sources
from fuselight_server.editor.results.target_result import keys_on_disk
from fuselight_server.execution.runs import kernel_cache
from fuselight_server.explain.benchmarks import history
from tests.support.reports import FILE, report


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_report_round_trips(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    assert store.read_report() == report()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_store_is_private_and_ignored_by_git(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    assert mode(store.folder) == 0o700
    assert mode(store.report_path) == 0o600
    assert (store.folder / ".gitignore").read_text() == "*\n"


def test_only_expected_files_are_left(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    store.write_report(report(generation=2))
    assert sorted(path.name for path in store.folder.iterdir()) == [".gitignore", "last-run.json"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"target": 3}', b"[" * 100_000, b"\xff\xfe"])
def test_a_damaged_report_is_ignored(tmp_path: Path, data: bytes) -> None:
    store = Store.at(tmp_path)
    store.prepare()
    store.report_path.write_bytes(data)
    assert store.read_report() is None


@pytest.mark.parametrize("frame", [-1, 0, 7])
def test_a_report_whose_compiles_name_frames_that_it_lacks_is_damaged(tmp_path: Path, frame: int) -> None:
    store = Store.at(tmp_path)
    store.write_report(report(compiles=(Compile("0/0", frame, Outcome.COMPILED),)))
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


def test_clearing_removes_the_folder(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    store.write_report(report())
    store.clear()
    assert not store.folder.exists()


def elsewhere(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A folder outside the workspace with files of the names that Fuselight uses."""
    folder = tmp_path / "elsewhere"
    for name in ("last-run.json", "a.json.gz", "key/target.json", "key/run.json.gz", ".gitignore"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"mine")
    return folder, contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "linked", [".fuselight", ".fuselight/bench", ".fuselight/kernels", ".fuselight/bench/key"]
)
def test_caches_are_not_cleared_after_a_link(tmp_path: Path, linked: str) -> None:
    outside, before = elsewhere(tmp_path)
    store = Store.at(tmp_path / "work")
    (tmp_path / "work" / linked).parent.mkdir(parents=True)
    (tmp_path / "work" / linked).symlink_to(outside / "key" if linked.endswith("key") else outside)
    kernel_cache.KernelCache(store).clear()
    history.forget(store)
    store.clear()
    assert contents(outside) == before


def test_nothing_is_written_or_read_after_a_link(tmp_path: Path) -> None:
    outside, _ = elsewhere(tmp_path)
    Store(outside).write_report(report())
    before = contents(outside)
    store = Store.at(tmp_path / "work")
    (tmp_path / "work").mkdir()
    store.folder.symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        store.write_report(report())
    assert store.read_report() is None
    assert list(history.owners(store)) == []
    assert contents(outside) == before


@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "report"])
def test_a_report_that_is_not_a_regular_file_is_ignored(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    Store.at(tmp_path).write_report(report())
    Store.at(tmp_path).report_path.rename(tmp_path / "report")
    Store.at(tmp_path).report_path.symlink_to(tmp_path / target)
    assert Store.at(tmp_path).read_report() is None


@pytest.mark.parametrize("name", ["../../x.py", "/x.py", "a/../../x.py"])
def test_benchmarks_of_a_file_outside_the_project_are_not_listed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / ".fuselight" / "bench" / "key"
    folder.mkdir(parents=True)
    (folder / "target.json").write_text(json.dumps({"path": name, "target": "f"}))
    assert list(history.owners(Store.at(tmp_path))) == []
    (folder / "target.json").write_text(json.dumps({"path": "x.py", "target": "f"}))
    assert len(list(history.owners(Store.at(tmp_path)))) == 1


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_a_source_that_is_not_a_regular_file_cannot_be_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.py"
    make(path)
    assert disk_text(str(path)) is None
    assert disk_lines(str(path)) == []
    assert isinstance(sources.read_text(path), Problem)
    assert keys_on_disk(str(path)) == frozenset()


def test_a_source_after_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1\n")
    (tmp_path / "x.py").symlink_to(tmp_path / "real.py")
    assert disk_text(str(tmp_path / "x.py")) == "x = 1\n"


def test_a_file_that_unpacks_to_more_than_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "run.json.gz").write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(OSError, match="larger than"):
        store_module.read_gzip(tmp_path / "run.json.gz", 50_000)


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
