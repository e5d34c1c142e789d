"""`kernels` and `forecast` over a worker that answers at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import GenerateRequest
from fuselight.shared.report import Culprit, Failure, Report
from tests.support.agent_project import TEXT, scale, written_notebook
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.command import AnsweringWorker
from tests.support.measured import graph, kernel
from tests.support.reports import at


def test_a_target_that_did_not_run_says_where_and_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = at(4, path=str(project / "model.py"))
    failure = Failure(Culprit.USER, "inputs", "invalid syntax", stack=(place,))
    failed = dataclasses.replace(scale(project / "model.py", "", failures=(failure,)), inputs=None)
    AnsweringWorker(lambda _request: failed).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "kernels", paths=["model.py"])
        assert data["targets"][0]["failures"] == ["model.py:4: invalid syntax"]
        data, text = await ask(client, "forecast", paths=["model.py"])
        assert text.splitlines()[0] == "scale (model.py:5): nothing was compiled"
        assert text.splitlines()[1] == "  no forecast: not run: model.py:4: invalid syntax"

    talk(lambda: toolbox_of(project), script)


def test_the_kernels_of_a_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "model.py"
    kernels = (kernel(6, name="first"), kernel(7, launch=1, name="second"))
    generated = (graph(*(_moved(each, str(path)) for each in kernels)),)

    def answer(request: Any) -> Report:
        assert isinstance(request, GenerateRequest)
        return dataclasses.replace(scale(path, TEXT), generated=generated)

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "kernels", paths=["model.py"])
        assert [item["name"] for item in data["targets"][0]["kernels"]] == ["first", "second"]
        assert "Nothing was launched" in text
        data, _ = await ask(client, "kernels", paths=["model.py"], line=7, and_line=6, source=True)
        (target,) = data["targets"]
        assert [item["name"] for item in target["kernels"]] == ["second"]
        assert [line["line"] for line in target["lines"]] == ["model.py:7"]
        assert target["fusion"]
        data, text = await ask(client, "kernels", paths=["model.py"], line=1)
        assert "Line 1 has a part in no kernel" in text
        assert "no-such-gpu" in await client.refusal("kernels", paths=["model.py"], device="no-such-gpu")
        refused = await client.refusal("kernels", paths=["model.py"], device="x" * 60_000)
        assert "(56," in refused
        assert len(refused) < 4_100

    talk(lambda: toolbox_of(project), script)


def test_the_kernels_of_a_line_in_a_cell(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, text = written_notebook(project)
    rows = [number for number, line in enumerate(text.split("\n"), 1) if "print" in line or "return" in line]
    generated = (graph(*(_moved(kernel(row, launch=row, name=f"k{row}"), str(path)) for row in rows)),)
    ran = dataclasses.replace(scale(path, text), generated=generated)
    AnsweringWorker(lambda _request: ran).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        for cell in ({}, {"cell": 2, "and_cell": 2}):
            data, _ = await ask(client, "kernels", paths=["n.ipynb"], line=5, and_line=4, **cell)
            (target,) = data["targets"]
            assert [(line["line"], line["source"]) for line in target["lines"]] == [
                ("n.ipynb:cell 2:5", "return x * 2")
            ]
            assert target["fusion"].startswith("Cell 2, line 5 and cell 2, line 4 are not fused")
        data, _ = await ask(client, "kernels", paths=["n.ipynb"], line=1, cell=1)
        assert data["targets"][0]["rest"] == "Cell 1, line 1 has a part in no kernel of these calls."
        assert "`cell` needs `line`" in await client.refusal("kernels", paths=["n.ipynb"], cell=1)
        assert "is none" in await client.refusal("kernels", paths=["model.py"], line=1, cell=1)

    talk(lambda: toolbox_of(project), script)


def _moved(each: Any, path: str) -> Any:
    operators = tuple(
        dataclasses.replace(
            operator, stack=tuple(dataclasses.replace(frame, path=path) for frame in operator.stack)
        )
        for operator in each.operators
    )
    return dataclasses.replace(each, operators=operators)


def test_a_forecast_lists_what_compiles_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AnsweringWorker(lambda _request: scale(project / "model.py", TEXT)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "forecast", paths=["model.py"])
        assert data["targets"][0]["has_forecast"] is False
        assert "no forecast" in text

    talk(lambda: toolbox_of(project), script)
