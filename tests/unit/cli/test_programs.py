"""Which files of a command are programs, and what is said where nothing can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import (
    Culprit,
    Failure,
    Inputs,
    Location,
    Note,
    Recorded,
    Report,
    Rung,
    TargetRef,
)
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


def test_a_program_whose_library_may_compile_is_for_run(worker: AnsweringWorker) -> None:
    main = "if __name__ == '__main__':\n    Accelerator().prepare(1)\n"
    Path("train.py").write_text(f"import torch\nfrom accelerate import Accelerator\n\n{main}")
    done = run_cli("check", "train.py")
    assert worker.requests == []
    assert "train.py compiles nothing itself" in done.stdout
    assert "`fuselight run train.py`" in done.stdout


@pytest.mark.parametrize(
    "call", ["torch.export.export(net, x)", "export(net, x)", "torch.export.draft_export(net, x)"]
)
def test_a_program_that_exports_is_for_run_and_no_library_is_suspected(
    worker: AnsweringWorker, call: str
) -> None:
    Path("serve.py").write_text(f"import torch\n\nif __name__ == '__main__':\n    {call}\n")
    done = run_cli("check", "serve.py")
    assert worker.requests == []
    assert "serve.py exports a model and compiles nothing" in done.stdout
    assert "Accelerator" not in done.stdout


STEPS = ("Trainer._step", "main.scaled")


def program_report(request: RunRequest) -> Report:
    """The report of the whole program, or of the calls of one thing that it compiles."""
    target = request.target
    ref = TargetRef(target.path, target.name, target.line, target.kind)
    if target.kind == "main":
        at = Location(target.path, 6)
        recorded = tuple(Recorded(target.path, name, 3, f"{name}(f32[4])", at) for name in STEPS)
        part = Recorded(target.path, "helper", 9, "helper(f32[4])")
        inputs = Inputs(Rung.MAIN, target.path, 4)
        return report(target=ref, inputs=inputs, recorded=(*recorded, part))
    if target.name in STEPS:
        return report(target=ref, inputs=Inputs(Rung.MAIN, target.path, 4))
    failure = Failure(Culprit.USER, "inputs", f"the program does not compile {target.name}: it compiles a, b")
    return report(target=ref, inputs=None, failures=(failure,))


@pytest.mark.parametrize("command", ["fix", "forecast", "bench", "tune"])
def test_each_thing_that_a_program_compiles_is_a_target_of_the_commands_that_repeat_calls(
    worker: AnsweringWorker, command: str
) -> None:
    worker.answer = program_report
    run_cli(command, "loop.py")
    first, *calls = worker.requests
    assert first.target.kind == "main"
    assert list(dict.fromkeys(call.target.name for call in calls)) == list(STEPS), (
        "what is compiled as a part of them is none"
    )
    assert all(call.target.kind == "call" and Path(call.inputs.main_path).name == "loop.py" for call in calls)


def test_what_the_program_compiles_can_be_named(worker: AnsweringWorker) -> None:
    worker.answer = program_report
    done = run_cli("check", "loop.py", "--target", "Trainer._step")
    (request,) = worker.requests
    assert (request.target.name, request.target.kind) == ("Trainer._step", "call")
    assert done.exit_code == 0
    assert "Trainer._step (loop.py)" in done.stdout


def test_a_name_that_the_program_does_not_compile_is_a_problem(worker: AnsweringWorker) -> None:
    worker.answer = program_report
    done = run_cli("check", "loop.py", "--target", "Trainer.stop")
    assert done.exit_code == 2
    assert "the program does not compile Trainer.stop: it compiles a, b" in done.stderr
    assert "FL502" not in done.stdout


def test_a_program_that_calls_nothing_that_it_compiles_has_nothing_to_repeat(worker: AnsweringWorker) -> None:
    worker.answer = lambda request: report(
        target=TargetRef(request.target.path, "", 4, "main"), inputs=Inputs(Rung.MAIN, request.target.path, 4)
    )
    done = run_cli("bench", "loop.py")
    assert done.exit_code == 2
    assert "loop.py: the program made no call of anything that it compiles" in done.stderr


def test_what_was_not_tried_and_that_nothing_was_compiled_is_said_after_the_target(
    worker: AnsweringWorker,
) -> None:
    def answer(request: RunRequest) -> Report:
        target = TargetRef(request.target.path, "", 4, "main")
        notes = (Note("without_aot", "2 graphs were captured by TorchDynamo alone"),)
        return report(target=target, inputs=Inputs(Rung.MAIN, request.target.path, 4), notes=notes)

    worker.answer = answer
    done = run_cli("check", "loop.py")
    assert "__main__ (loop.py): torch.compile compiled nothing" in done.stdout
    assert "2 graphs were captured by TorchDynamo alone" in done.stdout
