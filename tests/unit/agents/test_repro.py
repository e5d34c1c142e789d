"""`repro` over a worker that answers at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import CaptureRequest, GraphsRequest, ScriptRequest
from fuselight.shared.report import (
    MARK,
    Break,
    Location,
    RecordedCode,
    Report,
    Reproduction,
    ScriptOutcome,
    ScriptState,
)
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.command import AnsweringWorker
from tests.support.compared_results import ScriptedProgram

REASON = "Missing bytecode handler"
ASKS = "It may be possible to write tracing rules for this code. Please report an issue to PyTorch."
BLAMES = "Your code may result in an error when running in eager. Please report an issue to PyTorch."
CODE = RecordedCode(
    "import torch\ndef rows(table):\n    return len(table)", "rows", "[1]", f"Unsupported: {REASON}"
)


def breaks(hint: str, context: str = "") -> Any:
    """Answers as a worker in which a program with `len` has a graph break, of which torch says `hint`."""
    program = ScriptedProgram()
    place = Location("model.py", 3, function="rows")

    def answer(request: Any) -> Report:
        report = program.answer(request)
        if isinstance(request, CaptureRequest):
            graph_break = Break(
                "0/0", ("gb1",), (REASON,), (place,), reason=REASON, hints=(hint,), context=context
            )
            return replace(report, breaks=(graph_break,))
        if isinstance(request, GraphsRequest):
            return replace(report, reproduction=Reproduction(codes=(CODE,)))
        if isinstance(request, ScriptRequest):
            is_fault = "len(" in request.script and not request.arguments
            state = ScriptState.FAULT if is_fault else ScriptState.RIGHT
            outcome = ScriptOutcome(state, f"Unsupported: {REASON}")
            return replace(report, reproduction=Reproduction(outcome=outcome))
        return report

    return answer


def test_a_graph_break_that_torch_asks_to_report_has_a_program_and_an_issue(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AnsweringWorker(breaks(ASKS)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "repro", paths=["model.py"])
        (fault,) = data["faults"]
        assert (fault["what"], fault["confirmed"], fault["why_not"]) == ("break", True, "")
        assert fault["title"] == f"torch.compile: a graph break: Unsupported: {REASON}"
        assert MARK in fault["script"]
        assert "fullgraph=True" in fault["script"]
        assert fault["script"].rstrip() in fault["issue"]
        assert fault["issue"] in text
        assert "One graph: eager mode runs the function." in text
        assert "table" not in text

    talk(lambda: toolbox_of(project), script)


@pytest.mark.parametrize(("hint", "context"), [("", ""), (BLAMES, ""), (ASKS, "builtin print [] False")])
def test_a_graph_break_of_the_code_is_no_fault(
    project: Path, monkeypatch: pytest.MonkeyPatch, hint: str, context: str
) -> None:
    AnsweringWorker(breaks(hint, context)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "repro", paths=["model.py"])
        assert data["faults"] == []
        assert text == "No fault of the compiler was seen."

    talk(lambda: toolbox_of(project), script)


def test_it_runs_code_only_with_permission(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ScriptedProgram()
    AnsweringWorker(program.answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        assert "`fuselight mcp --allow-run`" in await client.refusal("repro", paths=["model.py"])
        assert program.requests == []

    talk(lambda: toolbox_of(project, allowed=False), script)
