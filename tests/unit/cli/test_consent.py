"""`fuselight consent`: what an editor may run without asking again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight_server.base.consent_store import ConsentStore
from fuselight_server.cli.command_line import run_command


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConsentStore:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    return ConsentStore()


def test_answers_are_listed_and_one_is_taken_back(
    store: ConsentStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command(["consent"]) == 0
    assert capsys.readouterr().out == f"No answers are kept in {store.path}.\n"
    project = tmp_path / "project"
    store.keep_answer(str(project), "run")
    store.keep_answer(f"{project / 'train.py'}#first-call", "command")
    store.keep_answer(str(tmp_path / "other"), "never")
    assert run_command(["consent", "--list"]) == 0
    *lines, empty, last = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        str(tmp_path / "other"), str(project), f"{project / 'train.py'} (up to its first call)",
    ]  # fmt: skip
    assert lines[0].startswith("runs are off ")
    assert (empty, last) == ("", f"3 answers in {store.path}")
    monkeypatch.chdir(tmp_path)
    assert run_command(["consent", "--forget", "project"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"forgotten: {project}",
        f"forgotten: {project / 'train.py'} (up to its first call)",
        "An editor that runs now goes on with its answer: restart its language server.",
    ]
    assert [kept.subject for kept in store.answers()] == [str(tmp_path / "other")]


def test_an_unknown_path_is_an_error_that_says_what_to_do(
    store: ConsentStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.keep_answer("/somewhere", "run")
    assert run_command(["consent", "--forget", "nowhere"]) == 2
    assert "no answer about `nowhere` is kept. `fuselight consent` lists" in capsys.readouterr().err
    assert [(kept.subject, kept.answer) for kept in store.answers()] == [("/somewhere", "run")]


def test_all_are_forgotten(store: ConsentStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.keep_answer("/somewhere", "run")
    assert run_command(["consent", "--forget-all"]) == 0
    assert run_command(["consent", "--forget-all"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No answers are kept."


def test_a_folder_is_allowed_for_editors_that_cannot_ask(
    store: ConsentStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["consent", "--allow", str(tmp_path / "nowhere")]) == 2
    assert (
        "does not exist. Name the folder that your editor has open, or a program in it."
        in capsys.readouterr().err
    )
    assert store.answers() == ()
    assert run_command(["consent", "--allow", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(f"allowed: code of {tmp_path} runs on each save")
    assert [(kept.subject, kept.answer) for kept in store.answers()] == [(str(tmp_path), "run")]


def test_a_program_is_allowed_with_its_part_up_to_the_first_call(
    store: ConsentStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "train.py"
    program.touch()
    assert run_command(["consent", "--allow", str(program)]) == 0
    assert capsys.readouterr().out.startswith(f"allowed: the program {program} runs on each save")
    assert [kept.subject for kept in store.answers()] == [str(program), f"{program}#first-call"]
