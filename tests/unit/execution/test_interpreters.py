"""The ladder that chooses an interpreter, with its reasons."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from fuselight_server.execution.interpreters import NoInterpreterError, choose, first


def environment_at(folder: Path) -> str:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return str(python)


def test_the_one_named_wins(tmp_path: Path) -> None:
    named = environment_at(tmp_path / "named")
    other = environment_at(tmp_path / "other")
    assert choose(named, tmp_path, {"VIRTUAL_ENV": other}).executable == named


def test_a_name_that_is_not_a_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoInterpreterError, match=r"--python .*missing"):
        choose(str(tmp_path / "missing"), tmp_path, {})


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_active_environment_comes_before_the_projects(tmp_path: Path, variable: str) -> None:
    active = environment_at(tmp_path / "active")
    environment_at(tmp_path / ".venv")
    choice = choose(None, tmp_path, {variable: str(tmp_path / "active")})
    assert (choice.executable, choice.why) == (active, variable)


def test_the_projects_environment(tmp_path: Path) -> None:
    python = environment_at(tmp_path / ".venv")
    choice = choose(None, tmp_path, {"VIRTUAL_ENV": str(tmp_path / "gone")})
    assert choice.executable == python
    assert ".venv" in choice.why


def test_then_the_running_interpreter_if_it_has_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert choose(None, tmp_path, {}).executable == sys.executable


def test_then_python3_on_path_else_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    python = environment_at(tmp_path / "usr")
    Path(python).rename(tmp_path / "usr" / "bin" / "python3")
    monkeypatch.setenv("PATH", str(tmp_path / "usr" / "bin"))
    assert choose(None, tmp_path, {}).why == "python3 on PATH"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoInterpreterError, match="--python PATH"):
        choose(None, tmp_path, {})


def test_the_editors_environment_comes_after_the_folders(tmp_path: Path) -> None:
    environment_at(tmp_path / "active")
    own = environment_at(tmp_path / ".venv")
    choice = first(tmp_path, {"VIRTUAL_ENV": str(tmp_path / "active")}, active_first=False)
    assert choice is not None
    assert (choice.executable, choice.why) == (own, f"the .venv of {tmp_path}")
