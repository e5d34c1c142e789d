"""`fuselight accuracy` and `fuselight check --accuracy`: text, JSON, exit codes, with a scripted program."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import AccuracyRequest, CaptureRequest
from fuselight.shared.report import Culprit, Failure, Report, Stage
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.accuracy import compare
from fuselight_server.commands.accuracy_options import AccuracyPlan
from fuselight_server.commands.options import CommandOptions
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
LATER = "of later calls, fewer and fewer are compared"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    return path


def run(monkeypatch: pytest.MonkeyPatch, program: ScriptedProgram, *arguments: str) -> Result:
    AnsweringWorker(program.answer).put_in_place(monkeypatch)
    return run_cli(*arguments)


@pytest.mark.usefixtures("model")
def test_a_right_program_is_one_run_and_exit_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram(calls=5)
    done = run(monkeypatch, program, "accuracy", "m.py", "--time-limit", "30")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "m.py: Net - accuracy: as eager (5 calls, 10 values compared)",
        "  the run made 5 calls of compiled code",
        "",
    ]
    (request,) = program.requests
    assert (request.limits.seconds, request.backend, request.settings) == (30.0, "", {})


@pytest.mark.usefixtures("model")
def test_a_wrong_call_is_printed_with_its_line_and_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram({1: Fault(cures=("max_fusion_size",), line=7)})
    done = run(monkeypatch, program, "accuracy", "m.py", "--tries", "all")
    assert done.exit_code == 1
    heading, coverage, empty, first, where, *_ = done.stdout.splitlines()
    assert heading == "m.py: Net - accuracy: 1 call differs from eager (3 calls, 6 values compared)"
    assert (coverage, empty) == ("  the run made 3 calls of compiled code", "")
    assert first.startswith("error[FL801]: results of `Net` differ from eager mode in `torch.flip`")
    assert where.strip().startswith("--> m.py:7:")
    assert "Set `torch._inductor.config.max_fusion_size = 1` (tried" in done.stdout


@pytest.mark.usefixtures("model")
def test_the_options_say_how_much_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram({0: Fault()})
    run(monkeypatch, program, "accuracy", "m.py", "--tries", "0", "--locate", "7")
    assert [request.locate_seconds for request in program.requests if request.locate_seconds] == [7.0]
    assert not any(request.settings for request in program.requests)
    program = ScriptedProgram({0: Fault(Stage.CAPTURE)})
    run(monkeypatch, program, "accuracy", "m.py", "--tries", "0", "--locate", "0")
    assert [request.backend for request in program.requests] == ["", "eager"]


@pytest.mark.usefixtures("model")
def test_what_was_not_compared_is_listed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram(random=frozenset({0}))

    def answer(request: Any) -> Report:
        answered = program.answer(request)
        assert answered.results is not None
        undecided = replace(answered.results.calls[0], is_random=False)
        results = replace(answered.results, call_count=20, calls=(undecided, *answered.results.calls[1:]))
        return replace(answered, results=results)

    AnsweringWorker(answer).put_in_place(monkeypatch)
    done = run_cli("accuracy", "m.py")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "m.py: Net - accuracy: as eager (2 calls, 4 values compared; 18 calls not compared)"
    assert "  the run made 20 calls of compiled code" in lines
    assert "  not compared: 1 call: the call draws random numbers, and compiled code draws others" in lines
    assert f"  not compared: 17 calls: {LATER}" in lines


@pytest.mark.usefixtures("model")
def test_a_page_has_calls_differences_settings_and_what_was_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = ScriptedProgram(
        {1: Fault(cures=("pattern_matcher",), line=7)}, functions={1: "<b>Net</b>"}, random=frozenset({2})
    )

    def answer(request: Any) -> Report:
        answered = program.answer(request)
        assert answered.results is not None
        return replace(answered, results=replace(answered.results, call_count=20))

    AnsweringWorker(answer).put_in_place(monkeypatch)
    done = run_cli("accuracy", "m.py", "--format", "html", "--tries", "all")
    assert done.exit_code == 1
    page = done.stdout
    assert page.startswith("<!DOCTYPE html>")
    assert "1 target differs" in page
    assert "error[FL801] m.py:7: results of `&lt;b&gt;Net&lt;/b&gt;` differ from eager mode" in page
    assert f"17 calls: {LATER}" in page
    cells = [row.partition("</tr>")[0].split("<td") for row in page.split("<tr")[1:]]
    (setting,) = [row for row in cells if "pattern_matcher" in "".join(row)]
    assert "results as in eager mode" in "".join(setting)
    (wrong,) = [row for row in cells if "output is off by up to 1.91" in "".join(row) and len(row) > 5]
    assert [part in "".join(wrong) for part in ("m.py:40", "m.py:7", "torch.flip", "TorchInductor")] == [
        True
    ] * 4
    assert "<b>" not in page
    assert "with `torch._inductor.config.fallback_random = True`" in page


@pytest.mark.usefixtures("model")
def test_a_page_names_the_configuration_and_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram(against="default")
    AnsweringWorker(program.answer).put_in_place(monkeypatch)
    done = run_cli("accuracy", "m.py", "--format", "html", "--against", "default", "--kernels")
    assert "1 target as default" in done.stdout
    assert '<option value="as default">' in done.stdout or ">as default<" in done.stdout
    assert "kernels of call 1: Of 3 buffers, 3 judged" in done.stdout


@pytest.mark.usefixtures("model")
def test_a_page_of_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, ScriptedProgram(calls=0), "accuracy", "m.py", "--format", "html")
    assert done.exit_code == 2
    assert "1 target not compared" in done.stdout
    assert "not compared: the run made no call of compiled code" in done.stdout
    assert "Results that differ" not in done.stdout


@pytest.mark.usefixtures("model")
def test_json_has_the_verdict_the_calls_and_the_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram({1: Fault(cures=("pattern_matcher",), line=7)})
    done = run(monkeypatch, program, "accuracy", "m.py", "--format", "json", "--tries", "all")
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    assert set(data) == {"schema", "findings", "targets", "problems"}
    (target,) = data["targets"]
    assert (target["name"], target["state"], target["wrong_calls"]) == ("Net", "differs", [1])
    (cause,) = target["results"]["causes"]
    assert (cause["call"], cause["stage"]) == (1, "code")
    assert cause["tried"][-1] == {
        "name": "torch._inductor.config.pattern_matcher",
        "value": "False",
        "cures": True,
        "ratio": 1.0,
    }
    assert [(finding["code"], finding["line"]) for finding in data["findings"]] == [("FL801", 7)]


@pytest.mark.usefixtures("model")
def test_a_target_that_fails_is_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(Culprit.USER, "exception", "ValueError: no", "fix it")
    program = ScriptedProgram()
    AnsweringWorker(
        lambda request: replace(program.answer(request), failures=(failure,), results=None)
    ).put_in_place(monkeypatch)
    done = run_cli("accuracy", "m.py")
    assert done.exit_code == 2
    assert "failed: ValueError: no. fix it" in done.stdout
    assert run_cli("accuracy", "m.py", "--target", "Gone").exit_code == 2


def test_a_comment_silences_the_finding(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model.write_text(SOURCE.replace("x.flip(0)", "x.flip(0)  # fuselight: ignore[FL801]"))
    done = run(monkeypatch, ScriptedProgram({1: Fault(line=7)}), "accuracy", "m.py", "--tries", "0")
    assert "FL801" not in done.stdout
    assert "1 call differs from eager" in done.stdout


def test_a_notebook_is_named_by_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = ("import torch", "# fuselight: tilt(f32[2])\ndef tilt(x):\n    y = x.sin()\n    return y * 2")
    data = [{"cell_type": "code", "source": text} for text in cells]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": data, "metadata": {}, "nbformat": 4}))
    program = ScriptedProgram({1: Fault(line=6)})
    done = run(monkeypatch, program, "accuracy", "n.ipynb", "--tries", "0")
    assert "n.ipynb:cell 2:3:" in done.stdout
    done = run(monkeypatch, program, "accuracy", "n.ipynb", "--tries", "0", "--format", "json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["cell"], finding["line"]) == (2, 3)


@pytest.mark.usefixtures("model")
def test_check_compares_the_results_of_each_target_after_its_capture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = ScriptedProgram({1: Fault(Stage.CAPTURE, line=7)})
    seen: list[type[object]] = []

    def answer(request: Any) -> Report:
        seen.append(type(request))
        return program.answer(request)

    AnsweringWorker(answer).put_in_place(monkeypatch)
    done = run_cli("check", "m.py", "--accuracy", "--tries", "0")
    assert done.exit_code == 1
    assert seen[0] is CaptureRequest
    assert set(seen[1:]) == {AccuracyRequest}
    assert "error[FL801]" in done.stdout
    assert (
        "Results of Net (m.py): 1 call differs from eager (3 calls, 6 values compared)"
        in done.stdout.splitlines()
    )
    data = json.loads(run_cli("check", "m.py", "--accuracy", "--tries", "0", "--format", "json").stdout)
    assert [target["accuracy"]["state"] for target in data["targets"]] == ["differs"]


@pytest.mark.usefixtures("model")
def test_a_check_without_the_option_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram({1: Fault()})
    done = run(monkeypatch, program, "check", "m.py")
    assert (done.exit_code, program.requests) == (0, [])
    assert "eager" not in done.stdout


@pytest.mark.usefixtures("model")
def test_a_comparison_that_fails_in_a_check_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(Culprit.ENVIRONMENT, "timeout", "the run took longer than 30 s", "")
    program = ScriptedProgram()

    def answer(request: Any) -> Report:
        answered = program.answer(request)
        is_compared = isinstance(request, AccuracyRequest)
        return replace(answered, failures=(failure,), results=None) if is_compared else answered

    AnsweringWorker(answer).put_in_place(monkeypatch)
    done = run_cli("check", "m.py", "--accuracy")
    assert done.exit_code == 2
    assert "results of Net: the run took longer than 30 s" in done.stderr


@pytest.mark.usefixtures("model")
def test_a_run_that_is_canceled_half_way_starts_no_further_one(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram({1: Fault()})
    token = CancelToken()

    def answer(request: Any) -> Report:
        answered = program.answer(request)
        if len(program.requests) == 2:  # the first of those that explain the wrong call
            token.cancel()
        return answered

    AnsweringWorker(answer).put_in_place(monkeypatch)
    options = CommandOptions(paths=(Path("m.py"),))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(compare(options, lambda _text: None, token, plan=AccuracyPlan()))
    assert len(program.requests) == 2


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(("option", "training"), [("--train", True), ("--inference", False), ("", None)])
def test_every_run_is_for_training_or_inference_as_asked(
    monkeypatch: pytest.MonkeyPatch, option: str, *, training: bool | None
) -> None:
    program = ScriptedProgram({0: Fault(Stage.CAPTURE)})
    run(monkeypatch, program, "accuracy", "m.py", *filter(None, [option]))
    assert len(program.requests) > 1
    assert {request.training for request in program.requests} == {training}
