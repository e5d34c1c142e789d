"""`fuselight memory --savings`: changes of the source with scripted estimates and comparisons, in each format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.devices import find
from fuselight.shared.protocol import MemoryRequest, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    ChangedMemory,
    Culprit,
    EditKind,
    EditResults,
    Failure,
    HeldMemory,
    Location,
    MemoryChange,
    MemoryEstimate,
    MemoryPeak,
    MemorySaving,
    MemoryUse,
    Report,
    SavingKind,
    StepPhase,
    Tier,
    TriedEdit,
    Verification,
)
from fuselight_server.base.store import Store
from fuselight_server.commands.memory_edits import with_verdict
from fuselight_server.execution.runs.last_results import kept_results
from fuselight_server.fixes.rewrites.remedy import FixClass
from tests.support.command import AnsweringWorker, Result, run_cli
from tests.support.fix_world import EXACT, differing, patch_remedies, replaced, report_of_text

SOURCE = """\
import torch


# fuselight: f(f32[4], train=True)
@torch.compile
def f(x):
    mask = (x > 0).float()
    return (layer(x) * mask).sum()
"""
MASK, LAYER = 7, 8
GB = 10**9


def peak(size: float, path: str) -> MemoryPeak:
    rows = tuple(
        HeldMemory(MemoryUse.SAVED, int(size * GB / 2), 1, Location(path, line)) for line in (MASK, LAYER)
    )
    return MemoryPeak(int(size * GB), 0, StepPhase.BACKWARD, "", None, rows, rows)


class Scripted:
    """What the worker says of each text; sizes are GB in eager mode and compiled."""

    def __init__(self, folder: Path) -> None:
        (folder / "pyproject.toml").touch()
        self.path = folder / "m.py"
        self.path.write_text(SOURCE)
        self.narrow: tuple[float, float] | None = (3, 3)
        self.checkpointed: tuple[float, float] | None = (2, 2.5)
        self.call = "f(f32[4], train=True)"
        self.verification = {"float": EXACT, "checkpoint": EXACT, "where": EXACT}
        self.changes: tuple[ChangedMemory, ...] = ()
        self.failures: tuple[Failure, ...] = ()
        self.worker = AnsweringWorker(self.answer)

    def answer(self, request: Any) -> Report:
        path = str(self.path)
        text = request.overlays.get(path, self.path.read_text())
        change = (
            "where"
            if "where(" in text
            else "checkpoint"
            if "checkpoint(" in text
            else ""
            if ".float()" in text
            else "float"
        )
        if isinstance(request, MemoryRequest):
            sizes = {
                "": (4.0, 3.0),
                "where": (4.0, 2.0),
                "float": self.narrow,
                "checkpoint": self.checkpointed,
            }[change]
            return self.estimated(path, sizes, request)
        is_new = isinstance(request, VerifyRequest) and not request.records and change
        verification = self.verification[change] if is_new else Verification()
        failures = self.failures if is_new else ()
        return report_of_text(path, text, verification=verification, failures=failures)

    def estimated(self, path: str, sizes: tuple[float, float] | None, request: MemoryRequest) -> Report:
        whole = replace(report_of_text(path, SOURCE), tier=Tier.MEMORY)
        if sizes is None:
            return replace(whole, failures=(Failure(Culprit.USER, "call", "it fails"),))
        calls = (Location(path, LAYER, 12, LAYER, 20),)
        savings = (MemorySaving(SavingKind.CHECKPOINT, "Layer (layer)", eager=2 * GB, us=10, calls=calls),)
        estimate = MemoryEstimate(
            self.call,
            training=True,
            eager=peak(sizes[0], path),
            compiled=peak(sizes[1], path),
            savings=savings if request.savings else (),
            changes=self.changes,
        )
        return replace(whole, memory=(estimate,), target_device=find("t4"))

    def run(self, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
        self.worker.put_in_place(monkeypatch)
        monkeypatch.chdir(self.path.parent)
        return run_cli("memory", "m.py", "--savings", *options)


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


def edits(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    (target,) = json.loads(scripted.run(monkeypatch, "--format", "json").stdout)["targets"]
    (call,) = target["calls"]
    return [{name: edit[name] for name in ("kind", "results", "words")} for edit in call["edits"]]


def test_each_edit_that_needs_less_is_on_its_line_with_its_results(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = scripted.run(monkeypatch)
    lines = done.stdout.split("    changes of the source that need less, each tried alone:\n")[1].splitlines()
    assert lines[:9] == [
        "      m.py:8  checkpoint `layer(x)`: eager 4 GB -> 2 GB (-50%), compiled 3 GB -> 2.5 GB (-17%)",
        "        same results, but not compared: other inputs",
        "        + from torch.utils.checkpoint import checkpoint",
        "        - return (layer(x) * mask).sum()",
        "        + return (checkpoint(layer, x, use_reentrant=False) * mask).sum()",
        "      m.py:7  no `.float()` of `x > 0`: eager 4 GB -> 3 GB (-25%), compiled 3 GB -> 3 GB (+0.0%)",
        "        same results, but not compared: other inputs",
        "        - mask = (x > 0).float()",
        "        + mask = x > 0",
    ]
    assert scripted.path.read_text() == SOURCE
    ((kept, _),) = kept_results(Store.at(scripted.path.parent), Tier.MEMORY)
    assert [edit.location.line for edit in kept.memory[0].edits] == [LAYER, MASK], "for the editor"


def test_what_there_is_no_time_for_is_named(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    text = scripted.run(monkeypatch, "--savings-time", "0").stdout
    assert "changes of the source" not in text
    assert (
        "    not tried, as the time was over (--savings-time): checkpoint `layer(x)` on line 8, "
        "no `.float()` of `x > 0` on line 7\n" in text
    )
    page = scripted.run(monkeypatch, "--savings-time", "0", "--format", "html").stdout
    assert "Not tried, as the time was over (--savings-time): checkpoint" in page
    asked = [request for request in scripted.worker.requests if isinstance(request, MemoryRequest)]
    assert {request.savings_seconds for request in asked} == {0}


def test_a_trial_has_no_more_time_than_is_left(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted.run(monkeypatch, "--savings-time", "30")
    changed = [request for request in scripted.worker.requests if request.overlays]
    trials = [request for request in changed if isinstance(request, MemoryRequest)]
    comparisons = [request for request in changed if not isinstance(request, MemoryRequest)]
    assert trials
    assert all(0 < request.limits.seconds <= 15 for request in trials)
    assert comparisons
    assert all(15 < request.limits.seconds <= 60 for request in comparisons), (
        "one that has begun has a minute"
    )


def test_the_page_and_the_json_have_the_edits(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    page = scripted.run(monkeypatch, "--format", "html").stdout
    assert "Changes of the source that need less, each tried alone" in page
    assert "checkpoint Layer (layer)" in page
    (target,) = json.loads(scripted.run(monkeypatch, "--format", "json").stdout)["targets"]
    first, second = target["calls"][0]["edits"]
    assert (first["kind"], first["eager"], first["compiled"]) == ("checkpoint", 2 * GB, 2.5 * GB)
    assert "+    mask = x > 0\n" in second["diff"]


@pytest.mark.parametrize("sizes", [(4, 3), (4.5, 2), (3.99, 2.99), None])
def test_what_needs_no_less_in_one_form_or_more_in_the_other_or_fails_is_not_shown(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, sizes: tuple[float, float] | None
) -> None:
    scripted.narrow = sizes
    assert [edit["kind"] for edit in edits(scripted, monkeypatch)] == ["checkpoint"]


@pytest.mark.parametrize("change", [MemoryChange.PASSED, MemoryChange.FUSED])
def test_a_graph_break_that_keeps_values_is_tried_with_its_fix(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, change: MemoryChange
) -> None:
    patch_remedies(monkeypatch, replaced("where", "Use where", FixClass.EXACT))
    scripted.path.write_text(SOURCE.replace("(x > 0)", "branch(x)"))
    scripted.changes = (ChangedMemory(Location(str(scripted.path), LAYER), change),)
    shown = scripted.run(monkeypatch).stdout
    fixed = (
        "      m.py:7  Use where: eager 4 GB -> 4 GB (+0.0%), compiled 3 GB -> 2 GB (-33%)\n"
        "        same results, but not compared: other inputs\n"
        "        - mask = branch(x).float()\n"
        "        + mask = where(x).float()\n"
    )
    assert (fixed in shown) is (change is MemoryChange.PASSED)


def test_other_results_are_advice_for_a_dtype_and_end_every_other_edit(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.verification = dict.fromkeys(("float", "checkpoint"), differing(Aspect.OUTPUT))
    (edit,) = edits(scripted, monkeypatch)
    assert (edit["kind"], edit["results"]) == ("narrow", "change")
    assert "it differs" in edit["words"]
    shown = scripted.run(monkeypatch).stdout
    assert "        results change: " in shown
    assert "+ mask = x > 0" not in shown


def test_results_of_a_step_whose_gradients_were_not_compared_are_not_the_same(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.call = "f(f32[4])"
    assert {edit["results"] for edit in edits(scripted, monkeypatch)} == {"unknown"}
    assert "results not compared: the directive has no `train=True`" in scripted.run(monkeypatch).stdout


def test_an_edit_that_fails_on_real_tensors_is_not_shown(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.failures = (Failure(Culprit.USER, "call", "in-place"),)
    scripted.verification = dict.fromkeys(("float", "checkpoint"), Verification())
    assert edits(scripted, monkeypatch) == []


@pytest.mark.parametrize("is_over", [True, False])
def test_a_comparison_that_its_limit_has_ended_says_so(*, is_over: bool) -> None:
    tried = TriedEdit(EditKind.NARROW, "no `.float()`", Location("/p/m.py", 7), EditResults.UNKNOWN, "")
    edit = with_verdict(tried, None, has_gradients=True, is_over=is_over)
    assert edit is not None
    words = "the time for changes was over" if is_over else "nothing that is compiled runs the line"
    assert (edit.results, edit.words) == (EditResults.UNKNOWN, words)
