"""Kernels on lines that move with edits, what a new run changed, and how long a large report takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.devices import find
from fuselight.shared.report import (
    Assembled,
    Culprit,
    Failure,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Phase,
    Report,
    SavedTensor,
    Tier,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.commands.findings import compose_findings
from fuselight_server.editor.presenters.lens import line_lenses
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernel_hover import kernel_tables as hovered
from fuselight_server.editor.results.kernels import (
    ASSEMBLED,
    KernelResult,
    differences,
    kernel_result_of,
)
from fuselight_server.editor.results.lens_facts import kernel_summary
from fuselight_server.editor.results.shown_findings import completed_runs
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import Thresholds
from fuselight_server.source.document import SourceDocument, read_source
from tests.support.reports import FILE, ROOT, at, report

KEY = Key(FILE, "Net", Tier.KERNELS)


def kernel(*lines: int, launch: int = 0, us: float | None = 10.0) -> Kernel:
    operators = tuple(FusedOperator("aten.add.Tensor", stack=(at(line),)) for line in lines)
    return Kernel(f"triton_{launch}", KernelKind.TRITON, launch, operators=operators, estimate_us=us)


def generated(*kernels: Kernel, saved: tuple[SavedTensor, ...] = ()) -> Report:
    return report(
        roots=(ROOT,),
        tier=Tier.KERNELS,
        target_device=find("h200"),
        generated=(GeneratedGraph("0/0", Phase.FORWARD, kernels=kernels, saved=saved),),
    )


def result(*kernels: Kernel, **changes: Report) -> KernelResult:
    return kernel_result_of(KEY, 1, changes.get("of", generated(*kernels)))


def lines(kernel_result: KernelResult) -> list[int]:
    return [row.place.line for row in kernel_result.rows(FILE)]


def opened(lines_: int) -> State:
    kept = State()
    text = "\n".join(f"x{number} = {number}" for number in range(lines_))
    kept.open(Document(f"file://{FILE}", FILE, 1, SourceDocument(FILE, text), runnable=True))
    return kept


def edit(kept: State, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    document = kept.documents.at(FILE)
    assert document is not None
    kept.edit(FILE, document.source.edit(start, end, text))


def test_lines_and_what_they_are_fused_with_move_with_an_edit() -> None:
    kept = opened(20)
    kernel_result = result(kernel(3, 5), kernel(7, launch=1))
    kept.accept_result(kernel_result)
    assert (lines(kernel_result), kernel_result.stale) == ([3, 5, 7], False)
    edit(kept, (4, 0), (4, 0), "new = 1\n")
    assert (lines(kernel_result), kernel_result.stale) == ([3, 6, 8], True)
    assert kernel_result.rows(FILE)[0].fused_with == {SourceLine(FILE, 6)}
    edit(kept, (6, 0), (7, 0), "")
    assert lines(kernel_result) == [3, 7], "a line that is gone has no kernels"
    assert kernel_result.rows(FILE)[0].fused_with == frozenset()


def test_a_change_of_another_file_moves_nothing() -> None:
    kept = opened(20)
    kernel_result = result(kernel(3))
    kept.accept_result(kernel_result)
    rows = kernel_result.rows(FILE)
    document = SourceDocument("/elsewhere.py", "a\nb\n")
    kept.edit("/elsewhere.py", document.edit((1, 0), (1, 0), "c\n"))
    assert kernel_result.rows(FILE) is rows
    assert not kernel_result.stale


def test_changes_are_reported_by_line_largest_first() -> None:
    before = result(kernel(3), kernel(3, launch=1), kernel(9, launch=2, us=1.0))
    after = result(kernel(3, us=4.0), kernel(9, us=2.0), kernel(12, us=0.5))
    assert differences(before, after) == (
        "line 3: 2 -> 1 kernels, ~20 µs -> ~4 µs",
        "line 9: 1 kernels, ~1 µs -> ~2 µs",
        "line 12: 0 -> 1 kernels, ~0 µs -> ~0.5 µs",
    )
    assert differences(before, before) == ()


def test_moved_lines_are_compared() -> None:
    kept = opened(20)
    before = result(kernel(5))
    kept.accept_result(before)
    edit(kept, (2, 0), (2, 0), "new = 1\n")
    assert differences(before, result(kernel(6))) == ()


def test_kernels_for_another_device_are_not_compared() -> None:
    other = replace(generated(kernel(3, us=1.0)), target_device=find("t4"))
    assert differences(result(kernel(3)), result(of=other)) == ()


def test_a_run_without_kernels_keeps_the_previous_ones_as_stale() -> None:
    kept = State()
    kept.accept_result(result(kernel(3)))
    failure = Failure(Culprit.USER, "exception", "it failed", "fix it")
    for _ in range(3):
        kept.accept_result(result(of=report(tier=Tier.KERNELS, failures=(failure,))))
    now = kept.kernels[KEY]
    assert lines(now.shown) == [3]
    assert (
        kernel_summary(now) == "1 kernel, ~10 µs on h200 (before your edit); the next run: it failed. Fix it"
    )
    assert now.previous is not None
    assert now.previous.previous is None


def test_the_total_counts_what_autograd_keeps_and_graphs_without_kernels() -> None:
    saved = (
        SavedTensor("a", "activation", bytes=12_600_000, stack=(at(3),)),
        SavedTensor("p", "input", bytes=99, stack=(at(3),)),
    )
    report = generated(kernel(3), saved=saved)
    lost = GeneratedGraph("1/0", Phase.FORWARD, failure="it has no lowering")
    kernel_result = result(of=replace(report, generated=(*report.generated, lost)))
    assert (
        kernel_summary(kernel_result)
        == "1 kernel, ~10 µs on h200, saves 12.6 MB for backward, 1 graph without kernels"
    )
    assert kernel_result.saved_on(kernel_result.rows(FILE)[0]) is not None


@pytest.mark.slow
def test_a_thousand_kernels_on_four_hundred_lines_are_all_reported() -> None:
    """benchmarks/kernels_bench.py measures the time."""
    kernels = tuple(kernel(*range(n % 400 + 1, n % 400 + 9), launch=n) for n in range(1000))
    kept = opened(420)
    kept.accept_result(result(*kernels))
    snapshot = kept.snapshot(f"file://{FILE}", {})
    assert snapshot is not None
    assert len(list(line_lenses(snapshot))) == 407
    edit(kept, (2, 0), (2, 0), "new = 1\n")
    assert len(list(line_lenses(snapshot))) == 407


def test_the_number_of_compiled_kernels_is_bounded() -> None:
    kernel_result = result(kernel(3))
    for number in range(ASSEMBLED + 5):
        kernel_result.keep_assembled(str(number), Assembled())
    assert len(kernel_result.assembled) == ASSEMBLED
    assert "4" not in kernel_result.assembled


@pytest.mark.parametrize(("code", "expected"), [("FL701", []), ("GB0059", ["FL503"])])
def test_an_ignore_is_unused_only_after_a_run_of_its_tier(code: str, expected: list[str]) -> None:
    reading = read_source(FILE, f"x = 1  # fuselight: ignore[{code}]\n")
    captured, generated = capture_result_of(Key(FILE, "Net"), 1, report(), ()), result()

    def codes(results: list[CaptureResult], kernels: list[KernelResult]) -> list[str]:
        has_run = completed_runs(reading, results, kernels)
        return [finding.code for finding in compose_findings([], [], {FILE: reading}, has_run=has_run)]

    assert codes([], []) == []
    assert codes([captured], []) == expected
    assert codes([captured], [generated]) == ["FL503"]


def test_findings_follow_thresholds_until_the_text_has_moved() -> None:
    copy = replace(
        kernel(3), copies=True, bound="memory",
        operators=(FusedOperator("aten.clone.default", stack=(at(3),)),),
    )  # fmt: skip
    kernel_result = result(copy, kernel(4, launch=1, us=90.0))

    def codes() -> list[str]:
        return [live.finding.code for live in kernel_result.findings]

    assert codes() == ["FL706"]
    kernel_result.derive(Thresholds(kernel_share=0.2))
    assert codes() == []
    kernel_result.derive(Thresholds(kernel_share=0.1))
    assert codes() == ["FL706"]
    kept = opened(9)
    kept.accept_result(kernel_result)
    edit(kept, (0, 0), (0, 0), "new = 1\n")
    kernel_result.derive(Thresholds(kernel_share=0.2))
    assert [(live.finding.code, live.now().span.line) for live in kernel_result.findings] == [("FL706", 4)]


def test_a_hover_lists_the_candidates_that_a_gpu_would_time() -> None:
    tried = ("mm of a library", *(f"triton_mm BLOCK_K={size}" for size in range(20)))
    kept = opened(9)
    kept.accept_result(result(replace(kernel(3), candidates=tried)))
    snapshot = kept.snapshot(f"file://{FILE}", {})
    assert snapshot is not None
    (text,) = hovered(snapshot, 3)
    assert "A GPU decides `triton_0` between 21: mm of a library, " in text
    assert "and 15 more." in text


def test_kernels_are_those_of_one_call_and_recompiled_graphs_count_separately() -> None:
    once = generated(kernel(3), kernel(5, launch=1))
    again = GeneratedGraph("0/1", Phase.FORWARD, kernels=(kernel(3, us=99.0), kernel(7)), graph=1)
    kernel_result = result(of=replace(once, generated=(*once.generated, again)))
    assert kernel_summary(kernel_result) == "2 kernels, ~20 µs on h200, 2 more in recompiles"
    assert [(row.place.line, row.count, row.us) for row in kernel_result.rows(FILE)] == [
        (3, 1, 10.0), (5, 1, 10.0), (7, 1, 10.0),
    ]  # fmt: skip
    assert [len(kernel_result.launches_on(row)) for row in kernel_result.rows(FILE)] == [2, 1, 1]
    kept = opened(9)
    kept.accept_result(kernel_result)
    snapshot = kept.snapshot(f"file://{FILE}", {})
    assert snapshot is not None
    assert "Recompiled graphs have 1 more kernel of this line." in hovered(snapshot, 3)[0]
