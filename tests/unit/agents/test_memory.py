"""`memory` over a worker that answers at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import (
    ChangedMemory,
    HeldMemory,
    Location,
    MemoryChange,
    MemoryEstimate,
    MemoryPeak,
    MemorySaving,
    MemoryUse,
    ModuleMemory,
    Note,
    Report,
    SavingKind,
    StepPhase,
)
from tests.support import reports
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.command import AnsweringWorker


def answers(project: Path) -> AnsweringWorker:
    place = Location(str(project / "model.py"), 6)

    def peak(batch: int) -> MemoryPeak:
        rows = (
            HeldMemory(MemoryUse.SAVED, 10**9 * batch, 3, place),
            HeldMemory(MemoryUse.PARAMETER, 10**9, 8, None),
        )
        return MemoryPeak(10**9 * (batch + 1), 10**9, StepPhase.BACKWARD, "aten.mm", place, rows)

    def answer(request: Any) -> Report:
        assert isinstance(request, MemoryRequest)
        memory = tuple(
            MemoryEstimate(
                "Net()(f32[2, 4])",
                training=True,
                optimizer="adamw",
                eager=peak(batch),
                why_not_compiled="ValueError: no",
                batch=batch if request.batches else None,
            )
            for batch in request.batches or (2,)
        )
        notes = (Note("assumed_values", "a number is 1"), Note("other", "not for memory"))
        return replace(reports.report(), memory=memory, target_device=find("t4"), notes=notes)

    return AnsweringWorker(answer)


def test_the_peaks_come_with_their_lines_and_why_one_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = answers(project)
    worker.put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "memory", paths=["model.py"], mode="training", optimizer="sgd")
        (target,) = data["targets"]
        assert (target["device"], target["notes"], target["largest_batch"]) == (
            "Tesla T4",
            ["a number is 1"],
            None,
        )
        (call,) = target["calls"]
        assert (call["eager"]["bytes"], call["compiled"]["bytes"]) == (3 * 10**9, None)
        assert [row["bytes"] for row in call["eager"]["held"]] == [2 * 10**9, 10**9]
        assert call["eager"]["held"][0]["line"] == "model.py:6"
        for words in ("3 GB, in the backward of model.py:6: fits in 16 GB", "not estimated: ValueError: no"):
            assert words in text
        (request,) = worker.requests
        assert (request.training, request.optimizer) == (True, "sgd")

    talk(lambda: toolbox_of(project), script)


def test_the_largest_batch_is_searched_if_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(project).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "memory", paths=["model.py"], largest_batch=True)
        assert data["targets"][0]["largest_batch"] == {"eager": 9, "compiled": None}

    talk(lambda: toolbox_of(project), script)


def test_modules_causes_and_savings_come_with_the_peaks(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location(str(project / "model.py"), 6)
    parameters = HeldMemory(MemoryUse.PARAMETER, 10**9, 8, None)
    kept = HeldMemory(MemoryUse.TEMPORARY, 10**9, 1, place)

    def peak(*rows: HeldMemory) -> MemoryPeak:
        modules = (ModuleMemory("blocks.0", MemoryUse.PARAMETER, 10**9, 8),)
        size = sum(row.bytes for row in rows)
        return MemoryPeak(size, 10**9, StepPhase.BACKWARD, "aten.mm", place, rows, modules=modules)

    estimate = MemoryEstimate(
        "Net()(f32[2, 4])",
        training=True,
        rank=1,
        eager=peak(parameters, kept),
        compiled=peak(parameters),
        changes=(ChangedMemory(place, MemoryChange.FUSED),),
        savings=(MemorySaving(SavingKind.CHECKPOINT, "Block (blocks.0)", eager=10**9),),
    )

    def answer(request: Any) -> Report:
        assert request.savings
        return replace(reports.report(), memory=(estimate,), target_device=find("t4"))

    AnsweringWorker(answer).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "memory", paths=["model.py"], savings=True)
        (call,) = data["targets"][0]["calls"]
        assert call["rank"] == 1
        assert [row["module"] for row in call["compiled"]["modules"]] == ["blocks", "blocks.0"]
        (change,) = call["changes"]
        assert (change["more"], change["line"]) == (-(10**9), "model.py:6")
        assert change["cause"] == "fused: no buffer is allocated for it"
        assert [saving["name"] for saving in call["savings"]] == ["checkpoint Block (blocks.0)"]
        assert "-1 GB temporary model.py:6: fused: no buffer is allocated for it" in text
        assert "less with checkpoint Block (blocks.0): eager 2 GB -> 1 GB (-50%)" in text

    talk(lambda: toolbox_of(project), script)


def test_an_unknown_device_is_refused_and_code_runs_only_with_permission(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = answers(project)
    worker.put_in_place(monkeypatch)

    async def refused(client: MemoryClient) -> None:
        assert "h1000" in await client.refusal("memory", paths=["model.py"], device="h1000")

    async def forbidden(client: MemoryClient) -> None:
        assert "`fuselight mcp --allow-run`" in await client.refusal("memory", paths=["model.py"])

    talk(lambda: toolbox_of(project), refused)
    talk(lambda: toolbox_of(project, allowed=False), forbidden)
    assert worker.requests == []
