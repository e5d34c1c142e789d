"""Changes after an edit and a run: removed and new breaks, and the new cost of kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.devices import find
from fuselight.shared.report import (
    Break,
    Culprit,
    Failure,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Phase,
    Report,
    Tier,
)
from fuselight_server.base.formatting import format_count
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.changes import capture_changes, first_of, kernel_changes, noun
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings
from fuselight_server.source.document import SourceDocument
from tests.support.reports import FILE, ROOT, at, broken, report

KEY = Key(FILE, "Net", Tier.KERNELS)
FAILED = (Failure(Culprit.USER, "exception", "it failed", "fix it"),)


def break_at(line: int) -> Break:
    return broken(at(line))


def captured(*lines: int, **changes: object) -> CaptureResult:
    of = replace(report(roots=(ROOT,), breaks=tuple(map(break_at, lines))), **changes)  # type: ignore[arg-type]
    return capture_result_of(Key(FILE, "Net"), 1, of, findings(of))


def kernels(*us: float, breaks: tuple[int, ...] = (), device: str = "h200") -> KernelResult:
    kernels = tuple(
        Kernel(
            f"triton_{launch}",
            KernelKind.TRITON,
            launch,
            operators=(FusedOperator("aten.add.Tensor", stack=(at(20 + launch),)),),
            estimate_us=value,
        )
        for launch, value in enumerate(us)
    )
    of: Report = report(
        roots=(ROOT,),
        tier=Tier.KERNELS,
        target_device=find(device),
        generated=(GeneratedGraph("0/0", Phase.INFERENCE, kernels=kernels),),
        breaks=tuple(map(break_at, breaks)),
    )
    return kernel_result_of(KEY, 1, of)


def test_removed_and_new_breaks_are_reported_by_line() -> None:
    assert capture_changes(captured(12, 14), captured(14, 30)) == (
        "line 12: break gone",
        "line 30: new break",
    )
    assert capture_changes(captured(12), captured(12)) == ()


def test_a_break_moves_with_its_line_and_disappears_with_it() -> None:
    before = captured(12)
    document = SourceDocument(FILE, "x\n" * 40)
    before.apply_edit(FILE, document.edit((3, 0), (3, 0), "new\n"))
    assert capture_changes(before, captured(13)) == ()
    before.apply_edit(FILE, document.edit((11, 0), (14, 0), ""))
    assert capture_changes(before, captured()) == ("line 12 (deleted): break gone",)


def test_a_break_of_a_deleted_cell_has_no_line() -> None:
    path = f"{ROOT}/train.ipynb"
    of = report(roots=(ROOT,), breaks=(broken(replace(at(12), path=path)),))
    of = replace(of, target=replace(of.target, path=path))
    before = capture_result_of(Key(path, "Net"), 1, of, findings(of))
    document = SourceDocument(path, "x\n" * 40)
    before.apply_edit(path, document.edit((11, 0), (14, 0), ""))
    none = replace(of, breaks=())
    after = capture_result_of(Key(path, "Net"), 2, none, findings(none))
    assert capture_changes(before, after) == ("a deleted line: break gone",)


@pytest.mark.parametrize("failed", [0, 1])
def test_findings_that_a_failed_run_did_not_reach_are_not_removed(failed: int) -> None:
    runs = [captured(12), captured()]
    runs[failed] = captured(failures=FAILED)
    assert capture_changes(*runs) == ()


def test_findings_and_costs_are_reported_in_one_line_and_then_line_by_line() -> None:
    before, after = kernels(400.0, 200.0, 212.0, breaks=(12,)), kernels(430.0)
    headline, every = kernel_changes(before, after)
    assert headline == "line 12: break gone; 3 -> 1 kernels; ~812 µs -> ~430 µs"
    assert every == (
        "line 12: break gone",
        "line 22: 1 -> 0 kernels, ~212 µs -> ~0 µs",
        "line 21: 1 -> 0 kernels, ~200 µs -> ~0 µs",
        "line 20: 1 kernels, ~400 µs -> ~430 µs",
    )
    assert kernel_changes(before, before) == ("", ())


def test_kernels_for_another_device_are_not_compared_but_breaks_are() -> None:
    assert kernel_changes(kernels(4.0, breaks=(12,)), kernels(1.0, device="t4")) == (
        "line 12: break gone",
        ("line 12: break gone",),
    )


def test_kernels_are_not_compared_with_a_run_that_generated_none() -> None:
    after = kernels(430.0)
    for graphs in ((), (GeneratedGraph("0/0", Phase.FORWARD, failure="no compiler"),)):
        before = kernel_result_of(KEY, 1, replace(after.report, generated=graphs))
        assert kernel_changes(before, after) == ("", ())
        assert kernel_changes(after, before) == ("", ())


def test_a_change_that_moves_between_lines_is_on_the_first_line() -> None:
    assert (
        kernel_changes(kernels(2.0, 1.0), kernels(1.0, 2.0))[0]
        == "line 20: 1 kernels, ~2 µs -> ~1 µs and 1 more"
    )


def test_the_first_change_says_how_many_there_are() -> None:
    assert [first_of(()), first_of(("a",)), first_of(("a", "b", "c"))] == ["", "a", "a and 2 more"]


@pytest.mark.parametrize(
    ("code", "message"),
    [("GB0170", "break"), ("FL102", "uncompiled function"), ("FL201", "recompilation"), ("FL106", None)],
)
def test_findings_are_named(code: str, message: str | None) -> None:
    assert noun(code) == message


def test_several_findings_of_a_kind_have_a_plural() -> None:
    assert format_count(2, noun("FL101") or "") == "2 uncompiled functions"
