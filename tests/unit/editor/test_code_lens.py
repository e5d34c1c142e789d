"""The lenses of a target: at most two facts, then the actions that can work; short, and each state once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath
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
    Recorded,
    Report,
    Rung,
    Tier,
)
from fuselight_server.base.settings import parse_settings
from fuselight_server.editor.handlers.code_lens import code_lens
from fuselight_server.editor.handlers.commands import show_first
from fuselight_server.editor.handlers.report_tree import report_tree
from fuselight_server.editor.messages.params import ReportTreeParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.report_nodes import target_node
from fuselight_server.editor.results.benchmarks import measured_result_of
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernels import kernel_result_of
from fuselight_server.editor.results.predictions import STARTING, Prediction
from fuselight_server.editor.results.run_ends import (
    CANCELED,
    INTERPRETER_CHANGED,
    LOST,
    NOT_ALLOWED,
    POSTPONED,
    RunEnd,
)
from fuselight_server.editor.results.shown_findings import findings_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_hover import forecasts, targets
from fuselight_server.editor.results.target_lens import inputs_words
from fuselight_server.editor.results.target_result import STILL_RUNNING, TargetResult
from fuselight_server.editor.results.tunings import tuning_result_of
from fuselight_server.editor.session.live_edits import TOO_LARGE
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings
from fuselight_server.source.code_changes import DeferredChange
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.input_programs import InputProgram
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
ACTIONS = ["Run", "Details", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune"]
OF_PROGRAM = [title for title in ACTIONS if title != "Memory"]
"""Of what only a run of the program gives inputs to."""


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
        state.accept_result(result)
    return state


async def lenses(state: State, running: Iterable[Key] = (), **known: Any) -> dict[int, list[str]]:
    lenses: dict[int, list[str]] = {}
    for value in await answered(state, running, **known):
        lenses.setdefault(value["range"]["start"]["line"], []).append(value["command"]["title"])
    return lenses


async def tooltips(state: State, **known: Any) -> dict[str, str]:
    commands = [value["command"] for value in await answered(state, **known)]
    return {command["title"]: command["tooltip"] for command in commands if "tooltip" in command}


async def answered(state: State, running: Iterable[Key] = (), **known: Any) -> Any:
    run: Any = SimpleNamespace(job=SimpleNamespace(key=Key(FILE, "step")), progress=None)
    view = convert.Client("utf-8", state.documents.read_line, convert.uri)
    snapshot = state.snapshot(URI, dict.fromkeys(running, run))
    assert snapshot is not None
    shown = dataclasses.replace(snapshot, **known)

    async def program_line(_document: Document) -> None:
        """No program: the file has targets."""

    analysis = SimpleNamespace(saves=SimpleNamespace(program_lines=SimpleNamespace(of=program_line)))
    server: Any = SimpleNamespace(state=state, view=view, snapshot=lambda _uri: shown, analysis=analysis)
    params: Any = SimpleNamespace(text_document=SimpleNamespace(uri=URI))
    answer = await code_lens(server, params)
    assert answer is not None
    return json.loads(answer.text)


@pytest.mark.asyncio
async def test_the_two_most_important_results_come_first_then_actions() -> None:
    state = opened(
        captured("step", 11),
        kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, generated("0/0")),
    )
    assert (await lenses(state))[STEP] == ["3 kernels, ~30 µs on cpu", "1 graph, no breaks", *ACTIONS]
    rows = (row("eager", 300.0), row("default", 100.0))
    state.accept_result(measured_result_of(Key(FILE, "step", Tier.MEASURED), 2, benchmark(*rows)))
    assert (await lenses(state))[STEP][0] == "eager 300 µs, default 100 µs (3.0×)"
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
    document = state.documents.at(FILE)
    assert document is not None
    state.edit(FILE, document.source.edit((5, 0), (5, 0), "    # new\n"))
    titles = (await lenses(state))[STEP + 1]
    assert titles[:2] == ["1 graph, no breaks (before your edit)", "3 kernels, ~30 µs on cpu"]


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
    assert (await lenses(state))[STEP][:2] == ["1 graph, no breaks", "recompiles if the batch changes"]
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
    document = state.documents.at(FILE)
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
        "starting step",
        "3 kernels, ~30 µs on cpu (partial: still running)",
        "Cancel",
        "Details",
    ]


@pytest.mark.asyncio
async def test_kernels_of_recompiled_graphs_are_separate() -> None:
    kernel_result = kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, generated("0/0", "0/1", "0/2"))
    titles = (await lenses(opened(kernel_result)))[STEP]
    assert titles == ["3 kernels, ~30 µs on cpu, 6 more in recompiles", *ACTIONS, "inputs from line 9"]


@pytest.mark.asyncio
async def test_a_class_shows_its_parts_that_a_run_of_main_compiled() -> None:
    assert NET not in (await lenses(opened())) or "graph" not in str((await lenses(opened()))[NET])
    entries = await lenses(opened(captured("", 5)))
    assert entries[NET] == ["1 graph, no breaks", "Run", "Details"]
    assert "graph" not in str(entries[STEP]), "no code of it was compiled"
    assert entries[MAIN] == ["1 graph, no breaks", *OF_PROGRAM, "inputs from line 9"]


@pytest.mark.asyncio
@pytest.mark.parametrize(("name", "line", "is_within"), [("", 6, True), ("", 12, False), ("model", 6, True)])
async def test_a_class_leads_to_what_a_run_of_main_found_in_it(
    name: str, line: int, *, is_within: bool
) -> None:
    costly = (broken(at(line), gb="GB0059"), broken(at(line), gb="GB0124"), broken(at(16), gb="GB0170"))
    inputs = Inputs(Rung.MAIN, FILE, 15)
    broken_report = report(frames=(Frame("forward", at(6)),), breaks=costly, inputs=inputs)
    state = opened(capture_result_of(Key(FILE, name), 1, broken_report, findings(broken_report)))
    commands = {
        value["command"]["title"]: value["command"]["arguments"][0]["target"]
        for value in await answered(state)
        if value["range"]["start"]["line"] == NET
    }
    assert (f"Fix line {line} first" in commands) == is_within
    assert {target for target in commands.values() if target != "Net"} == {name}
    assert commands["Details"] == name, "the report is of the program"


@pytest.mark.asyncio
async def test_what_the_program_calls_has_the_actions_of_a_target_with_inputs() -> None:
    call = Recorded(FILE, "Net", 4, "Net()(f32[3])", at(16))
    called = captured("", 5, recorded=(call,))
    assert (await lenses(opened(called)))[NET] == ["1 graph, no breaks", *OF_PROGRAM]
    for other in (dataclasses.replace(call, compiled_at=None), dataclasses.replace(call, target="A")):
        entries = await lenses(opened(captured("", 5, recorded=(other,))))
        assert entries[NET] == ["1 graph, no breaks", "Run", "Details"]


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
    first = "Fix line 12 of model.py first: the graph of Net.forward ends here"
    short = "Fix line 12 first"
    assert (await lenses(state))[STEP][:2] == [short, "0 graphs, 3 breaks"]
    assert (await tooltips(state))[short] == first
    fix = "Replace the branch with torch.where: verified, except where int32 overflows"
    fixes = {Key(FILE, "step"): fix}
    assert (await lenses(state, first_fixes=fixes))[STEP][0] == f"{short} (fix verified)"
    assert (await tooltips(state, first_fixes=fixes))[f"{short} (fix verified)"] == f"{first} ({fix})"
    (result,) = state.captures.values()
    node, *_ = target_node(result, convert.Client("utf-8", state.documents.read_line, convert.uri))[
        "children"
    ]
    assert (node["label"], [child["description"] for child in node["children"]]) == (short, ["line 14"])
    assert node["description"] == "the graph of Net.forward ends here"
    assert first in node["tooltip"]
    document = state.documents.at(FILE)
    assert document is not None
    state.edit(FILE, document.source.edit((0, 0), (0, 0), "# new\n"))
    assert result.fix_first().startswith("Fix line 13 of model.py first")
    shown: list[types.ShowDocumentParams] = []

    async def show(given: types.ShowDocumentParams) -> None:
        shown.append(given)

    view = convert.Client("utf-8", state.documents.read_line, convert.uri)
    server: Any = SimpleNamespace(state=state, view=view, uri_of=convert.uri, window_show_document_async=show)
    await show_first(server, {"uri": URI, "target": "step"})
    await show_first(server, {"uri": URI, "target": "none"})
    ((uri, line),) = [(params.uri, params.selection.start.line) for params in shown if params.selection]
    assert (uri, line) == (URI, 12), "a click goes to the line, in 0-based lines"
    other_state = opened(of(two[2:]))
    assert not any("first" in title for title in (await lenses(other_state))[STEP]), "there is no choice"


@pytest.mark.asyncio
async def test_a_line_of_another_file_is_named_with_it() -> None:
    def of(path: str) -> CaptureResult:
        there, further = Location(path, 12, function="forward"), Location(path, 14, function="forward")
        new_report = report(
            breaks=(broken(there, gb="GB0059"), broken(there, gb="GB0124"), broken(further, gb="GB0170"))
        )
        return capture_result_of(Key(FILE, "step"), 1, new_report, findings(new_report))

    folder = str(PurePath(FILE).parent)
    assert (await lenses(opened(of(f"{folder}/layers.py"))))[STEP][0] == "Fix layers.py:12 first"
    long = f"{folder}/modeling_of_a_large_language_model.py"
    (head, *_) = (await lenses(opened(of(long))))[STEP]
    assert head == "Fix \N{HORIZONTAL ELLIPSIS}ng_of_a_large_language_model.py:12 first"


ENDS = [
    ("timeout", "killed after 120 s at model.py:11", "stopped at the time limit"),
    ("memory", "killed for using more than 8192 MB", "out of memory"),
    ("signal", "the process died of SIGSEGV at model.py:11", "crashed: SIGSEGV"),
    ("exit", "the code ended the process with exit status 1", "failed: the code ended the process"),
    ("damaged_answer", "the worker gave no answer: it ended by itself", "failed: the worker was lost"),
    ("exception", "mat1 and mat2 shapes do not match", "failed: mat1 and mat2 shapes do not match"),
]


def viewing(state: State) -> Any:
    """What the report and Problems read of a server."""

    async def none(_result: CaptureResult, _later: object) -> tuple[()]:
        return ()

    attempts = SimpleNamespace(first_fix=lambda _result: "", refused_fixes_soon=none)
    analysis = SimpleNamespace(fixes=SimpleNamespace(attempts=attempts))
    return SimpleNamespace(
        state=state,
        view=convert.Client("utf-8", state.documents.read_line, convert.uri),
        analysis=analysis,
        ui=SimpleNamespace(results_changed=lambda _paths: None),
        uri_of=convert.uri,
    )


def without_escapes(text: str) -> str:
    return text.replace("\\", "")


def of_tier(tier: Tier, partial: Report) -> TargetResult:
    key = Key(FILE, "step", tier)
    if tier is Tier.CAPTURE:
        return capture_result_of(key, 1, partial, findings(partial))
    if tier is Tier.KERNELS:
        return kernel_result_of(key, 1, partial)
    return measured_result_of(key, 1, partial) if tier is Tier.MEASURED else tuning_result_of(key, 1, partial)


@pytest.mark.asyncio
@pytest.mark.parametrize("tier", [Tier.CAPTURE, Tier.KERNELS, Tier.MEASURED, Tier.TUNED])
@pytest.mark.parametrize(("kind", "message", "short"), ENDS)
async def test_each_end_of_each_run_has_its_reason_in_lens_tooltip_hover_report_and_problems(
    tier: Tier, kind: str, message: str, short: str
) -> None:
    failure = Failure(Culprit.USER, kind, message, "do something else", stack=(at(11),))
    state = opened(of_tier(tier, report(tier=tier, failures=(failure,))))
    head, *actions = (await lenses(state))[STEP]
    assert head.endswith(short), head
    assert actions[:2] in (["Run", "Details"], ["Run", "Kernels"], ["Run", "inputs from line 9"]), actions
    if tier is Tier.CAPTURE:
        assert "Kernels" not in actions, "what cannot work is not offered"
    whole = f"{message}. Do something else"
    assert whole in (await tooltips(state))[head]
    snapshot = state.snapshot(URI, {})
    assert snapshot is not None
    assert whole in without_escapes("".join(targets(snapshot, STEP + 1)))
    assert any(message in finding.title for finding, _ in findings_of(state.view(), FILE))
    assert message in json.dumps(await report_tree(viewing(state), ReportTreeParams(URI)))


@pytest.mark.asyncio
async def test_what_was_found_before_the_end_stays_with_the_reason() -> None:
    failure = Failure(Culprit.USER, "timeout", "killed after 120 s", "raise the limit")
    capture = captured("step", 11, failures=(failure,))
    partial = replace(generated("0/0"), failures=(failure,))
    state = opened(capture)
    assert (await lenses(state))[STEP][:2] == ["stopped at the time limit", "1 graph, no breaks"]
    state = opened(captured("step", 11), kernel_result_of(Key(FILE, "step", Tier.KERNELS), 1, partial))
    assert (await lenses(state))[STEP][0] == "3 kernels, ~30 µs on cpu, stopped at the time limit"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("tier", "noun"),
    [(Tier.CAPTURE, ""), (Tier.KERNELS, "kernels "), (Tier.MEASURED, "benchmark "), (Tier.TUNED, "search ")],
)
@pytest.mark.parametrize(
    "end", [RunEnd(CANCELED), RunEnd(INTERPRETER_CHANGED), RunEnd(LOST), NOT_ALLOWED, POSTPONED]
)
async def test_a_run_without_a_result_says_why(tier: Tier, noun: str, end: RunEnd) -> None:
    state = opened(captured("step", 11))
    state.note_run_end(Key(FILE, "step", tier), end)
    head = f"{noun}{end.words}"
    assert (await lenses(state))[STEP][:2] == [head, "1 graph, no breaks"]
    assert (await tooltips(state))[head].endswith(end.step)
    snapshot = state.snapshot(URI, {})
    assert snapshot is not None
    assert end.step in without_escapes("".join(targets(snapshot, STEP + 1)))
    assert end.step in json.dumps(await report_tree(viewing(state), ReportTreeParams(URI)))
    state.forget_run_ends([Key(FILE, "step")])
    assert head not in (await lenses(state))[STEP], "another run was asked for"


@pytest.mark.asyncio
async def test_a_run_that_waits_says_for_what() -> None:
    key = Key(FILE, "step")
    assert (await lenses(opened(), asked=frozenset({key})))[STEP][:2] == ["waiting for your answer", "Run"]
    titles = (await lenses(opened(), waiting=frozenset({key})))[STEP]
    assert titles[:2] == ["queued", "Cancel"]
    assert "Kernels" not in titles


@pytest.mark.asyncio
async def test_without_inputs_there_is_only_what_gives_some() -> None:
    failure = Failure(Culprit.USER, "inputs", "no inputs are known for Net", "write a call above it")
    result = capture_result_of(Key(FILE, "Net"), 1, report(failures=(failure,), inputs=None), ())
    state = opened(result)
    assert (await lenses(state))[NET] == ["needs inputs: add a line", "Run"]
    result.input_programs = (InputProgram("/p/train.py", 3, calls=True, kind="script"),)
    assert (await lenses(state))[NET] == ["Use the inputs of train.py", "needs inputs: add a line", "Run"]
    assert "train.py up to its first call" in (await tooltips(state))["Use the inputs of train.py"]
    assert (await lenses(state))[STEP] == [
        "Run",
        "Kernels",
        "Accuracy",
        "Memory",
        "Benchmark",
        "Tune",
        "inputs from line 9",
    ]


@pytest.mark.asyncio
async def test_a_save_that_does_not_parse_is_said_once_on_the_line() -> None:
    state = opened(captured("step", 11))
    document = state.documents.at(FILE)
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
