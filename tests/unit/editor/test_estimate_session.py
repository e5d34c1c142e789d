"""Estimates of memory in the queue: in lens, hover, report, inlay hints and heat; after edits, after a save, kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.devices import find
from fuselight.shared.protocol import MemoryRequest, RunRequest
from fuselight.shared.report import (
    Culprit,
    Failure,
    HeldMemory,
    Location,
    MemoryEstimate,
    MemoryPeak,
    MemoryUse,
    Report,
    StepPhase,
    Tier,
)
from fuselight_server.base.settings import Settings
from fuselight_server.base.store import Store
from fuselight_server.editor.handlers import on_demand
from fuselight_server.editor.handlers.inlay_hints import inlay_hints
from fuselight_server.editor.handlers.kernel_documents import kernel_lines
from fuselight_server.editor.messages.answers import MessageRange
from fuselight_server.editor.messages.params import KernelLinesParams
from fuselight_server.editor.presenters.convert import Client
from fuselight_server.editor.presenters.lens import target_lenses
from fuselight_server.editor.presenters.report_nodes import shown_results, target_node, with_further_results
from fuselight_server.editor.results.memory import memory_result_of
from fuselight_server.editor.results.memory_words import memory_info
from fuselight_server.editor.results.target_hover import targets
from fuselight_server.editor.results.target_lens import lens_of
from fuselight_server.editor.session.stored_results import StoredResults
from fuselight_server.execution.runs.keys import Key, WorkerKey
from fuselight_server.execution.runs.last_results import forget_results, kept_results
from fuselight_server.source.document import SourceDocument
from tests.support import reports
from tests.support.benchmark_session import TEXT, BenchmarkSession, OnDemandWorker, Worker

PLACE: MessageRange = {"start": {"line": 4, "character": 0}, "end": {"line": 4, "character": 1}}
FAILED = Failure(Culprit.USER, "timeout", "the run took longer than 600 s", "raise the limit")
LINES = len(TEXT.splitlines())


def held(use: MemoryUse, size: float, at: Location | None = None) -> HeldMemory:
    return HeldMemory(use, int(size), 1, at)


def peak(*rows: HeldMemory, saved: tuple[HeldMemory, ...] = ()) -> MemoryPeak:
    at = rows[-1].location
    return MemoryPeak(
        sum(row.bytes for row in rows), 0, StepPhase.BACKWARD, "aten.mm.default", at, rows, saved
    )


def estimate(path: str, compiled: float = 31.2e9, eager: float = 42e9) -> MemoryEstimate:
    """A training step whose last line keeps most, and the line before it a quarter."""
    last, before = Location(path, LINES), Location(path, LINES - 1)
    kept = held(MemoryUse.SAVED, 7e9, last), held(MemoryUse.SAVED, 3e9, before)
    small = held(MemoryUse.SAVED, 5e7, Location(path, 1))
    return MemoryEstimate(
        "f()",
        training=True,
        optimizer="adamw",
        eager=peak(
            held(MemoryUse.PARAMETER, eager - 2e9), held(MemoryUse.TEMPORARY, 2e9, last), saved=kept[:1]
        ),
        compiled=peak(held(MemoryUse.PARAMETER, compiled - 7e9), kept[0], saved=(*kept, small)),
    )


class EstimatingWorker(OnDemandWorker):
    """Answers each request for memory with the same estimate."""

    tier = Tier.MEMORY
    estimates: tuple[MemoryEstimate, ...] = ()

    def report_for(self, request: RunRequest) -> Report:
        memory = self.estimates if isinstance(request, MemoryRequest) else ()
        report = reports.report(memory=memory, target_device=find("h100"))
        return replace(
            report, target=replace(report.target, path=request.target.path, name=request.target.name)
        )


class Session(BenchmarkSession):
    """A session whose target `f` is estimated."""

    def __init__(self, folder: Path, *estimates: MemoryEstimate, **settings: Any) -> None:
        super().__init__(folder)
        self.folder, self.estimates = folder, estimates or (estimate(self.path),)
        self.state.folders[str(folder)].settings = Settings(live="off", **settings)
        self.key = Key(self.path, "f", Tier.MEMORY)

    def _worker(self, worker_key: WorkerKey, _settings: Settings, _log: Callable[[str], None]) -> Worker:
        worker = EstimatingWorker(worker_key)
        worker.estimates = self.estimates
        return self.add_worker(worker)

    @property
    def estimating(self) -> EstimatingWorker:
        worker = self.measuring
        assert isinstance(worker, EstimatingWorker)
        return worker

    def start(self) -> None:
        options = {"uri": self.uri, "target": "f"}
        on_demand.start(self, options, tier=Tier.MEMORY)  # type: ignore[arg-type]  # the parts of a server that it reads

    async def estimate(self) -> None:
        self.start()
        await self.settle()

    def titles(self) -> list[str]:
        runs = self.analysis.runs
        shown = self.state.snapshot(self.uri, runs.in_flight, runs.queue.waiting)
        assert shown is not None
        (target,) = [target for target in shown.reading.targets if target.name == "f"]
        lens = lens_of(shown, target, {"f"})
        assert lens is not None
        return [entry["command"]["title"] for entry in target_lenses(lens, PLACE)]

    def server(self) -> Any:
        """The parts of a server that the handlers of lines read."""
        return SimpleNamespace(
            state=self.state,
            encoding="utf-8",
            snapshot=lambda uri: self.state.snapshot(uri, {}),
            uri_of=self.uri_of,
        )

    def hints(self) -> list[tuple[int, str]]:
        end = types.Position(LINES, 0)
        params = types.InlayHintParams(
            types.TextDocumentIdentifier(self.uri), types.Range(types.Position(0, 0), end)
        )
        answer = inlay_hints(self.server(), params)
        return [(hint.position.line + 1, str(hint.label)) for hint in answer or ()]

    def marks(self) -> list[tuple[int, int]]:
        answer = kernel_lines(self.server(), KernelLinesParams(self.uri))
        return [(mark["line"] + 1, mark["level"]) for mark in answer["lines"]]


@pytest.mark.asyncio
async def test_an_estimate_is_in_lens_hover_report_hints_and_heat(tmp_path: Path) -> None:
    session = Session(tmp_path, device="h100")
    assert session.hints() == []
    await session.estimate()
    request = session.estimating.asked[0]
    assert isinstance(request, MemoryRequest)
    assert request.device is not None
    assert (request.device.key, request.limits.seconds) == ("h100-sxm", 480.0)
    assert session.titles()[0] == "peak 31.2 GB of 80 (compiled), 42 (eager)"
    assert "Memory" in session.titles()
    snapshot = session.state.snapshot(session.uri, {})
    assert snapshot is not None
    (target,) = snapshot.reading.targets[:1]
    (hover,) = targets(snapshot, target.name_span.line)
    assert "`f` memory: a training step with adamw on NVIDIA H100" in hover
    assert f"31.2 GB, in the backward of m.py:{LINES}: fits in 80 GB" in hover
    assert session.hints() == [(LINES - 1, "saves 3 GB"), (LINES, "saves 7 GB")], "and not the small one"
    assert session.marks() == [(LINES - 1, 2), (LINES, 3)]

    (shown,) = with_further_results(shown_results(session.state, session.path), session.state, session.path)
    view = Client("utf-8", session.state.documents.read_line, session.uri_of)
    node = target_node(shown.capture, view, memory=shown.memory)
    (memory,) = [child for child in node["children"] if child["contextValue"] == "memory"]
    (call,) = memory["children"]
    compiled, eager, changed = call["children"]
    assert "compiled needs 10.8 GB less than eager mode" in call["description"]
    assert [row["label"] for row in compiled["children"]] == [
        "24.2 GB",
        "7 GB",
        "Saved for the backward, 10.1 GB (3)",
    ]
    at = compiled["children"][1]["range"]
    assert at is not None
    assert at["start"]["line"] == LINES - 1
    assert [row["label"] for row in changed["children"]] == ["-15.8 GB", "+7 GB", "-2 GB"]
    assert "fits in 80 GB" in eager["description"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_edit_makes_it_stale_and_an_edited_line_has_no_hint(tmp_path: Path) -> None:
    session = Session(tmp_path)
    await session.estimate()
    result = session.state.estimates[session.key]
    document = SourceDocument(session.path, TEXT)
    result.apply_edit(session.path, document.edit((2, 0), (2, 0), "# new\n"))
    assert [(line.place.line, line.saved) for line in result.lines(session.path)] == [
        (1, int(5e7)), (LINES, int(3e9)), (LINES + 1, int(7e9)),
    ]  # fmt: skip
    result.apply_edit(session.path, document.edit((LINES + 1, 4), (LINES + 1, 5), "g(h"))
    assert [line.place.line for line in result.lines(session.path)] == [1, LINES]
    assert session.titles()[0].endswith("(before your edit)")
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_canceled_or_failed_estimate_costs_no_earlier_one(tmp_path: Path) -> None:
    session = Session(tmp_path)
    await session.estimate()
    session.estimating.held.clear()
    session.start()
    while session.titles()[0] != "Memory: calling":
        session.ui.moved.clear()
        await asyncio.wait_for(session.ui.moved.wait(), 10)
    assert "Cancel Memory" in session.titles()
    on_demand.cancel(session, {"uri": session.uri, "target": "f"}, tier=Tier.MEMORY)  # type: ignore[arg-type]
    session.estimating.held.set()
    await session.settle()
    assert session.titles()[:2] == [
        "estimate of memory canceled",
        "peak 31.2 GB of 80 (compiled), 42 (eager)",
    ]
    session.estimating.failure = FAILED
    await session.estimate()
    assert session.titles()[0] == "peak 31.2 GB of 80 (compiled), 42 (eager), failed later"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_settings_offer_it_or_start_it_after_a_save(tmp_path: Path) -> None:
    session = Session(tmp_path, memory="off")
    assert "Memory" not in session.titles()
    await session.analysis.close()
    session = Session(tmp_path, memory="afterSave")
    session.analysis.saves.saved(session.path, automatic=False)
    for _ in range(500):
        await asyncio.sleep(0.01)
        if session.key in session.state.results:
            break
    assert session.state.estimates[session.key].has_data
    await session.analysis.close()


@pytest.mark.asyncio
async def test_another_session_shows_the_last_estimate_of_unchanged_files(tmp_path: Path) -> None:
    session = Session(tmp_path)
    await session.estimate()
    store = Store.at(tmp_path)
    assert [report.memory for report, _ in kept_results(store, Tier.MEMORY)] == [session.estimates]
    assert list(kept_results(store, Tier.ACCURACY)) == []
    await session.analysis.close()
    later = Session(tmp_path)
    await StoredResults(later.state).show(store)
    assert later.titles()[0].startswith("peak 31.2 GB of 80 (compiled), 42 (eag")
    assert "(from 20" in later.titles()[0]
    forget_results(store)
    assert list(kept_results(store, Tier.MEMORY)) == []
    await later.analysis.close()


def verdict(parts: MemoryEstimate | None, *, failures: tuple[Failure, ...] = ()) -> str:
    report = replace(
        reports.report(failures=failures),
        tier=Tier.MEMORY,
        memory=(parts,) if parts is not None else (),
        target_device=find("h100"),
    )
    info = memory_info(memory_result_of(Key("/m.py", "f", Tier.MEMORY), 1, report), is_running=False)
    return info.text


def test_the_lens_says_what_does_not_fit_and_what_is_not_known() -> None:
    whole = estimate("/m.py")
    assert verdict(estimate("/m.py", compiled=92.1e9, eager=110e9)) == (
        "does not fit in 80 GB: 92.1 GB (compiled), 110 (eager)"
    )
    assert verdict(estimate("/m.py", compiled=78e9)) == "close to 80 GB: 78 GB (compiled), 42 (eager)"
    assert verdict(estimate("/m.py", compiled=31.2e9, eager=8e8)).endswith("(compiled), 800 MB (eager)")
    alone = replace(whole, compiled=None, why_not_compiled="Unsupported: a generator")
    assert verdict(alone) == "peak 42 GB of 80 (eager), compiled not estimated"
    small = replace(alone, eager=peak(held(MemoryUse.PARAMETER, 656e6)))
    assert verdict(small) == "peak 656 MB of 80 GB (eager), compiled not estimated"
    nothing = replace(alone, eager=None, why_not_eager="DataDependentOutputException: aten.nonzero")
    assert verdict(nothing) == "memory: not estimated: Unsupported: a generator"
    assert verdict(None, failures=(FAILED,)) == "memory: stopped at the time limit"
    assert len(verdict(estimate("/m.py", compiled=92.1e9, eager=110e9))) <= 60
