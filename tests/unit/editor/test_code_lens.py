"""The lenses of a target: actions first, at most two results, short, and each state once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.report import (
    Break,
    Call,
    ChangeKind,
    Compile,
    Culprit,
    Failure,
    Forecast,
    Frame,
    FrameForecast,
    GeneratedGraph,
    Graph,
    Inputs,
    Kernel,
    KernelKind,
    Location,
    Outcome,
    Phase,
    Report,
    Rung,
    Tier,
)
from fuselight_server.base.settings import parse_settings
from fuselight_server.editor.handlers.code_lens import code_lens, inputs_words
from fuselight_server.editor.handlers.commands import show_first
from fuselight_server.editor.handlers.hover import forecasts, targets
from fuselight_server.editor.handlers.report_tree import target_node
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.benchmarks import measured_result_of
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernels import kernel_result_of
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.results.target_result import STILL_RUNNING, TargetResult
from fuselight_server.editor.session.live_edits import STARTING, TOO_LARGE
from fuselight_server.editor.session.state import Document, State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings
from fuselight_server.source.code_changes import DeferredChange
from fuselight_server.source.document import SourceDocument
from tests.support.measured import benchmark, row
from tests.support.reports import FILE, at, broken, report

URI = f"file://{FILE}"
TEXT = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


# fuselight: step(f32[4])
@torch.compile
def step(x):
    return x * 2


if __name__ == "__main__":
    model = torch.compile(Net())
    model(torch.ones(3))
"""
NET, STEP, MAIN = 3, 10, 14
"""0-based lines of the lenses."""
ACTIONS = ["Run", "Kernels", "Benchmark", "Tune", "Details"]


def captured(name: str, *lines: int, **parts: Any) -> CaptureResult:
    frames = tuple(Frame("forward", at(line)) for line in lines)
    compiles = tuple(
        Compile(f"{index}/0", index, Outcome.COMPILED, graph=Graph(operators=1))
        for index in range(len(lines))
    )
    return capture_result_of(Key(FILE, name), 1, report(frames=frames, compiles=compiles, **parts), ())


def generated(*graphs: str, of: int = 3) -> Report:
    kernels = tuple(
        Kernel(f"triton_{number}", KernelKind.TRITON, number, estimate_us=10.0) for number in range(of)
    )
    generated_graphs = tuple(GeneratedGraph(graph, Phase.FORWARD, kernels=kernels) for graph in graphs)
    return report(tier=Tier.KERNELS, generated=generated_graphs)


def opened(*results: TargetResult) -> State:
    state = State()
    state.open(Document(URI, FILE, 1, SourceDocument(FILE, TEXT), runnable=True))
    state.client.commands = frozenset({"fuselight.showDetails", "fuselight.showBenchmark"})
    for result in results:
        state.accept(result)
    return state


async def lenses(state: State, running: Iterable[Key] = (), **known: Any) -> dict[int, list[str]]:
    run: Any = SimpleNamespace(job=SimpleNamespace(key=Key(FILE, "step")), progress=None)
    view = convert.Client("utf-8", state.read_line, convert.uri)
    snapshot = state.snapshot(URI, dict.fromkeys(running, run))
    assert snapshot is not None
    shown = dataclasses.replace(snapshot, **known)

    async def program_line(_document: Document) -> None:
        """No program: the file has targets."""

    analysis = SimpleNamespace(program_lines=SimpleNamespace(of=program_line))
    server: Any = SimpleNamespace(state=state, view=view, snapshot=lambda _uri: shown, analysis=analysis)
    params: Any = SimpleNamespace(text_document=SimpleNamespace(uri=URI))
    answer = await code_lens(server, params)
    assert answer is not None
    lenses: dict[int, list[str]] = {}
    for value in json.loads(answer.text):
        lenses.setdefault(value["range"]["start"]["line"], []).append(value["command"]["title"])
    return lenses


@pytest.mark.asyncio
async def test_actions_come_first_then_the_two_most_important_results() -> None:
    state = opened(
        captured("step", 11),
        kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, generated("0/0")),
    )
    assert (await lenses(state))[STEP] == [
        *ACTIONS, "1 graph, 0 breaks, 0 recompilations", "3 kernels, ~30 µs on cpu",
    ]  # fmt: skip
    rows = (row("eager", 300.0), row("default", 100.0))
    state.accept(measured_result_of(Key(FILE, "step", Tier.MEASURED), 2, benchmark(*rows)))
    assert (await lenses(state))[STEP][-1] == "eager 300 µs, default 100 µs (3.0×)"
    snapshot = state.snapshot(URI, {})
    assert snapshot is not None
    (hover,) = targets(snapshot, STEP + 1)
    for message in (
        "`step` capture: 1 graph",
        "inputs from line 9",
        "`step` kernels: 3 kernels",
        "measured on",
    ):
        assert message in hover, hover


@pytest.mark.asyncio
async def test_a_state_is_on_the_target_once() -> None:
    state = opened(
        captured("step", 11),
        kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, generated("0/0")),
    )
    document = state.at(FILE)
    assert document is not None
    state.edit(FILE, document.source.edit((5, 0), (5, 0), "    # new\n"))
    titles = (await lenses(state))[STEP + 1]
    assert titles[-2:] == [
        "1 graph, 0 breaks, 0 recompilations (before your edit)",
        "3 kernels, ~30 µs on cpu",
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (DeferredChange("", STARTING, 1), "edit: the tracer is starting"),
        (TOO_LARGE, "edit: not predicted, the file has more than 400 kB"),
    ],
)
async def test_a_lens_says_why_an_edit_has_no_trace_yet(change: DeferredChange, text: str) -> None:
    state = opened(captured("step", 11))
    prediction = Prediction(Key(FILE, "step"), FILE)
    prediction.deferred = (change,)
    state.predict(prediction)
    assert text in (await lenses(state))[STEP]


BATCH = Forecast(
    ChangeKind.SIZE, ("x.size(0)",), "6", "5", recompiles=True, source="x", born=(at(11),),
    guard="tensor 'L['x']' size mismatch at index 0. expected 6, actual 5",
)  # fmt: skip
EXPECTED = FrameForecast(
    "step", at(11), 1, 8, (BATCH, replace(BATCH, subject=("x.size(1)",), recompiles=False))
)


@pytest.mark.asyncio
async def test_a_forecast_is_shown_until_an_edit() -> None:
    state = opened(captured("step", 11, forecasts=(EXPECTED,)))
    assert (await lenses(state))[STEP][-2:] == [
        "1 graph, 0 breaks, 0 recompilations",
        "recompiles if the batch changes",
    ]
    snapshot = state.snapshot(URI, {})
    assert snapshot is not None
    (hover,) = forecasts(snapshot, STEP + 1)
    head, _, change, advice, _, note = hover.split("\n")
    assert head == "`step` recompiles if:"
    assert change.startswith("- the batch changes (x.size(0): 6 → 5): one more compile")
    assert "model.py:11" in change
    assert advice.strip().startswith("advice: Before the first call: `torch._dynamo.mark_dynamic(")
    assert "**Verify Forecast**" in note
    (result,) = snapshot.captures.values()
    batch, *_ = result.expected_changes
    result.tried[batch] = ("verified: Compile with dynamic=True (1 → 0 compiles, same results)",)
    (tried,) = forecasts(snapshot, STEP + 1)
    assert [line.strip() for line in tried.split("\n")][3:] == [
        "verified: Compile with dynamic=True (1 → 0 compiles, same results)"
    ], "no advice where something is verified"
    assert forecasts(snapshot, STEP) == []
    document = state.at(FILE)
    assert document is not None
    state.edit(FILE, document.source.edit((5, 0), (5, 0), "    # new\n"))
    assert not any("recompiles if" in title for title in (await lenses(state))[STEP + 1])
    edited = state.snapshot(URI, {})
    assert edited is not None
    assert forecasts(edited, STEP + 2) == []


@pytest.mark.asyncio
async def test_the_lens_of_a_running_target_shows_progress_and_partial_results() -> None:
    part = kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, generated("0/0"))
    part.unfinished = STILL_RUNNING
    state = opened(captured("step", 11), part)
    titles = (await lenses(state, [Key(FILE, "step", Tier.KERNELS)]))[STEP]
    assert titles == [
        "Cancel",
        "Details",
        "starting step",
        "3 kernels, ~30 µs on cpu (partial: still running)",
    ]


@pytest.mark.asyncio
async def test_kernels_of_recompiled_graphs_are_separate() -> None:
    kernel_result = kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, generated("0/0", "0/1", "0/2"))
    titles = (await lenses(opened(kernel_result)))[STEP]
    assert titles[-2:] == ["3 kernels, ~30 µs on cpu, 6 more in recompiles", "inputs from line 9"]


@pytest.mark.asyncio
async def test_a_class_shows_its_parts_that_a_run_of_main_compiled() -> None:
    assert NET not in (await lenses(opened())) or "graph" not in str((await lenses(opened()))[NET])
    entries = await lenses(opened(captured("", 5)))
    assert entries[NET][-1] == "1 graph, 0 breaks, 0 recompilations"
    assert "graph" not in str(entries[STEP]), "no code of it was compiled"
    assert entries[MAIN][:5] == ACTIONS


@pytest.mark.asyncio
async def test_no_lens_is_long() -> None:
    failure = Failure(Culprit.USER, "ValueError", "it failed because " + "x" * 1000, "fix it")
    failed = capture_result_of(Key(FILE, "step"), 1, report(failures=(failure,)), ())
    rows = [row("eager", 300.0), *(row(f"max-autotune-no-cudagraphs-{index}", 100.0) for index in range(9))]
    state = opened(failed, measured_result_of(Key(FILE, "step", Tier.MEASURED), 2, benchmark(*rows)))
    for titles in (await lenses(state)).values():
        assert all(len(title) <= 64 for title in titles), titles


def test_several_directives_are_all_named() -> None:
    calls = tuple(Call(index, "f()", Location("m.py", line)) for index, line in enumerate((16, 17, 18)))
    assert inputs_words(Inputs(Rung.DIRECTIVE, "m.py", 16, calls)) == "inputs from lines 16-18"
    assert inputs_words(Inputs(Rung.DIRECTIVE, "m.py", 16)) == "inputs from line 16"
    assert inputs_words(Inputs(Rung.PROVIDER, "m.py")) == "inputs from a provider"


OFFERED = """\
import torch
from torch.utils.data import DataLoader


def make_loader(path, batch):
    return DataLoader(path, batch_size=batch)


def loss_of(x, wanted):
    return torch.nn.functional.mse_loss(x, wanted)


# fuselight: counted(3)
def counted(n):
    return n + 1


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


step = torch.compile(loss_of)
"""
LOADER, LOSS, COUNTED, MODULE, VARIABLE = 4, 8, 13, 17, 22


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        (None, {LOSS, COUNTED, MODULE, VARIABLE}),
        ("compilable", {LOSS, COUNTED, MODULE, VARIABLE}),
        ("all", {LOADER, LOSS, COUNTED, MODULE, VARIABLE}),
        ("compiled", {COUNTED, VARIABLE}),
    ],
)
async def test_lenses_are_on_what_is_compiled_or_can_be(setting: str | None, lines: set[int]) -> None:
    state = opened()
    state.open(Document(URI, FILE, 1, SourceDocument(FILE, OFFERED), runnable=True))
    folder = state.folder_of(FILE)
    if setting is not None:
        folder.settings = parse_settings({"codeLens": setting})[0]
    assert {line for line, titles in (await lenses(state)).items() if "Run" in titles} == lines


@pytest.mark.asyncio
async def test_of_several_lines_the_first_to_fix_is_named_where_it_is_now() -> None:
    two = (broken(at(12), gb="GB0059"), broken(at(12), gb="GB0124"), broken(at(14), gb="GB0170"))

    def of(breaks: tuple[Break, ...]) -> CaptureResult:
        new_report = report(breaks=breaks)
        return capture_result_of(Key(FILE, "step"), 1, new_report, findings(new_report))

    state = opened(of(two))
    first = "Fix model.py:12 first: the graph of Net.forward ends here"
    assert (await lenses(state))[STEP][-1] == first
    fix = "Replace the branch with torch.where: verified, except where int32 overflows"
    assert (await lenses(state, first_fixes={Key(FILE, "step"): fix}))[STEP][-1] == f"{first} ({fix})", (
        "whole"
    )
    (result,) = state.captures.values()
    node, *_ = target_node(result, convert.Client("utf-8", state.read_line, convert.uri))["children"]
    assert (node["label"], [child["description"] for child in node["children"]]) == (first, ["model.py:14"])
    document = state.at(FILE)
    assert document is not None
    state.edit(FILE, document.source.edit((0, 0), (0, 0), "# new\n"))
    assert result.fix_first().startswith("Fix model.py:13 first")
    shown: list[types.ShowDocumentParams] = []

    async def show(given: types.ShowDocumentParams) -> None:
        shown.append(given)

    view = convert.Client("utf-8", state.read_line, convert.uri)
    server: Any = SimpleNamespace(state=state, view=view, uri_of=convert.uri, window_show_document_async=show)
    await show_first(server, {"uri": URI, "target": "step"})
    await show_first(server, {"uri": URI, "target": "none"})
    ((uri, line),) = [(params.uri, params.selection.start.line) for params in shown if params.selection]
    assert (uri, line) == (URI, 12), "a click goes to the line, in 0-based lines"
    other_state = opened(of(two[2:]))
    assert not any("first" in title for title in (await lenses(other_state))[STEP]), "there is no choice"


@pytest.mark.asyncio
async def test_a_save_that_does_not_parse_is_said_once_on_the_line() -> None:
    state = opened(captured("step", 11))
    document = state.at(FILE)
    assert document is not None
    state.edit(FILE, document.source.edit((6, 0), (6, 0), "        x = = 1\n"))
    waiting = "Fuselight waits: the file does not parse here"
    assert waiting not in str(await lenses(state)), "only typed"
    document.waits = True
    assert (await lenses(state))[5] == [waiting]
    assert str(await lenses(state)).count(waiting) == 1
    snapshot = state.snapshot(URI, {})
    assert snapshot is not None
    by_hand = dataclasses.replace(snapshot.settings, run="manual")
    assert waiting not in str(await lenses(state, settings=by_hand)), "a save runs nothing then"
