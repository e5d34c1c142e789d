"""The ladder that chooses an interpreter, with its reasons."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from fuselight_server.execution.interpreters import NoInterpreterError, choose, expand, first, known_problem


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
    with pytest.raises(NoInterpreterError, match="Name a Python that has torch"):
        choose(None, tmp_path, {})


def test_the_editors_environment_comes_after_the_folders(tmp_path: Path) -> None:
    environment_at(tmp_path / "active")
    own = environment_at(tmp_path / ".venv")
    choice = first(tmp_path, {"VIRTUAL_ENV": str(tmp_path / "active")}, active_first=False)
    assert choice is not None
    assert (choice.executable, choice.why) == (own, f"the .venv of {tmp_path}")


def test_the_path_of_a_setting_is_expanded_as_in_vs_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/users/ada")
    monkeypatch.setenv("USERPROFILE", "/users/ada")
    assert expand("~/envs/a/bin/python", tmp_path, {}) == str(Path("/users/ada/envs/a/bin/python"))
    assert expand("${workspaceFolder}/.venv/bin/python", tmp_path, {}) == str(tmp_path / ".venv/bin/python")
    assert expand(".venv/bin/python", tmp_path, {}) == str(tmp_path / ".venv/bin/python")
    assert expand("${env:ENV}/bin/python", tmp_path, {"ENV": "/env"}) == str(Path("/env/bin/python"))
    assert expand("python3.12", tmp_path, {}) == "python3.12", "a program on PATH"


class Isolated:
    """An environment that sees its own packages alone."""

    def __init__(self, folder: Path, *, shared: str = "false") -> None:
        self.python = environment_at(folder)
        (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = {shared}\n")
        self.packages = folder / "lib" / "python3.11" / "site-packages"
        self.packages.mkdir(parents=True)
        (self.packages / "_virtualenv.pth").write_text("import _virtualenv")

    def problem(self, **environ: str) -> str | None:
        failure = known_problem(self.python, environ)
        return failure.message if failure is not None else None


def test_an_environment_without_torch_is_known_by_its_files(tmp_path: Path) -> None:
    isolated = Isolated(tmp_path / "env")
    assert isolated.problem() == f"{isolated.python} has no torch"
    (isolated.packages / "torchvision").mkdir()
    assert isolated.problem() is not None
    (isolated.packages / "torch-2.13.0.dist-info").mkdir()
    assert isolated.problem() is None


def test_torch_that_may_be_elsewhere_is_not_missed(tmp_path: Path) -> None:
    assert Isolated(tmp_path / "shared", shared="true").problem() is None
    isolated = Isolated(tmp_path / "env")
    (tmp_path / "path" / "torch").mkdir(parents=True)
    assert isolated.problem(PYTHONPATH=str(tmp_path)) is not None
    assert isolated.problem(PYTHONPATH=str(tmp_path / "path")) is None
    more = isolated.packages / "more.pth"
    for line in (
        "/opt/pytorch",
        "import site; site.addsitedir('/opt/pytorch')",
        "import __editable___torch_finder",
    ):
        more.write_text(f"{line}\n")
        assert isolated.problem() is None, line
    more.write_text("import os; os.environ.setdefault('A', 'b')\n")
    assert isolated.problem() is not None
    assert known_problem(environment_at(tmp_path / "conda"), {}) is None


def test_an_interpreter_that_is_not_there_is_known_at_once(tmp_path: Path) -> None:
    failure = known_problem(str(tmp_path / "gone" / "python"), {})
    assert failure is not None
    assert failure.message.endswith("gone/python cannot be started: No such file or directory")


@pytest.mark.parametrize("name", ["pyvenv.cfg", "lib/python3.11/site-packages/a.pth"])
@pytest.mark.parametrize("kind", ["/dev/zero", "pipe", "folder", "large"])
def test_no_file_of_an_environment_is_read_without_end(tmp_path: Path, name: str, kind: str) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("")
    (tmp_path / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to(kind)
    assert known_problem(str(python), {}) is None
