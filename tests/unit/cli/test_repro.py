"""`fuselight repro`: text, JSON, files and exit codes, with a scripted program and a scripted compiler."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import GraphsRequest, ScriptRequest
from fuselight.shared.report import (
    MARK,
    Culprit,
    Failure,
    RecordedGraph,
    RecordedNode,
    Report,
    Reproduction,
    ScriptOutcome,
    ScriptState,
    Stage,
    TensorTraits,
)
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands import repro
from fuselight_server.commands.options import CommandOptions
from fuselight_server.execution.interpreters import NoInterpreterError
from tests.support.command import AnsweringWorker, Result, run_cli
from tests.support.compared_results import Fault, ScriptedProgram

SOURCE = """\
import torch


# fuselight: Net()(f32[4, 8])
class Net(torch.nn.Module):
    def forward(self, x):
        y = x.flip(0)
        return x + y
"""
FLOATS = TensorTraits("float32", (32, 8), (8, 1), low=-1.0, high=1.0)
GRAPH = RecordedGraph(
    ("v_1_",),
    (
        RecordedNode("v_2_", "v_1_.cos()", ("v_1_",)),
        RecordedNode("v_3_", "torch.flip(v_2_, [0])", ("v_2_",)),
        RecordedNode("v_4_", "v_3_ + v_1_", ("v_3_", "v_1_")),
    ),
    ("v_4_",),
    dict.fromkeys(("v_1_", "v_2_", "v_3_", "v_4_"), FLOATS),
)
RECORDED = Reproduction((GRAPH,))


@dataclass
class ScriptedCompiler:
    """Answers as a worker in which a program is wrong if it calls `word`."""

    program: ScriptedProgram = field(default_factory=lambda: ScriptedProgram({1: Fault()}))
    parts: Reproduction = RECORDED
    word: str = "torch.flip("
    fresh: ScriptState = ScriptState.FAULT
    """What a new process shows of a program that a fork has shown."""
    release: str = ""
    """That of the worker that answers next, in a bisection."""
    wrong_releases: tuple[str, ...] = ()
    scripts: list[ScriptRequest] = field(default_factory=list)
    graphs: list[GraphsRequest] = field(default_factory=list)

    def answer(self, request: Any) -> Report:
        report = self.program.answer(request)
        if isinstance(request, GraphsRequest):
            self.graphs.append(request)
            return replace(report, reproduction=self.parts)
        if isinstance(request, ScriptRequest):
            self.scripts.append(request)
            return replace(report, reproduction=Reproduction(outcome=self._outcome(request)))
        return report

    def _outcome(self, request: ScriptRequest) -> ScriptOutcome:
        if self.release:
            state = ScriptState.FAULT if self.release in self.wrong_releases else ScriptState.RIGHT
            return ScriptOutcome(state, self.release)
        if self.word not in request.script or "eager" in request.arguments:
            return ScriptOutcome(ScriptState.RIGHT)
        state = self.fresh if request.fresh else ScriptState.FAULT
        return ScriptOutcome(state, "Tensor-likes are not close!", printed="eager\ntensor([1.])")


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    return path


def run(monkeypatch: pytest.MonkeyPatch, compiler: ScriptedCompiler, *arguments: str) -> Result:
    AnsweringWorker(compiler.answer).put_in_place(monkeypatch)
    return run_cli("repro", "m.py", *arguments)


def test_a_wrong_call_becomes_a_program_of_one_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ScriptedCompiler()
    done = run(monkeypatch, compiler)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "m.py: Net - torch.compile: compiled code returns other results than eager mode: torch.flip ("
    )
    assert "    return torch.flip(x0, [0])" in done.stdout
    assert MARK in done.stdout
    assert [request.call for request in compiler.graphs] == [1]
    assert [(request.fresh, request.arguments) for request in compiler.scripts if request.fresh] == [
        (True, ()),
        (True, ("eager",)),
    ], "it is confirmed in new processes, with the fault and without"


def test_a_program_that_a_new_process_does_not_confirm_is_not_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = run(monkeypatch, ScriptedCompiler(fresh=ScriptState.RIGHT))
    assert done.exit_code == 1
    assert "m.py: Net - not reproduced: a new process of Python does not show the fault" in done.stdout
    assert "import torch" not in done.stdout


def test_files_are_written_and_never_over_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "repro_Net.py").write_text("mine")
    done = run(monkeypatch, ScriptedCompiler(), "--out", "out")
    assert done.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "repro_Net.py",
        "repro_Net_2.md",
        "repro_Net_2.py",
    ]
    assert (tmp_path / "out" / "repro_Net.py").read_text() == "mine"
    compile((tmp_path / "out" / "repro_Net_2.py").read_text(), "repro.py", "exec")
    assert "## Expected" in (tmp_path / "out" / "repro_Net_2.md").read_text()


def test_json_has_the_program_and_the_issue(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, ScriptedCompiler(), "--format", "json")
    data = json.loads(done.stdout)
    (fault,) = data["faults"]
    assert (fault["name"], fault["what"], fault["confirmed"], fault["backend"]) == (
        "Net",
        "result",
        True,
        "inductor",
    )
    assert fault["lines"] == fault["script"].count("\n") <= 40
    assert fault["script"].rstrip() in fault["issue"]


def test_the_backend_is_the_first_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ScriptedCompiler(ScriptedProgram({1: Fault(Stage.FUNCTIONALIZATION)}))
    done = run(monkeypatch, compiler, "--format", "json")
    assert json.loads(done.stdout)["faults"][0]["backend"] == "aot_eager"


def test_a_fault_of_tracing_is_said_without_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ScriptedCompiler(ScriptedProgram({1: Fault(Stage.CAPTURE)}))
    done = run(monkeypatch, compiler)
    assert done.exit_code == 1
    assert "not reproduced: the fault is in tracing (TorchDynamo)" in done.stdout
    assert compiler.scripts == []


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            Reproduction((GRAPH,), replaced=("torch._inductor.config.post_grad_custom_post_pass",)),
            "sets `torch._inductor",
        ),
        (
            Reproduction(
                (replace(GRAPH, nodes=(replace(GRAPH.nodes[1], foreign="shop::scale"), *GRAPH.nodes[2:])),)
            ),
            "without `shop::scale`, which is not torch's",
        ),
        (Reproduction((GRAPH,)), "with torch alone and inputs of the same range the results are right"),
        (Reproduction((RecordedGraph(unprintable="an argument is a Thing"),)), "an argument is a Thing"),
        (Reproduction(), "no graph was recorded"),
    ],
)
def test_what_is_not_reproduced_has_its_reason(
    monkeypatch: pytest.MonkeyPatch, parts: Reproduction, words: str
) -> None:
    done = run(monkeypatch, ScriptedCompiler(parts=parts, word="nowhere"))
    assert done.exit_code == 1
    assert words in done.stdout


def test_values_are_asked_for_only_with_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ScriptedCompiler()
    run(monkeypatch, compiler)
    run(monkeypatch, compiler, "--with-values")
    assert [request.with_values for request in compiler.graphs] == [False, True]


def test_a_right_program_has_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, ScriptedCompiler(ScriptedProgram()))
    assert done.exit_code == 0
    assert done.stdout.strip() == "m.py: Net - no fault of the compiler was seen"


def test_without_time_nothing_is_tried_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, ScriptedCompiler(), "--budget", "0", "--format", "json")
    (fault,) = json.loads(done.stdout)["faults"]
    assert (fault["confirmed"], fault["partial"], fault["tried"]) == (False, True, 0)
    assert "the time was over" in fault["why_not"]


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases that were asked for, in order; each is there."""
    asked: list[str] = []

    def find_side(named: str, _option: str, _environ: object) -> Interpreter:
        return Interpreter(named, why="a release")

    async def interpreters_of(sides: list[Interpreter], _show: object) -> list[Interpreter]:
        asked.extend(side.executable for side in sides)
        return sides

    monkeypatch.setattr(repro, "find_side", find_side)
    monkeypatch.setattr(repro, "interpreters_of", interpreters_of)
    return asked


def test_the_first_release_that_has_the_fault_is_found_by_bisection(
    monkeypatch: pytest.MonkeyPatch, releases: list[str]
) -> None:
    compiler = ScriptedCompiler(wrong_releases=("2.13", "2.14", "2.15"))
    real = vars(repro)["interpreters_of"]

    async def started(sides: list[Interpreter], show: object) -> list[Interpreter]:
        compiler.release = sides[0].executable
        interpreters: list[Interpreter] = await real(sides, show)
        return interpreters

    async def run_program(interpreter: Interpreter, script: str, *_: object) -> ScriptOutcome:
        assert "torch.flip(" in script
        is_wrong = interpreter.executable in compiler.wrong_releases
        return ScriptOutcome(ScriptState.FAULT if is_wrong else ScriptState.RIGHT)

    monkeypatch.setattr(repro, "interpreters_of", started)
    monkeypatch.setattr(repro, "run_program", run_program)
    done = run(monkeypatch, compiler, "--bisect", "2.9..2.15", "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert releases[:2] == ["2.9", "2.15"]
    assert len(releases) <= 5, "it halves the range"
    (fault,) = json.loads(done.stdout)["faults"]
    assert (fault["releases"]["before"], fault["releases"]["after"]) == ("2.12", "2.13")
    assert "torch 2.12 is right, and 2.13 is wrong." in fault["issue"]


def test_a_release_that_cannot_be_installed_does_not_end_the_search(
    monkeypatch: pytest.MonkeyPatch, releases: list[str]
) -> None:
    """Its reason is that of the installer, and another error than that of the program is no answer, either."""
    real = vars(repro)["interpreters_of"]

    async def installed(sides: list[Interpreter], show: object) -> list[Interpreter]:
        if sides[0].executable == "2.12":
            raise NoInterpreterError("`uv pip install torch==2.12.*` failed: error: no space left")
        interpreters: list[Interpreter] = await real(sides, show)
        return interpreters

    async def run_program(interpreter: Interpreter, *_: object) -> ScriptOutcome:
        states = {"2.11": ScriptState.RIGHT, "2.14": ScriptState.FAULT}
        state = states.get(interpreter.executable, ScriptState.ERROR)
        return ScriptOutcome(state, "it took longer than 900 s")

    monkeypatch.setattr(repro, "interpreters_of", installed)
    monkeypatch.setattr(repro, "run_program", run_program)
    done = run(monkeypatch, ScriptedCompiler(), "--bisect", "2.11..2.14")
    assert releases == ["2.11", "2.14", "2.13"]
    assert "  torch 2.11 is right, and 2.14 is wrong (2.12, 2.13 between them cannot run it: " in done.stdout
    assert "    2.12: no answer: `uv pip install torch==2.12.*` failed: error: no space left\n" in done.stdout
    assert "    2.13: no answer: it took longer than 900 s\n" in done.stdout


def test_a_release_that_is_missing_is_named_before_anything_runs(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(model.parent / "cache"))
    compiler = ScriptedCompiler()
    done = run(monkeypatch, compiler, "--bisect", "2.11..2.12")
    assert done.exit_code == 2
    assert "`--bisect 2.11`: this version is not installed. Add `--install`" in done.stderr
    assert compiler.program.requests == []


@pytest.mark.parametrize("text", ["2.13", "2.15..2.11", "2.13..2.13", "1.9..2.1", "a..b"])
def test_a_range_is_two_releases(text: str) -> None:
    done = run_cli("repro", "m.py", "--bisect", text)
    assert done.exit_code == 2
    assert "is not a range of releases such as 2.11..2.15 or 2.13.0..2.14.1" in done.stderr


def test_what_does_not_compile_is_looked_for_among_the_graphs_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure = Failure(Culprit.COMPILER, "backend", "InductorError: no lowering", "")
    compiler = ScriptedCompiler(
        ScriptedProgram(), Reproduction((replace(GRAPH, error="InductorError: no lowering"),))
    )
    real = compiler.program.answer
    monkeypatch.setattr(
        compiler.program, "answer", lambda request: replace(real(request), failures=(failure,))
    )

    def answer(request: Any) -> Report:
        report = compiler.answer(request)
        is_part = isinstance(request, (GraphsRequest, ScriptRequest))
        return replace(report, failures=()) if is_part else report

    AnsweringWorker(answer).put_in_place(monkeypatch)
    done = run_cli("repro", "m.py", "--format", "json")
    (fault,) = json.loads(done.stdout)["faults"]
    assert (fault["what"], fault["confirmed"]) == ("failure", True)
    assert [request.call for request in compiler.graphs] == [None]
    assert "except Exception as error:" in fault["script"]
    assert fault["lines"] <= 30


def test_a_cancel_keeps_the_smallest_program_so_far(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, token = ScriptedCompiler(), CancelToken()

    class CancelledWorker(AnsweringWorker):
        async def run(self, request: Any, progress: Any, partial: Any) -> Any:
            if isinstance(request, ScriptRequest) and not request.fresh and len(compiler.scripts) == 2:
                token.cancel()  # Ctrl-C in the third run
                await asyncio.sleep(0)
            return await super().run(request, progress, partial)

    CancelledWorker(compiler.answer).put_in_place(monkeypatch)
    options = CommandOptions(paths=(model,))
    outcome = asyncio.run(repro.reproduce(options, lambda _text: None, token, plan=repro.ReproPlan()))
    (fault,) = outcome.faults
    assert fault.confirmed is not None
    assert fault.is_partial
    assert [request.fresh for request in compiler.scripts[-2:]] == [True, True], (
        "it is confirmed all the same"
    )
