"""Which files of a command are programs, and what is said where nothing can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.report import TargetRef
from tests.support.command import AnsweringWorker, run_cli
from tests.support.reports import report

LOOP = """\
import torch
from layers import build

if __name__ == "__main__":
    for layer in build():
        layer.compile()
"""
IMPORTS = """\
from lib.steps import Trainer

if __name__ == "__main__":
    Trainer().fit()
"""
LIBRARY = """\
import torch

class Trainer:
    def __init__(self):
        self.runs = [torch.compile(self.step)]
"""
SCRIPT = "import torch\nfrom layers import build\n\nfor layer in build():\n    layer.compile()\n"
PLAIN = "import json\n\nif __name__ == '__main__':\n    print(json.dumps({}))\n"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnsweringWorker:
    (tmp_path / "pyproject.toml").touch()
    for name, text in {
        "loop.py": LOOP, "imports.py": IMPORTS, "lib/steps.py": LIBRARY, "script.py": SCRIPT, "plain.py": PLAIN
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    answering = AnsweringWorker(
        lambda request: report(target=TargetRef(request.target.path, request.target.name, 1, "main"))
    )
    answering.put_in_place(monkeypatch)
    return answering


@pytest.mark.parametrize("name", ["loop.py", "imports.py"])
def test_the_main_block_runs_where_the_file_or_what_it_imports_compiles(
    worker: AnsweringWorker, name: str
) -> None:
    done = run_cli("check", name)
    (request,) = worker.requests
    assert (request.target.kind, request.target.name) == ("main", "")
    assert request.inputs.main_line is not None
    assert "No targets" not in done.stdout


def test_a_file_without_a_main_block_runs_as_a_whole(worker: AnsweringWorker) -> None:
    run_cli("check", "script.py")
    (request,) = worker.requests
    assert (request.target.kind, request.inputs.main_line, request.inputs.is_script) == ("main", 4, True)


def test_a_folder_runs_the_programs_in_it(worker: AnsweringWorker) -> None:
    run_cli("check", ".")
    assert sorted(Path(request.target.path).name for request in worker.requests) == [
        "imports.py",
        "loop.py",
        "script.py",
    ]


def test_a_module_that_compiles_what_only_its_users_call_says_so(worker: AnsweringWorker) -> None:
    done = run_cli("check", "lib")
    assert worker.requests == []
    assert "lib/steps.py compiles on line 5" in done.stdout
    assert "`fuselight run PROGRAM`" in done.stdout
    assert "nothing here is compiled" not in done.stdout


def test_a_file_that_compiles_nothing_has_no_targets(worker: AnsweringWorker) -> None:
    done = run_cli("check", "plain.py")
    assert worker.requests == []
    assert "No targets: nothing here is compiled" in done.stdout
