"""A check that runs nothing reads what an earlier one has computed, and loads no more than that takes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fuselight_server.execution.interpreters import choose
from fuselight_server.execution.runs import kept_answers
from fuselight_server.execution.runs.kept_answers import KeptAnswers

if TYPE_CHECKING:
    from collections.abc import Callable
from tests.support.kept_project import BOTH, MODEL, Project, data_edited, key_lost, make_project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return make_project(tmp_path, monkeypatch)


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


@pytest.mark.slow
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
