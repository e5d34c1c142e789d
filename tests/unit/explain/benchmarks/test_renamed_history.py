"""Benchmarks move with their file, and those of a renamed target stay available."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.codec import decode, encode
from fuselight.shared.report import Report, TargetRef
from fuselight_server.base.store import Store
from fuselight_server.explain.benchmarks.history import (
    ENDING,
    BenchmarkRun,
    History,
    read_run,
    remove_run,
    run_of,
    runs_of_removed,
    take_along,
)
from fuselight_server.explain.benchmarks.history_diff import compare
from tests.support.measured import benchmark, graph, kernel, profile, ran, row
from tests.support.reports import FILE


def measured(path: Path, target: str = "Net", *, day: int = 1, us: float = 30.0) -> Report:
    default = row("default", us, generated=(graph(kernel(3)),), profile=profile([ran(0, us)]))
    new_report = benchmark(row("eager", 300.0), default, of={"started": f"2026-01-{day:02d}T12:00:00Z"})
    text = json.dumps(encode(new_report)).replace(FILE, str(path))
    report: Report = decode(Report, json.loads(text))
    where = TargetRef(path=str(path), name=target, line=3, kind="module")
    return replace(report, target=where, roots=(str(path.parent),), files={str(path): "0" * 32})


def keep(path: Path, target: str = "Net", *, day: int = 1, us: float = 30.0) -> History:
    """Keep a benchmark of a target, as the server does."""
    history = History(Store.of(path), str(path), target)
    root = str(history.store.folder.parent)
    run = run_of(measured(path, target, day=day, us=us), root, lambda at, line: f'open("{at}")  # {line}')
    assert run is not None
    assert history.keep_run(run) is not None
    return history


def only(history: History) -> BenchmarkRun:
    (past,) = history.runs()
    run = history.read(past.id)
    assert run is not None
    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def test_a_renamed_file_keeps_the_benchmarks_of_all_its_targets(project: Path) -> None:
    old, new = project / "model.py", project / "net.py"
    others = [keep(project / name) for name in ("model.py.py", "other.py")]
    before = [keep(old, name) for name in ("Net", "step", "")]
    os.utime(next(before[0].folder.glob(f"*{ENDING}")), (1000, 1000))
    moved = list(take_along(str(old), str(new)))
    assert {(history.path, history.target) for history in moved} == {
        (str(new), name) for name in ("Net", "step", "")
    }
    for history in before:
        assert not history.folder.exists()
        run = only(replace(history, path=str(new)))
        assert run.report.target.path == str(new)
        assert run.report.files == {str(new): "0" * 32}
        assert run.line(str(new), 3) == f'open("{old}")  # 3', "the user's own text is left as it was"
        assert str(old) not in json.dumps(encode(run.report))
    assert next(replace(before[0], path=str(new)).folder.glob(f"*{ENDING}")).stat().st_mtime == 1000
    assert [len(history.runs()) for history in others] == [1, 1]
    fresh = run_of(measured(new, day=2, us=60.0), str(project), lambda _path, line: f"now {line}")
    assert fresh is not None
    comparison = compare(only(replace(before[0], path=str(new))), fresh)
    (pair,) = comparison.lines
    assert pair.place.path == str(new)
    assert pair.change == pytest.approx(1.0)


def test_a_renamed_folder_keeps_the_benchmarks_of_its_files(project: Path) -> None:
    inner = keep(project / "models" / "deep" / "net.py")
    beside = keep(project / "models2" / "net.py")
    moved = list(take_along(str(project / "models"), str(project / "nets")))
    assert [history.path for history in moved] == [str(project / "nets" / "deep" / "net.py")]
    assert only(moved[0]).report.target.path == moved[0].path
    assert not inner.folder.exists()
    assert len(beside.runs()) == 1


def test_benchmarks_move_to_the_folder_of_their_project(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pyproject.toml").touch()
    keep(project / "model.py")
    (moved,) = take_along(str(project / "model.py"), str(elsewhere / "model.py"))
    assert moved.store == Store.at(elsewhere)
    assert only(moved).root == str(elsewhere)
    assert (elsewhere / ".fuselight/.gitignore").read_text() == "*\n"


def test_existing_and_unreadable_entries_stay(project: Path) -> None:
    old = keep(project / "model.py", day=1, us=10.0)
    keep(project / "model.py", day=2, us=20.0)
    damaged = old.folder / f"damaged{ENDING}"
    damaged.write_bytes(b"no archive")
    there = keep(project / "net.py", day=1, us=99.0)
    list(take_along(str(project / "model.py"), str(project / "net.py")))
    assert [past.when[:10] for past in there.runs()] == ["2026-01-02", "2026-01-01"]
    run = there.read("20260101T120000Z")
    assert run is not None
    assert run.past.label == only(keep(project / "third.py", us=99.0)).past.label
    assert [past.when[:10] for past in old.runs()] == ["2026-01-01"]
    assert damaged.exists()


def test_without_benchmarks_no_folder_is_created(project: Path) -> None:
    assert list(take_along(str(project / "a.py"), str(project / "b.py"))) == []
    assert list(project.iterdir()) == [project / "pyproject.toml"]


def test_only_complete_paths_are_replaced(project: Path) -> None:
    history = keep(project / "a.py")
    (path,) = history.folder.glob(f"*{ENDING}")
    text = gzip.decompress(path.read_bytes()).decode()
    a = str(project / "a.py")
    run = only(history)
    label = replace(run.past, label=f'{a}x and "{a}"')
    path.write_bytes(
        gzip.compress(text.replace(json.dumps(run.past.label), json.dumps(label.label)).encode())
    )
    (moved,) = take_along(a, str(project / 'b "quoted".py'))
    assert only(moved).past.label == label.label
    assert only(moved).report.target.path == str(project / 'b "quoted".py')


def test_runs_of_a_removed_target_are_offered_as_removed(project: Path) -> None:
    path = project / "model.py"
    keep(path, "OldNet", day=1)
    keep(path, "", day=2)
    keep(path, "Other", day=3)
    keep(project / "else.py", "OldNet", day=4)
    own = keep(path, "Net", day=5)
    runs = runs_of_removed(own, {"Net", "Other"})
    assert [(past_run.when[:10], past_run.label.partition(":")[0]) for past_run in runs] == [
        ("2026-01-02", "__main__, which is not in this file any more"),
        ("2026-01-01", "OldNet, which is not in this file any more"),
    ]
    for past_run in runs:
        run = read_run(own, past_run.id)
        assert run is not None
        assert run.past == past_run
    assert runs_of_removed(own, {"Net", "Other", "OldNet", ""}) == ()
    run = read_run(own, "20260105T120000Z")
    assert run is not None
    assert run.report.target.name == "Net"
    assert remove_run(own, runs[1].id)
    assert [past_run.id for past_run in runs_of_removed(own, {"Net", "Other"})] == [runs[0].id]
    assert not (own.folder.parent / runs[1].id.partition("/")[0]).exists(), "nothing is left of the target"
    assert remove_run(own, "20260105T120000Z")
    assert own.runs() == ()
    for wrong in ("../x", "x/20260101T120000Z", f"{runs[0].id}x", "/", ""):
        assert read_run(own, wrong) is None
        assert not remove_run(own, wrong)
