"""`fuselight check` runs only what has changed since an earlier check, and otherwise prints what that one printed."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import stat
import subprocess
import sys
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
    TargetRef,
    TrialCounts,
    data_key,
)
from fuselight_server.base.settings import Interpreter
from fuselight_server.base.store import Store
from fuselight_server.execution.interpreters import choose
from fuselight_server.execution.runs import kept_answers
from fuselight_server.execution.runs.kept_answers import KeptAnswers
from fuselight_server.execution.runs.stored_reports import stored_captures
from tests.support.command import AnsweringWorker, run_cli
from tests.support.reports import at, broken, report

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = """\
import torch
import helper


# fuselight: first(f32[4])
@torch.compile
def first(x):
    return helper.scale(x)


# fuselight: second(f32[4])
@torch.compile
def second(x):
    return x
"""
HELPER = "import torch\n\n\ndef scale(x):\n    print(x)\n    return x\n"


class Project:
    """Files, an interpreter with a torch, and a worker that notes which targets run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.change: Callable[[Report], Report] = lambda report: report
        self.ran: list[str] = []
        self.request: Any = None
        """The last one."""
        self.asks = False
        for name, text in {
            "model.py": MODEL,
            "helper.py": HELPER,
            "pyproject.toml": "",
            "data.json": "{}",
        }.items():
            (folder / name).write_text(text)
        (folder / "images").mkdir()
        self.packages = folder / "environment" / "site-packages"
        (self.packages / "torch").mkdir(parents=True)
        (self.packages / "torch" / "version.py").write_text("2.13.0")
        self.python = folder / "environment" / "python"
        self.python.write_text("3.11")
        interpreter = Interpreter(str(self.python), why="the test")
        monkeypatch.setattr("fuselight_server.commands.targets.choose", lambda *_: interpreter)
        self.worker = AnsweringWorker(self._answer)
        self.worker.put_in_place(monkeypatch)

    def _answer(self, request: Any) -> Report:
        self.ran.append(request.target.name)
        self.request = request
        target = request.target
        files = [self.folder / "model.py", *([self.folder / "helper.py"] if target.name == "first" else [])]
        place = at(5, (4, 12), path=str(self.folder / "helper.py"), function="scale")
        answer = report(breaks=(broken(place, gb="GB0059"),))
        answer = replace(
            answer if target.name == "first" else report(),
            target=TargetRef(target.path, target.name, target.line, target.kind),
            roots=request.roots,
            files={str(path): data_key(path.read_bytes()) for path in files if path.exists()},
            reads=Reads(
                files={str(path): state(path) for path in self._data()},
                folders={str(self.folder / "images"): (self.folder / "images").stat().st_mtime_ns},
                import_folders=(str(self.folder),),
                asked={
                    str(self.folder / "flag"): (0, -1, -1),
                    str(self.folder / "images"): (stat.S_IFDIR, -1, -1),
                    str(self.folder / "data.json"): (stat.S_IFREG, *state(self.folder / "data.json")),
                }
                if self.asks
                else {},
            ),
        )
        answer = self.change(answer)
        self.worker.hello = type(
            "Hello", (), {"versions": answer.versions, "packages": (str(self.packages),)}
        )()
        return answer

    def _data(self) -> tuple[Path, ...]:
        return (self.folder / "data.json", self.folder / "absent.txt", self.packages / "torch" / "version.py")

    def check(self, *options: str) -> tuple[list[str], Any]:
        """What runs, and what the command did."""
        self.ran.clear()
        done = run_cli("check", "model.py", *options)
        return list(self.ran), done


def state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (-1, 0)
    return (status.st_size, status.st_mtime_ns)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("USER_VARIABLE", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Project(folder, monkeypatch)


BOTH = ["first", "second"]


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
    assert (ran, "Not tried yet: set capture_scalar_outputs" in done.stdout) == (
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


def data_edited(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "data.json").write_text("[]")


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


def key_lost(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder.parent / "state" / "fuselight" / "key").unlink()


def captures(project: Project) -> list[Path]:
    paths = sorted((project.folder / ".fuselight" / "captures").iterdir())
    assert paths
    return paths


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


UNCALLED = """\


@torch.compile
def third(x):
    return x
"""
WITH_UNCALLED = [*BOTH, "third"]


def add_uncalled(project: Project) -> None:
    """A third target, which nothing gives inputs to."""
    (project.folder / "model.py").write_text(MODEL + UNCALLED)
    project.change = lambda report: replace(report, inputs=None) if report.target.name == "third" else report


NEVER_LOADED = {
    *(
        "libcst",
        "fuselight_server.fixes.rewrites.families",
        "fuselight_server.source.edits",
        "fuselight_server.execution.worker_client",
    ),
    *("pygls", "lsprotocol", "torch", "urllib.request", "email", "fuselight_server.explain.benchmarks.page"),
}
"""What a check that runs nothing has no use for. LibCST alone took as long as everything that it does."""


def loaded(*arguments: str) -> tuple[set[str], str]:
    """The modules that a process of the command imports, with their packages, and what it prints."""
    command = [sys.executable, "-X", "importtime", "-m", "fuselight_server", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr[-2000:]
    lines = (
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    )
    return set(lines), done.stdout


def test_a_check_that_runs_nothing_loads_what_it_needs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_uncalled(project)
    project.python.chmod(0o755)
    monkeypatch.setattr("fuselight_server.commands.targets.choose", choose)
    named = ("--python", str(project.python))
    ran, first = project.check(*named)
    assert ran == WITH_UNCALLED
    modules, printed = loaded("check", "model.py", *named)
    assert printed.count("unchanged since") == len(WITH_UNCALLED)
    assert printed.splitlines()[-1] == first.stdout.splitlines()[-1]
    assert printed.splitlines()[-1].startswith("Try `fuselight fix model.py")
    assert "such as `# fuselight: third(f32[2, 8])`" in printed
    assert "fuselight_server.execution.runs.kept_answers" in modules
    assert modules & NEVER_LOADED == set()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_what_prints_only_words_loads_no_report(option: str) -> None:
    modules, printed = loaded(option)
    assert printed
    assert "fuselight_server.cli.command_line" in modules
    unneeded = {
        "fuselight.shared.report",
        "fuselight.shared.protocol",
        "fuselight_server.explain.findings",
        "asyncio",
        "difflib",
    }
    assert modules & (NEVER_LOADED | unneeded) == set()


class Answers:
    """Counts what is computed for the findings of a project."""

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        self.computed: list[str] = []
        add_uncalled(project)
        for name in ("fixes.rewrites.families.rewrites", "source.example_calls.call_for"):
            self._count(monkeypatch, f"fuselight_server.{name}")

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        module, _, function = name.rpartition(".")
        compute = getattr(importlib.import_module(module), function)

        def counted(*given: Any) -> Any:
            self.computed.append(function)
            return compute(*given)

        monkeypatch.setattr(name, counted)

    def of_check(self, *options: str) -> set[str]:
        """What one check computes; what it prints is always the same."""
        self.computed.clear()
        lines = self.project.check(*options)[1].stdout.splitlines()
        assert lines[-1].startswith("Try `fuselight fix ")
        assert any("such as `# fuselight: third(f32[2, 8])`" in line for line in lines)
        return set(self.computed)


@pytest.fixture
def answers(project: Project, monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(project, monkeypatch)


def answers_file(project: Project) -> Path:
    return project.folder / ".fuselight" / "answers.json"


def answers_forged(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that a repository brings: they say that nothing has a fix."""
    data = json.loads(answers_file(project).read_text())
    for answer in data["answers"].values():
        answer["text"] = ""
    answers_file(project).write_text(json.dumps(data))


def answers_damaged(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    answers_file(project).write_text(answers_file(project).read_text()[:-9])


def answers_linked(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    answers_file(project).symlink_to(answers_file(project).rename(project.folder / "moved.json"))


def source_added(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    """It may write to what a fix would change."""
    (project.folder / "tools").mkdir()
    (project.folder / "tools" / "writer.py").write_text("import model\nmodel.first = None\n")


COMPUTED = {"rewrites", "call_for"}


@pytest.mark.parametrize(
    "change",
    [source_added, answers_forged, answers_damaged, answers_linked, key_lost, data_edited],
    ids=lambda value: value.__name__,
)
def test_answers_are_computed_again_if_anything_differs(
    answers: Answers, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None]
) -> None:
    assert answers.of_check() == COMPUTED
    assert answers.of_check() == set()
    change(answers.project, monkeypatch)
    again = {"rewrites"} if change is data_edited else COMPUTED  # another run, but the same sources
    assert answers.of_check() == again
    assert answers.of_check() == set()


def test_no_cache_computes_everything(answers: Answers) -> None:
    answers.of_check()
    assert answers.of_check("--no-cache") == COMPUTED


def test_answers_are_bounded_and_the_oldest_go(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "_MAX", 3)
    path = str(project.folder / "model.py")
    project.check()
    for word in "abcd":
        asked = KeptAnswers()
        asked.remember(path, word, (), word)
        asked.remember(path, "x" * 3_000, (), f"long {word}")
        asked.save()
    known = [KeptAnswers().recall(path, word) for word in ("a", "b", "c", "d", "long d")]
    assert known == [None, "b", "c", "d", None]


def test_an_answer_is_forgotten_if_a_file_that_it_read_differs(project: Project) -> None:
    project.check()
    path, data = str(project.folder / "model.py"), project.folder / "data.json"
    kept = KeptAnswers()
    kept.remember(path, "an answer", (str(data),), "a question")
    kept.save()
    assert KeptAnswers().recall(path, "a question") == "an answer"
    assert KeptAnswers().recall(path, "another question") is None
    data.write_text("[]")
    assert KeptAnswers().recall(path, "a question") is None


def test_no_folder_is_made_for_answers_alone(project: Project) -> None:
    kept = KeptAnswers()
    kept.remember(str(project.folder / "model.py"), "an answer", (), "a question")
    kept.save()
    assert not (project.folder / ".fuselight").exists()


def test_too_many_sources_to_compare_keep_no_answer(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.check()
    answers_file(project).unlink()
    monkeypatch.setattr(kept_answers, "_MAX_FILES", 1)
    kept = KeptAnswers()
    kept.remember(str(project.folder / "model.py"), "an answer", (), "a question")
    kept.save()
    assert not answers_file(project).exists()


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
