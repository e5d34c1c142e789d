"""Results in the tuned file, and the last search of each target in `.fuselight/`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared import tuned_file
from fuselight.shared.report import Report
from fuselight_server.base.store import Store
from fuselight_server.explain.searches import last_search
from fuselight_server.explain.searches.decisions import tuned_path, write_decision
from fuselight_server.explain.searches.measurements import is_tentative
from tests.support.tuned import default_won, result, search, tuned


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "model.py").touch()
    return tmp_path


def test_a_result_lies_in_the_file_of_the_project(project: Path) -> None:
    path = str(project / "src" / "model.py")
    written = write_decision(result(), path)
    assert (written.path, written.problem) == (str(project / tuned_file.NAME), "")
    kept = tuned_file.read(written.path)
    assert kept is not None
    assert [tuned_result.file for tuned_result in kept.results] == ["src/model.py"]
    write_decision(result(gain=1.7), path)
    kept = tuned_file.read(written.path)
    assert kept is not None
    assert [tuned_result.gain for tuned_result in kept.results] == [1.7], (
        "in place of the one for the same key"
    )


def test_a_search_that_could_not_compare_replaces_nothing_that_was_confirmed(project: Path) -> None:
    path = str(project / "src" / "model.py")
    write_decision(result(), path)
    for later in (default_won().result, replace(result(), gain=1.1, gain_low=1.0)):
        assert later is not None
        written = write_decision(replace(later, graphs=result().graphs), path, is_tentative=True)
        assert written.keeps_earlier
        assert "keeps what an earlier search has confirmed" in written.problem
        kept = tuned_file.read(written.path)
        assert kept is not None
        assert [tuned_result.gain for tuned_result in kept.results] == [result().gain]
    assert write_decision(result(gain=1.1), path).problem == "", "a decision does"
    other = write_decision(replace(result(), target="Other", gain_low=1.0), path, is_tentative=True)
    assert other.problem == "", "nothing is there for it"


def test_what_is_tentative() -> None:
    assert not is_tentative(tuned())
    assert is_tentative(tuned(confirmation=None, finished=False))
    assert not is_tentative(default_won())
    assert is_tentative(default_won(candidates=default_won().candidates[:2]))


def test_a_file_can_be_named(project: Path) -> None:
    named = project / "elsewhere.json"
    assert tuned_path("/any/model.py", str(named)) == named
    assert write_decision(result(), str(project / "src" / "model.py"), str(named)).problem == ""
    assert named.exists()


def test_a_damaged_file_stays_and_is_named_with_the_next_step(project: Path) -> None:
    file = project / tuned_file.NAME
    file.write_text("{")
    written = write_decision(result(), str(project / "src" / "model.py"))
    assert "is damaged" in written.problem
    assert "tune again" in written.problem
    assert file.read_text() == "{"


def test_a_name_that_is_not_utf8_costs_no_result(project: Path) -> None:
    written = write_decision(result(), str(project / "src" / "mod\udce9l.py"))
    assert r'a name in it is not UTF-8: `"file": "src/mod\udce9l.py"' in written.problem
    assert not (project / tuned_file.NAME).exists()


def test_a_folder_that_cannot_be_written_costs_no_result(project: Path) -> None:
    written = write_decision(result(), str(project / "src" / "model.py"), str(project / "none" / "t.json"))
    assert written.problem.startswith("the result was not written: `")
    assert (
        f"there is no folder `{project / 'none'}`. Create it, or write the result to another file"
        in written.problem
    )


def test_the_last_search_of_each_target_is_kept_without_profiles(project: Path) -> None:
    store = Store.at(project)

    def of(target: str, gain: float) -> Report:
        path = str(project / "src" / "model.py")
        report = search(of={"result": result(gain=gain)}, texts={"k": "a kernel"})
        return replace(report, target=replace(report.target, path=path, name=target))

    for number, (target, gain) in enumerate([("Net", 1.5), ("f", 1.1), ("Net", 1.6)]):
        last_search.keep_search(store, of(target, gain))
        for file in (project / ".fuselight" / "tune").iterdir():
            os.utime(file, (number, number))
    reports = list(last_search.kept_searches(store))
    assert {
        (report.target.name, report.tuned.result.gain)
        for report in reports
        if report.tuned and report.tuned.result
    } == {
        ("Net", 1.6),
        ("f", 1.1),
    }
    assert all(report.texts == {} for report in reports)
    last_search.forget_searches(store)
    assert list(last_search.kept_searches(store)) == []
    assert not (project / ".fuselight" / "tune").exists()


def test_a_damaged_search_reads_as_absent(project: Path) -> None:
    store = Store.at(project)
    last_search.keep_search(store, search())
    (file,) = (project / ".fuselight" / "tune").iterdir()
    file.write_bytes(b"no gzip")
    assert list(last_search.kept_searches(store)) == []


def test_old_searches_go(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_search, "KEPT", 2)
    store = Store.at(project)
    for name in "abc":
        report = search()
        last_search.keep_search(store, replace(report, target=replace(report.target, name=name)))
    assert len(list(last_search.kept_searches(store))) == 2


def test_a_report_without_a_search_is_not_kept(project: Path) -> None:
    last_search.keep_search(Store.at(project), replace(search(), tuned=None))
    assert not (project / ".fuselight").exists()
    assert tuned().result is not None
