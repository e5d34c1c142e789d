"""`fuselight check` runs only what has changed since an earlier check, and otherwise prints what that one printed."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.report import (
    Culprit,
    Failure,
    Inputs,
    Reads,
    Report,
    Rung,
    TrialCounts,
)
from fuselight_server.base.store import Store
from fuselight_server.execution.runs.stored_reports import stored_captures
from tests.support.reports import at, broken

if TYPE_CHECKING:
    from collections.abc import Callable
from tests.support.kept_project import (
    BOTH,
    HELPER,
    MODEL,
    Project,
    captures,
    data_edited,
    key_lost,
    make_project,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return make_project(tmp_path, monkeypatch)


def test_trials_that_a_kept_capture_lacks_are_made_once_if_all_are_asked_for(project: Project) -> None:
    def answer(given: Report) -> Report:
        place = at(5, (4, 12), path=str(project.folder / "helper.py"), function="scale")
        trial = project.request.trial
        is_cured = trial is not None and trial.cure is not None
        breaks = (broken(place, gb="GB0124"),) if given.breaks and not is_cured else ()
        counts = TrialCounts(calls=1) if trial is not None else None
        inputs = Inputs(Rung.DIRECTIVE, given.target.path, 5)
        return replace(given, breaks=breaks, trial=counts, inputs=inputs)

    project.change = answer
    assert project.check("--tries", "0")[0] == BOTH
    ran, done = project.check("--tries", "0")
    assert (ran, "not tried yet: see `fuselight check --tries all`" in done.stdout) == (
        [],
        True,
    )
    (path,) = (path for path in stored_captures(Store.at(project.folder)).files() if b"GB0124" in read(path))
    before = path.stat().st_mtime_ns
    ran, done = project.check("--tries", "all")
    assert ran == ["first", "first"], "the calls as they are, and with the setting"
    assert "(tried: 1 → 0 graph breaks)" in " ".join(done.stdout.split())
    for options in ((), ("--tries", "all")):
        ran, done = project.check(*options)
        assert (ran, "(tried: 1 → 0 graph breaks)" in " ".join(done.stdout.split())) == ([], True)
    assert path.stat().st_mtime_ns == before, "the capture is as old as its run"


def read(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


@pytest.mark.parametrize(
    "options", [(), ("--facts",), ("--format", "json"), ("--format", "sarif"), ("--format", "github")]
)
def test_the_second_check_runs_nothing_and_prints_the_same(
    project: Project, options: tuple[str, ...]
) -> None:
    ran, first = project.check(*options)
    assert ran == BOTH
    ran, second = project.check(*options)
    assert ran == []
    assert second.exit_code == first.exit_code == 1
    assert second.stderr == first.stderr
    if options[-1:] == ("json",):
        targets = json.loads(second.stdout)["targets"]
        assert all(target.pop("unchanged_since").endswith("+00:00") for target in targets)
        before = json.loads(first.stdout)
        assert [target.pop("unchanged_since") for target in before["targets"]] == [None, None]
        assert targets == before["targets"]
    elif not options or options == ("--facts",):
        lines = [line.partition(", unchanged since 20")[0] for line in second.stdout.splitlines()]
        assert lines == first.stdout.splitlines()
        assert second.stdout.count("unchanged since") == 2
    else:
        assert second.stdout == first.stdout


def test_no_cache_runs_everything_and_keeps_it(project: Project) -> None:
    project.check()
    assert project.check("--no-cache")[0] == BOTH
    assert "unchanged" not in project.check("--no-cache")[1].stdout


def test_a_baseline_is_applied_to_what_is_kept(project: Project) -> None:
    project.check("--write-baseline", "accepted.json")
    ran, done = project.check("--baseline", "accepted.json")
    assert ran == []
    assert (done.exit_code, "1 finding in the baseline not shown" in done.stdout) == (0, True)


def touched(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(project.folder / "model.py", (1, 1))
    os.utime(project.folder / "data.json", (1, 1))


def other_terminal(_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM_SESSION_ID", "w0t1")
    monkeypatch.setenv("SHLVL", "7")


def bytecode(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "__pycache__").mkdir()


def notes(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "notes.txt").write_text("a")


def data_deleted(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "data.json").unlink()


def absent_file_appears(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "absent.txt").touch()


def image_added(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "images" / "a.png").touch()


def module_added(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "numpy.py").touch()


def directive_edited(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "model.py").write_text(MODEL.replace("first(f32[4])", "first(f32[8])"))


def variable_set(_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_VARIABLE", "2")


def torch_variable_set(_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")


def torch_upgraded(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.packages / "torch" / "version.py").write_text("2.14.0")


def package_installed(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.packages / "einops").mkdir()


def python_replaced(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    project.python.write_text("3.12 ")


def environment_made_again(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.python.parent / "pyvenv.cfg").write_text("home = /usr/bin")


def report_changed(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a repository brings: it says that there are no findings."""
    for kept in captures(project):
        stored = stored_captures(Store.at(project.folder)).read(kept)
        stored_captures(Store.at(project.folder)).keep_report(
            kept.name.removesuffix(".json.gz"), replace(stored.report, breaks=()), None
        )
        assert stored.run is not None
        forged(kept, {"run": encode(stored.run), "signed": "0" * 64})


def store_damaged(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    for path in captures(project):
        path.write_bytes(path.read_bytes()[:-20])


def store_replaced_by_links(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    for path in captures(project):
        moved = path.rename(project.folder / path.name)
        path.symlink_to(moved)


def forged(path: Path, change: dict[str, Any]) -> None:
    data = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**data, **change}).encode()))


@pytest.mark.parametrize(
    "change", [touched, other_terminal, bytecode, notes], ids=lambda value: value.__name__
)
def test_what_changes_nothing_runs_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None]
) -> None:
    project.check()
    change(project, monkeypatch)
    assert project.check()[0] == []


def test_an_edit_runs_the_targets_that_import_the_file(project: Project) -> None:
    project.check()
    (project.folder / "helper.py").write_text(HELPER.replace("print(x)", "x = x"))
    ran, done = project.check()
    assert ran == ["first"]
    (line,) = [line for line in done.stdout.splitlines() if "unchanged since" in line]
    assert line.startswith("second (")


def test_a_deleted_file_runs_the_targets_that_imported_it(project: Project) -> None:
    project.check()
    (project.folder / "helper.py").rename(project.folder / "notes.txt")
    assert "first" in project.check()[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        *(data_edited, data_deleted, absent_file_appears, image_added, module_added, variable_set),
        *(torch_variable_set, torch_upgraded, package_installed, python_replaced, environment_made_again),
        *(report_changed, store_damaged, store_replaced_by_links, key_lost),
    ],
    ids=lambda value: value.__name__,
)
def test_what_a_run_may_depend_on_runs_both_again(
    project: Project, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None]
) -> None:
    _, first = project.check()
    change(project, monkeypatch)
    ran, again = project.check()
    assert ran == BOTH
    assert (again.exit_code, again.stdout) == (first.exit_code, first.stdout)


def folder_replaced(project: Project) -> None:
    (project.folder / "images").rmdir()
    (project.folder / "images").touch()


def time_changed(project: Project) -> None:
    os.utime(project.folder / "data.json", (1, 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda project: (project.folder / "flag").touch(),
        lambda project: (project.folder / "flag").mkdir(),
        folder_replaced,
        time_changed,
    ],
    ids=["file appears", "folder appears", "folder replaced", "time"],
)
def test_a_path_that_was_asked_for_runs_both_again(project: Project, change: Callable[..., None]) -> None:
    project.asks = True
    project.check()
    assert project.check()[0] == []
    change(project)
    assert project.check()[0] == BOTH


def test_what_was_not_asked_of_a_path_runs_nothing(project: Project) -> None:
    project.change = lambda report: replace(report, reads=replace(report.reads or Reads(), folders={}))
    project.asks = True
    project.check()
    (project.folder / "images" / "a.png").touch()
    assert project.check()[0] == []


def test_a_variable_of_the_terminal_counts_if_the_program_names_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "helper.py").write_text(f"import os\nos.getenv('EDITOR')\n{HELPER}")
    monkeypatch.setenv("EDITOR", "vi")
    project.check()
    monkeypatch.setenv("EDITOR", "vim")
    assert project.check()[0] == ["first"]
    monkeypatch.delenv("EDITOR")
    assert project.check()[0] == ["first"]
    monkeypatch.setenv("PAGER", "less")
    assert project.check()[0] == []


def test_a_directive_and_an_option_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.check()
    assert project.check("--time-limit", "7")[0] == BOTH
    assert project.check("--time-limit", "7", "--target", "first")[0] == []
    directive_edited(project, monkeypatch)
    assert project.check("--time-limit", "7")[0] == BOTH, "both are of this file"


@pytest.mark.parametrize(
    "change",
    [
        lambda value: replace(value, reads=None),
        lambda value: replace(value, reads=replace(value.reads, others=("the network",))),
        lambda value: replace(
            value, failures=(Failure(Culprit.USER, "timeout", "killed after 1 s", "wait"),)
        ),
        lambda value: replace(value, reads=replace(value.reads, files={"/nowhere/data": (3, 5)})),
        lambda value: replace(value, files={}),
    ],
    ids=["unrecorded", "network", "time limit", "changed meanwhile", "no files"],
)
def test_a_run_that_may_end_otherwise_is_not_kept(project: Project, change: Callable[[Any], Report]) -> None:
    project.change = change
    project.check()
    assert project.check()[0] == BOTH


def test_a_name_that_the_program_does_not_compile_stays_a_problem(project: Project) -> None:
    main = 'if __name__ == "__main__":\n    first(torch.zeros(4))\n'
    (project.folder / "model.py").write_text(f"{MODEL}\n\n{main}")
    unknown = Failure(Culprit.USER, "inputs", "the program compiles nothing of this name", "call")
    project.change = lambda report: replace(report, inputs=None, failures=(unknown,))
    ran, first = project.check("--target", "third")
    assert (ran, first.exit_code) == (["third"], 2)
    ran, again = project.check("--target", "third")
    assert ran == []
    assert (again.exit_code, again.stderr) == (first.exit_code, first.stderr)


def test_why_a_target_runs_again_is_in_the_log(project: Project) -> None:
    project.change = lambda report: replace(
        report, reads=replace(report.reads or Reads(), others=("the network",))
    )
    assert "the next check runs first" in project.check("--verbose")[1].stderr
    assert "it uses the network" in project.check("--verbose")[1].stderr


def test_a_store_that_cannot_be_written_costs_a_run_alone(project: Project) -> None:
    (project.folder / ".fuselight").write_text("a file")
    assert project.check()[0] == BOTH
    ran, done = project.check()
    assert (ran, done.exit_code) == (BOTH, 1)


def test_what_killed_writers_have_left_is_removed(project: Project) -> None:
    project.check()
    store = project.folder / ".fuselight"
    left = [store / "answers.jsonaaa.new", store / "captures" / "b.json.gzbbb.new"]
    for path in left:
        path.touch()
    project.check("--time-limit", "7")
    assert all(path.exists() for path in left), "another process may be writing them"
    for path in left:
        os.utime(path, (1, 1))
    project.check("--time-limit", "8")
    assert not any(path.exists() for path in left)
