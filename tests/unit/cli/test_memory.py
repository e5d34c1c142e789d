"""`fuselight memory`: text, JSON, exit codes, with scripted estimates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import (
    ChangedMemory,
    Culprit,
    Failure,
    HeldMemory,
    HolderGrowth,
    Location,
    MeasuredMemory,
    MemoryChange,
    MemoryCurve,
    MemoryEstimate,
    MemoryPeak,
    MemoryTimeline,
    MemoryUse,
    ModuleMemory,
    Note,
    Report,
    StepPhase,
    Tier,
)
from fuselight_server.editor.results.memory import memory_result_of
from fuselight_server.editor.results.memory_words import memory_info
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.memory.fit import Fit, fit_of
from fuselight_server.explain.memory.words import (
    cause_in_words,
    difference_in_words,
    peak_in_words,
    step_in_words,
)
from tests.support import reports
from tests.support.command import AnsweringWorker, Result, run_cli

SOURCE = """\
import torch


# fuselight: Net()(f32[4, 8], train=True)
class Net(torch.nn.Module):
    def forward(self, x):
        y = x.exp()
        return y.sum()
"""
T4 = find("t4")  # 16 GB


def held(use: MemoryUse, size: float, line: int | None = None, path: str = "m.py") -> HeldMemory:
    return HeldMemory(use, int(size), 1, Location(path, line) if line is not None else None)


def peak(*rows: HeldMemory, phase: StepPhase = StepPhase.BACKWARD, line: int | None = 7) -> MemoryPeak:
    place = Location("m.py", line) if line is not None else None
    return MemoryPeak(sum(row.bytes for row in rows), 0, phase, "aten.exp.default", place, rows)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "m.py"
    path.write_text(SOURCE)
    return path


def answered(estimate: MemoryEstimate | None, **parts: Any) -> AnsweringWorker:
    def answer(request: Any) -> Report:
        assert isinstance(request, MemoryRequest)
        memory = (estimate,) if estimate is not None else ()
        return replace(
            reports.report(**parts), target=reports.report().target, memory=memory, target_device=T4
        )

    return AnsweringWorker(answer)


def run(monkeypatch: pytest.MonkeyPatch, worker: AnsweringWorker, *arguments: str) -> Result:
    worker.put_in_place(monkeypatch)
    return run_cli("memory", "m.py", *arguments)


def estimate(path: Path, eager: float = 3e9, compiled: float = 2e9) -> MemoryEstimate:
    kept = held(MemoryUse.PARAMETER, 1e9)
    return MemoryEstimate(
        "Net()(f32[4, 8], train=True)",
        training=True,
        optimizer="adamw",
        eager=peak(kept, held(MemoryUse.SAVED, eager - 1e9, 7, str(path))),
        compiled=peak(kept, held(MemoryUse.SAVED, compiled - 1e9, 7, str(path))),
    )


def test_the_text_has_both_peaks_their_rows_and_what_compiling_changes(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Note("workspaces", "What cuBLAS keeps was not measured.")
    done = run(monkeypatch, answered(estimate(model), notes=(note,)))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
        "  Net()(f32[4, 8], train=True): a training step with adamw",
        "    eager    3 GB, in the backward of m.py:7: fits in 16 GB",
        "    compiled 2 GB, in the backward of m.py:7: fits in 16 GB",
        "    at the peak of compiled:",
        "           1 GB  parameters",
        "           1 GB  saved for the backward  m.py:7  y = x.exp()",
        "    compiled needs 1 GB less than eager mode, by line:",
        "          -1 GB  saved for the backward  m.py:7  y = x.exp()",
        "  note: What cuBLAS keeps was not measured.",
        "",
    ]


def test_an_extrapolated_peak_is_marked_in_each_format(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = estimate(model)
    assert whole.compiled is not None
    blocks = "2, 3 and 4 of the 24 blocks of `layers`"
    known = replace(whole, compiled=replace(whole.compiled, extrapolated=blocks))
    words = f"~2 GB, in the backward of m.py:7: fits in 16 GB (extrapolated from {blocks})"
    worker = answered(known)
    lines = run(monkeypatch, worker).stdout.splitlines()
    assert lines[2:4] == [
        "    eager    3 GB, in the backward of m.py:7: fits in 16 GB",
        f"    compiled {words}",
    ]
    page = run(monkeypatch, worker, "--format", "html").stdout
    assert words in page
    assert ">~2 GB<" in page
    (call,) = json.loads(run(monkeypatch, worker, "--format", "json").stdout)["targets"][0]["calls"]
    assert call["compiled"]["extrapolated"] == blocks
    assert "extrapolated" not in call["eager"]
    report = replace(reports.report(), memory=(known,), target_device=T4)
    result = memory_result_of(Key("/m.py", "f", Tier.MEMORY), 1, report)
    assert memory_info(result, is_running=False).text == "peak ~2 GB of 16 (compiled), 3 (eager)"


def test_all_blocks_are_compiled_where_that_is_asked_for_or_changes_are_tried(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def answer(request: Any) -> Report:
        if isinstance(request, MemoryRequest):
            asked.append(request.exact)
        return replace(reports.report(), memory=(estimate(model),), target_device=T4)

    for arguments in ((), ("--exact",), ("--savings",)):
        run(monkeypatch, AnsweringWorker(answer), *arguments)
    assert asked[:3] == [False, True, True]
    assert all(asked[1:])


def test_what_a_name_holds_and_what_grows_is_named_in_each_format(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = replace(held(MemoryUse.HELD, 5e8, 7, str(model)), holder="self.last")
    grown = HolderGrowth("losses", "list", "train", 20_000_000, Location(str(model), 7))
    known = replace(estimate(model), compiled=peak(row), growth=(grown,))
    text = run(monkeypatch, answered(known)).stdout
    assert "held by `self.last`     m.py:7  y = x.exp()" in text
    assert "`losses` (list) in `train` holds 20 MB more after each call  m.py:7  y = x.exp()" in text
    page = run(monkeypatch, answered(known), "--format", "html").stdout
    assert "held by `self.last`" in page
    assert "`losses` (list) in `train` holds 20 MB more after each call" in page
    (call,) = json.loads(run(monkeypatch, answered(known), "--format", "json").stdout)["targets"][0]["calls"]
    assert call["compiled"]["held"][0]["holder"] == "self.last"
    assert call["growth"][0]["name"] == "losses"


def test_a_measurement_is_beside_the_estimate_for_the_device_that_ran(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = estimate(model)
    assert whole.compiled is not None
    rows = (*whole.compiled.held, held(MemoryUse.INSIDE, 1e8))
    real = MeasuredMemory(
        2_100_000_000, 1_000_000_000, rows, reserved=2_500_000_000, between_tensors=200_000_000
    )
    measured = MemoryEstimate(
        whole.call, training=True, measured_compiled=real, why_not_measured="eager: <b>"
    )

    def answer(request: Any) -> Report:
        memory = measured if request.measures else whole
        assert request.measures or request.device == T4
        return replace(reports.report(), memory=(memory,), target_device=T4)

    done = run(monkeypatch, AnsweringWorker(answer), "--measure")
    assert done.stdout.splitlines()[3:10] == [
        "    compiled 2 GB, in the backward of m.py:7: fits in 16 GB",
        (
            "             measured 2.1 GB: the estimate is 4.8% lower; reserved 2.5 GB, 400 MB of it not used at the "
            "peak; 200 MB in pieces between tensors at the end"
        ),
        "    not measured: eager: <b>",
        "    at the peak of compiled, estimated and measured:",
        "           1 GB       1 GB  parameters",
        "           1 GB       1 GB  saved for the backward  m.py:7  y = x.exp()",
        "            0 B     100 MB  inside an operator",
    ]
    page = run(monkeypatch, AnsweringWorker(answer), "--measure", "--format", "html").stdout
    assert "2.1 GB" in page
    assert "in pieces" in page
    data = json.loads(run(monkeypatch, AnsweringWorker(answer), "--measure", "--format", "json").stdout)
    assert data["targets"][0]["calls"][0]["measured_compiled"]["reserved"] == 2_500_000_000
    assert run_cli("memory", "m.py", "--measure", "--device", "t4").exit_code == 2


def test_each_rank_is_estimated_and_those_that_need_the_same_are_one(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Any) -> Report:
        size = 4e9 if request.world.rank == 3 else 3e9
        return replace(reports.report(), memory=(estimate(model, size),), target_device=T4)

    done = run(monkeypatch, AnsweringWorker(answer), "--ranks", "4")
    calls = [line for line in done.stdout.splitlines() if line.startswith("  Net()")]
    assert calls == [
        "  Net()(f32[4, 8], train=True), ranks 0-2: a training step with adamw",
        "  Net()(f32[4, 8], train=True), rank 3: a training step with adamw",
    ]
    data = json.loads(run(monkeypatch, AnsweringWorker(answer), "--ranks", "4", "--format", "json").stdout)
    assert [call["rank"] for call in data["targets"][0]["calls"]] == [0, 1, 2, 3]


@pytest.mark.usefixtures("model")
def test_a_call_that_cannot_be_measured_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = Failure(Culprit.USER, "exception", "the constructor failed", "Pass a size")
    done = run(monkeypatch, answered(None, failures=(failure,)), "--measure")
    assert done.exit_code == 2
    assert "failed: the constructor failed. Pass a size" in done.stdout


def test_the_same_by_module_with_those_in_it(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = estimate(model)
    assert whole.compiled is not None
    rows = (
        ModuleMemory("blocks.0.up", MemoryUse.SAVED, 900_000_000, 1),
        ModuleMemory("blocks.0.up", MemoryUse.PARAMETER, 300_000_000, 2),
        ModuleMemory("blocks.1", MemoryUse.SAVED, 500_000_000, 1),
        ModuleMemory("", MemoryUse.INPUT, 299_000_000, 1),
        ModuleMemory("head.norm", MemoryUse.PARAMETER, 1_000_000, 1),
    )
    known = replace(whole, compiled=replace(whole.compiled, modules=rows))
    done = run(monkeypatch, answered(known), "--by", "module")
    assert done.stdout.splitlines()[4:] == [
        "    at the peak of compiled:",
        "         1.7 GB   85%  blocks           saved for the backward 1.4 GB, parameters 300 MB",
        "         1.2 GB   60%    blocks.0       saved for the backward 900 MB, parameters 300 MB",
        "         1.2 GB   60%      blocks.0.up  saved for the backward 900 MB, parameters 300 MB",
        "         500 MB   25%    blocks.1       saved for the backward 500 MB",
        "         299 MB   15%  (no module)      inputs 299 MB",
        "           1 MB   <1%  head             parameters 1 MB",
        "",
    ]


def test_the_page_has_peaks_timeline_lines_and_no_markup_of_a_program(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = replace(estimate(model), call="Net('<b>')(f32[4, 8])")
    assert whole.compiled is not None
    curves = (MemoryCurve(MemoryUse.PARAMETER, (10, 10)), MemoryCurve(MemoryUse.SAVED, (0, 30)))
    timeline = MemoryTimeline((StepPhase.FORWARD, StepPhase.BACKWARD), curves, 1)
    known = replace(whole, compiled=replace(whole.compiled, timeline=timeline))
    note = Note("workspaces", "What cuBLAS keeps was not measured.")
    page = run(monkeypatch, answered(known, notes=(note,)), "--format", "html").stdout
    assert "<b>" not in page
    assert page.count("<polygon ") == 2
    for text in (
        "2 GB",
        "fits",
        "m.py:7",
        "y = x.exp()",
        "saved for the backward",
        "-1 GB",
        note.text,
        "peak</text>",
    ):
        assert text in page, text
    gap = replace(known, compiled=None, why_not_compiled="Unsupported: <i>")
    page = run(monkeypatch, answered(gap), "--format", "html").stdout
    assert "not estimated: Unsupported: &lt;i&gt;" in page


def changed(
    use: MemoryUse, more: int, *changes: MemoryChange, saved: tuple[bool, bool] = (True, True)
) -> str:
    """The cause of a change on line 7, which eager mode and compiled code save as `saved` says."""
    row = held(use, 8, 7)
    forms = []
    for is_saved, has_row in zip(saved, (more < 0, more > 0), strict=True):
        of_form = replace(
            peak(held(MemoryUse.PARAMETER, 1), *((row,) if has_row else ())), saved=(row,) if is_saved else ()
        )
        forms.append(of_form)
    known = tuple(ChangedMemory(Location("m.py", 7), change) for change in changes)
    whole = MemoryEstimate("f()", training=True, eager=forms[0], compiled=forms[1], changes=known)
    return cause_in_words(whole, more, row)


def test_the_cause_of_a_change_is_said_only_where_it_is_known() -> None:
    saved, temporary = MemoryUse.SAVED, MemoryUse.TEMPORARY
    assert changed(temporary, -8) == ""
    assert changed(temporary, -8, MemoryChange.FUSED) == "fused: no buffer is allocated for it"
    assert changed(temporary, 8, MemoryChange.FUSED) == ""
    assert (
        changed(temporary, 8, MemoryChange.RECOMPUTED) == "computed again in the backward, and allocated then"
    )
    assert changed(saved, -8, MemoryChange.RECOMPUTED, saved=(True, False)) == (
        "computed again in the backward, and not saved"
    )
    assert changed(saved, 8, saved=(False, True)) == "saved by compiled code alone"
    assert changed(saved, 8) == "eager mode has freed it at its own peak"
    assert changed(saved, -8) == "compiled code has freed it at its own peak"
    passed = "passed from one graph to the next, at a graph break or between compiled parts"
    assert changed(saved, 8, MemoryChange.PASSED, saved=(False, True)) == passed
    assert changed(temporary, 8, MemoryChange.PASSED) == ""
    assert (
        changed(temporary, 8, MemoryChange.PADDED) == "padded: its rows are longer, so that they are aligned"
    )
    assert changed(temporary, -8, MemoryChange.PADDED) == ""
    assert changed(temporary, -8, MemoryChange.DONATED) == "written into the memory of a value that was saved"


@pytest.mark.parametrize(
    ("eager", "compiled", "code"), [(20e9, 3e9, 0), (3e9, 20e9, 0), (20e9, 21e9, 1), (15.2e9, 15.2e9, 0)]
)
def test_the_exit_code_is_1_only_if_no_form_fits(
    model: Path, monkeypatch: pytest.MonkeyPatch, eager: float, compiled: float, code: int
) -> None:
    assert run(monkeypatch, answered(estimate(model, eager, compiled))).exit_code == code


@pytest.mark.usefixtures("model")
def test_what_was_not_estimated_says_why_and_is_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    gap = MemoryEstimate(
        "Net()(f32[4, 8])", training=False, why_not_eager="ValueError: no", why_not_compiled="b"
    )
    done = run(monkeypatch, answered(gap))
    assert done.exit_code == 2
    assert "eager    not estimated: ValueError: no" in done.stdout
    failure = Failure(Culprit.USER, "exception", "the constructor failed", "Pass a size")
    done = run(monkeypatch, answered(None, failures=(failure,)))
    assert done.exit_code == 2
    assert "failed: the constructor failed. Pass a size" in done.stdout


def test_json_has_the_fields_of_the_report_and_the_verdict(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(run(monkeypatch, answered(estimate(model)), "--format", "json").stdout)
    (target,) = data["targets"]
    assert (target["device"], target["memory_gb"]) == ("t4", 16.0)
    (call,) = target["calls"]
    assert (call["eager"]["bytes"], call["eager"]["fit"]) == (3_000_000_000, "fits")
    assert sum(row["bytes"] for row in call["compiled"]["held"]) == call["compiled"]["bytes"]


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ((), (None, "adamw", None)),
        (("--train", "--optimizer", "sgd"), (True, "sgd", None)),
        (("--inference", "--device", "t4"), (False, "adamw", "t4")),
    ],
)
def test_options_go_into_the_request(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], asked: tuple[Any, ...]
) -> None:
    worker = answered(estimate(model))
    run(monkeypatch, worker, *arguments)
    (request,) = worker.requests
    device = request.device.key if request.device is not None else None
    assert (request.training, request.optimizer, device) == asked


@pytest.mark.usefixtures("model")
def test_an_unknown_optimizer_and_both_modes_are_refused() -> None:
    assert run_cli("memory", "m.py", "--optimizer", "lion").exit_code == 2
    assert run_cli("memory", "m.py", "--train", "--inference").exit_code == 2


@pytest.mark.parametrize(
    ("size", "fit"),
    [(10e9, Fit.FITS), (11e9, Fit.CLOSE), (14.5e9, Fit.CLOSE), (15.5e9, Fit.DOES_NOT_FIT), (0, Fit.FITS)],
)
def test_a_peak_fits_with_what_the_allocator_and_the_driver_need(size: float, fit: Fit) -> None:
    assert fit_of(int(size), T4) is fit


def test_a_device_without_a_known_memory_has_no_verdict() -> None:
    device = replace(T4, memory_gb=0.0)
    assert fit_of(1, device) is None
    row = peak(held(MemoryUse.TEMPORARY, 5e6, 7), phase=StepPhase.FORWARD, line=None)
    assert peak_in_words(row, device) == "5 MB, in the forward"


def test_words_of_a_step_and_of_a_difference() -> None:
    same = peak(held(MemoryUse.INPUT, 100))
    inference = MemoryEstimate("f()", training=False, eager=same, compiled=same)
    assert step_in_words(inference) == "inference"
    assert step_in_words(replace(inference, training=True)) == "a training step"
    assert difference_in_words(inference) == "compiled needs as much as eager mode"
    assert difference_in_words(replace(inference, compiled=None)) == ""


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("sizes", ["", "0", "8,", "a", "-3"])
def test_sizes_that_are_none_are_refused(sizes: str) -> None:
    done = run_cli("memory", "m.py", f"--batch={sizes}")
    assert done.exit_code == 2
    assert "is not a list of sizes" in done.stderr


def test_the_largest_batch_is_printed_and_in_the_json(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Any) -> Report:
        rows = [
            replace(estimate(model, 1.9e9 * batch, 0.95e9 * batch + 1e8), batch=batch)
            for batch in request.batches or (4,)
        ]
        return replace(reports.report(), memory=tuple(rows), target_device=T4)

    done = run(monkeypatch, AnsweringWorker(answer), "--batch", "4", "--largest-batch")
    assert "Net()(f32[4, 8], train=True), batch 4: a training step" in done.stdout
    assert "  largest batch that fits in 16 GB: 5 in eager mode, 11 compiled" in done.stdout.splitlines()
    data = json.loads(run(monkeypatch, AnsweringWorker(answer), "--largest-batch", "--format", "json").stdout)
    assert data["targets"][0]["largest_batch"] == {"eager": 5, "compiled": 11}
