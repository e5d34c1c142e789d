"""`benchmark` and `tune` over a worker that answers at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import MeasureRequest, TuneRequest
from fuselight.shared.report import Report, TargetRef
from fuselight_server.agents.tools import timed
from fuselight_server.commands.tune import TuningOutcome
from tests.support.agent_project import QUIET, scale
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.command import AnsweringWorker
from tests.support.measured import benchmark, row
from tests.support.tuned import search


def test_a_benchmark_says_what_was_measured(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "model.py"

    def answer(request: Any) -> Report:
        assert isinstance(request, MeasureRequest)
        measured = benchmark(row("eager", 200.0), row("default", 100.0))
        return dataclasses.replace(measured, target=TargetRef(str(path), "scale", 5, "function"))

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "benchmark", paths=["model.py"], configurations=["eager", "default"])
        (target,) = data["targets"]
        assert [item["name"] for item in target["configurations"]] == ["eager", "default"]
        assert target["configurations"][1]["speedup"] == 2.0
        assert "measured on this machine" in text
        assert "±" in target["configurations"][0]["time"]
        again, _ = await ask(client, "benchmark", paths=["model.py"], against="last")
        assert again["targets"][0]["comparison"]["changes"] == ["nothing changed by more than the spread"]
        runs = {"before": target["run"], "after": again["targets"][0]["run"]}
        both, _ = await ask(client, "compare", path="model.py", targets=["scale"], **runs)
        assert (both["kind"], both["changes"]) == ("benchmarks", ["nothing changed by more than the spread"])
        assert "no run `gone`" in await client.refusal(
            "compare", path="model.py", targets=["scale"], before="gone", after="last"
        )
        assert "`h100`" in await client.refusal("benchmark", paths=["model.py"], device="h100")
        assert "fastest" in await client.refusal("benchmark", paths=["model.py"], configurations=["fastest"])

    talk(lambda: toolbox_of(project), script)


def test_a_search_says_what_it_decided_and_where_it_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "model.py"

    def answer(request: Any) -> Report:
        answered = search() if isinstance(request, TuneRequest) else scale(path, QUIET)
        return dataclasses.replace(answered, target=TargetRef(str(path), "scale", 5, "function"))

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "tune", paths=["model.py"], budget_seconds=60)
        (target,) = data["targets"]
        assert target["file"] == "fuselight-tuned.json"
        assert (project / "fuselight-tuned.json").exists()
        assert target["configuration"] in text
        assert target["replay"] in text
        assert target["gain_over_default"] > 1

    talk(lambda: toolbox_of(project), script)


def test_a_search_that_was_canceled_early_has_nothing() -> None:
    text = timed._tuned(TuningOutcome(is_stopped=True), []).text
    assert text == "The search was canceled: it had measured nothing."
