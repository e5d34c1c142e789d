"""A project whose checks keep their captures, and changes of what they depend on."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.report import (
    Reads,
    Report,
    TargetRef,
    data_key,
)
from fuselight_server.base.settings import Interpreter
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
        """What runs, and what the command did; no trial, unless it is asked for."""
        self.ran.clear()
        tries = () if "--tries" in options else ("--tries", "0")
        done = run_cli("check", "model.py", *options, *tries)
        return list(self.ran), done


def state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (-1, 0)
    return (status.st_size, status.st_mtime_ns)


def make_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project, in a folder that is the current one until the test ends."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("USER_VARIABLE", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Project(folder, monkeypatch)


BOTH = ["first", "second"]


def data_edited(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "data.json").write_text("[]")


def key_lost(project: Project, _monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder.parent / "state" / "fuselight" / "key").unlink()


def captures(project: Project) -> list[Path]:
    paths = sorted((project.folder / ".fuselight" / "captures").iterdir())
    assert paths
    return paths
