"""`accuracy` over a worker that answers at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.report import Stage
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.command import AnsweringWorker
from tests.support.compared_results import Fault, ScriptedProgram


def test_a_wrong_call_comes_with_its_line_its_stage_and_its_cure(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ScriptedProgram({1: Fault(cures=("pattern_matcher",), line=6)})
    AnsweringWorker(program.answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "accuracy", paths=["model.py"], tries="all")
        (target,) = data["targets"]
        assert (target["state"], target["calls_made"]) == ("differs", 3)
        (cause,) = target["causes"]
        assert (cause["call"], cause["stage"]) == (2, "code generation (TorchInductor)")
        assert cause["settings_tried"][-1] == "torch._inductor.config.pattern_matcher = False: cures"
        (finding,) = data["findings"]
        assert (finding["code"], finding["line"]) == ("FL801", 6)
        assert "0.8 from float64" in finding["message"]
        for words in ("1 call differs from eager", "pattern_matcher = False: cures", "model.py:6:"):
            assert words in text

    talk(lambda: toolbox_of(project), script)


def test_a_right_program_and_what_was_not_compared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram({0: Fault(Stage.CAPTURE, times=0)}, random=frozenset({1}))
    AnsweringWorker(program.answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "accuracy", paths=["model.py"], locate_seconds=0)
        (target,) = data["targets"]
        assert (target["state"], data["findings"]) == ("as_eager", [])
        assert "as eager (3 calls, 6 values compared)" in text
        assert "fallback_random" in target["notes"][0]

    talk(lambda: toolbox_of(project), script)


def test_it_runs_code_only_with_permission(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram()
    AnsweringWorker(program.answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        assert "`fuselight mcp --allow-run`" in await client.refusal("accuracy", paths=["model.py"])
        assert program.requests == []

    talk(lambda: toolbox_of(project, allowed=False), script)


def test_options_reach_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram(against="default")
    AnsweringWorker(program.answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        given = {"against": "default", "device": "cpu", "kernels": True}
        data, text = await ask(client, "accuracy", paths=["model.py"], **given)
        assert {(request.against, request.device) for request in program.requests} == {("default", "cpu")}
        assert [request.kernels for request in program.requests] == [False, True]
        assert "as `default` (3 calls, 6 values compared)" in text
        assert data["targets"][0]["notes"] == [
            "kernels of call 1: Of 3 buffers, 3 judged, 0 not mapped to operators, 0 not evaluated."
        ]
        assert "`h100` is no device" in await client.refusal("accuracy", paths=["model.py"], device="h100")

    talk(lambda: toolbox_of(project), script)
