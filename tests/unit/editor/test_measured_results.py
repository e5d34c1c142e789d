"""Measured times on lines that move with edits: they replace estimates until the code changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import (
    Culprit,
    Failure,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    MeasuredConfiguration,
    Phase,
    Tier,
)
from fuselight_server.base.settings import KernelSettings
from fuselight_server.commands.findings import compose_findings
from fuselight_server.editor.handlers.kernel_documents import kernel_lines
from fuselight_server.editor.messages.params import KernelLinesParams
from fuselight_server.editor.presenters.client_commands import lenses_for
from fuselight_server.editor.presenters.lens import line_lenses, target_lenses
from fuselight_server.editor.results.benchmarks import MeasuredResult, measured_result_of
from fuselight_server.editor.results.captures import CaptureResult, capture_result_of
from fuselight_server.editor.results.kernel_hover import kernel_tables as hovered_estimates
from fuselight_server.editor.results.kernel_hover import measured_tables as hovered
from fuselight_server.editor.results.kernels import KernelResult, kernel_result_of
from fuselight_server.editor.results.lens_facts import (
    ACCURACY,
    BENCH,
    CANCEL_BENCHMARK,
    SHOW_BENCHMARK,
    TUNE,
    benchmark_summary,
)
from fuselight_server.editor.results.shown_findings import completed_runs
from fuselight_server.editor.results.snapshot import Document, Snapshot
from fuselight_server.editor.results.target_lens import TargetLens
from fuselight_server.editor.results.target_result import CANCELED, STILL_RUNNING
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings_of_measured
from fuselight_server.source.document import SourceDocument, read_source
from tests.support.measured import GPU, benchmark, graph, kernel, profile, ran, row, timing, wrong
from tests.support.reports import FILE, at, report

KEY = Key(FILE, "Net", Tier.MEASURED)
URI = f"file://{FILE}"
PLACE: Any = {"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 3}}
DEFAULT = row(
    "default", 100.0, generated=(graph(kernel(3, 5), kernel(7, launch=1)),),
    profile=profile([ran(0, 60.0), ran(1, 30.0), ran(None, 10.0, line=9)]),
)  # fmt: skip
FAILURE = Failure(Culprit.USER, "exception", "it failed", "fix it")


def measured_result(*rows: MeasuredConfiguration, generation: int = 1, **parts: Any) -> MeasuredResult:
    rows = rows or (row("eager", 300.0), DEFAULT)
    return measured_result_of(KEY, generation, benchmark(*rows, **parts))


def estimated(generation: int = 1, **parts: Any) -> KernelResult:
    kernel = Kernel(
        "triton_0",
        KernelKind.TRITON,
        0,
        operators=(FusedOperator("aten.add", stack=(at(3),)),),
        estimate_us=10.0,
    )
    graphs = (GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,)),)
    facts: dict[str, Any] = {"tier": Tier.KERNELS, "generated": graphs, "target_device": GPU}
    return kernel_result_of(replace(KEY, tier=Tier.KERNELS), generation, report(**{**facts, **parts}))


def opened(*results: MeasuredResult | KernelResult, lens: Any = "line") -> State:
    kept = State()
    text = "\n".join(f"x{number} = {number}" for number in range(20))
    kept.open(Document(URI, FILE, 1, SourceDocument(FILE, text), runnable=True))
    folder = kept.folder_of(FILE)
    folder.settings = replace(folder.settings, kernels=KernelSettings(lens=lens))
    for result in results:
        if isinstance(result, KernelResult):
            kept.accept_result(result)
        else:
            kept.accept_result(result)
    return kept


def edit(kept: State, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    document = kept.documents.at(FILE)
    assert document is not None
    kept.edit(FILE, document.source.edit(start, end, text))


def snapshot(kept: State) -> Snapshot:
    snapshot = kept.snapshot(URI, {})
    assert snapshot is not None
    return snapshot


def lens_texts(kept: State) -> dict[int, str]:
    return {
        lens["range"]["start"]["line"] + 1: lens["command"]["title"] for lens in line_lenses(snapshot(kept))
    }


def test_lines_show_their_share_with_spread_and_the_hover_names_the_device() -> None:
    kept = opened(measured_result())
    assert lens_texts(kept) == {
        3: "1 kernel, 30 µs ± 1% (30%), fused with line 5",
        5: "1 kernel, 30 µs ± 1% (30%), fused with line 3",
        7: "1 kernel, 30 µs ± 1% (30%)",
        9: "1 eager operator, 10 µs ± 1% (10%)",
    }
    assert "30 µs ± 1% (30%), measured on NVIDIA H200" in hovered(snapshot(kept), 7)[0]


def test_the_hover_names_a_configuration_that_is_not_the_plain_one() -> None:
    kept = opened(measured_result(row("eager", 300.0), replace(DEFAULT, name="max-autotune")))
    assert lens_texts(kept)[7] == "1 kernel, 30 µs ± 1% (30%)"
    assert "measured as max-autotune on NVIDIA H200" in hovered(snapshot(kept), 7)[0]


def test_measurements_replace_estimates_until_the_code_changes() -> None:
    kept = opened(estimated(), measured_result(generation=2))
    assert set(lens_texts(kept)) == {3, 5, 7, 9}
    assert not any("~" in text for text in lens_texts(kept).values())
    assert hovered_estimates(snapshot(kept), 3) == []
    edit(kept, (0, 0), (0, 0), "new = 1\n")
    assert lens_texts(kept) == {4: "1 kernel, ~10 µs (100%)"}
    assert "~10 µs on h200 (100%) (before your edit)" in hovered_estimates(snapshot(kept), 4)[0]
    assert hovered(snapshot(kept), 4) == []
    assert len(hovered_estimates(snapshot(kept), 4)) == 1


def test_measured_lines_still_open_the_source_of_their_kernels() -> None:
    for results, clickable in (([measured_result()], 0), ([estimated(), measured_result()], 4)):
        kept = opened(*results)
        kept.client.commands = frozenset({"fuselight.showKernel"})
        commands = [lens["command"]["command"] for lens in line_lenses(snapshot(kept))]
        assert commands.count("fuselight.showKernel") == clickable


def test_without_estimates_measurements_stay_and_are_marked_as_stale() -> None:
    kept = opened(measured_result())
    edit(kept, (4, 0), (4, 0), "new = 1\n")
    lines = lens_texts(kept)
    assert set(lines) == {3, 6, 8, 10}
    assert lines[3].endswith(", fused with line 6")
    assert hovered(snapshot(kept), 3)[0].partition("\n")[0].endswith("fused with line 6 (before your edit)")
    edit(kept, (8, 0), (9, 0), "")
    assert set(lens_texts(kept)) == {3, 6, 9}, "a removed line has no time"


@pytest.mark.parametrize(
    ("estimates", "shown"),
    [
        (estimated(2), "30 µs ± 1%"),  # for the same device: what was measured is better
        (estimated(2, target_device=replace(GPU, key="t4")), "~10 µs"),  # asked for since, for another device
        (estimated(0, target_device=replace(GPU, key="t4")), "30 µs ± 1%"),
    ],
)
def test_newer_estimates_for_another_device_are_shown(estimates: KernelResult, shown: str) -> None:
    assert shown in lens_texts(opened(estimates, measured_result()))[3]


def test_lenses_of_functions_and_none() -> None:
    assert set(lens_texts(opened(measured_result(), lens="function"))) == {3, 5, 7, 9}, "outside any function"
    assert lens_texts(opened(measured_result(), lens="off")) == {}


def test_the_target_shows_eager_and_compiled_times() -> None:
    assert (
        benchmark_summary(measured_result()) == "eager 300 µs, default 100 µs (3.0×), measured on NVIDIA H200"
    )
    rows = [row("eager", 300.0), *(row(f"c{index}", 100.0) for index in range(5))]
    assert benchmark_summary(measured_result(*rows)).startswith(
        "eager 300 µs, c0 100 µs (3.0×), c1 100 µs (3.0×), c2 100 µs (3.0×) and 2 more"
    )
    unsteady = row("default", wall=timing(100.0, 0.2, unsteady=True))
    assert benchmark_summary(measured_result(row("eager", 130.0), unsteady)).startswith(
        "eager 130 µs, default 60–140 µs, measured"
    )
    failed = row("max-autotune", None, failure=FAILURE)
    assert benchmark_summary(
        measured_result(
            row("eager", 300.0), unsteady, replace(failed, name="m"), row("w", 100.0, accuracy=wrong())
        )
    ) == (
        "eager 300 µs, default 60–140 µs (3.0×), m failed, w 100 µs (3.0×, WRONG results), "
        "measured on NVIDIA H200"
    )


def test_a_benchmark_without_measurements_says_why_and_keeps_the_previous_one() -> None:
    nothing = measured_result_of(KEY, 2, report(tier=Tier.MEASURED, failures=(FAILURE,)))
    assert benchmark_summary(nothing) == "no benchmark: it failed. Fix it"
    rows = measured_result_of(KEY, 2, benchmark(row("eager", None, failure=FAILURE)))
    assert benchmark_summary(rows) == "no benchmark: it failed. Fix it"
    kept = opened(measured_result(), nothing)
    now = kept.measured[KEY]
    assert (
        benchmark_summary(now)
        == "eager 300 µs, default 100 µs (3.0×), measured on NVIDIA H200; the next run: it failed. Fix it"
    )
    assert set(lens_texts(kept)) == {3, 5, 7, 9}


def test_an_unfinished_benchmark_is_marked_and_has_no_findings() -> None:
    slow = row("default", 400.0, profile=DEFAULT.profile, generated=DEFAULT.generated)
    part = measured_result(row("eager", 100.0), slow)
    assert [live.finding.code for live in part.findings] == ["FL802"]
    part.unfinished = STILL_RUNNING
    assert part.findings == ()
    assert benchmark_summary(part).endswith(f" ({STILL_RUNNING})")
    assert CANCELED != STILL_RUNNING


def titles(kept: State, running: Iterable[Key] = ()) -> list[tuple[str, str]]:
    """Titles and commands as the client gets them."""
    run: Any = SimpleNamespace(job=SimpleNamespace(key=KEY), progress=None)
    snapshot = kept.snapshot(URI, dict.fromkeys(running, run))
    assert snapshot is not None
    entries = lenses_for(target_lenses(TargetLens(snapshot, "Net", is_known=True), PLACE), kept.client)
    return [(entry["command"]["title"], entry["command"]["command"]) for entry in entries]


def test_the_button_starts_a_benchmark_or_ends_it() -> None:
    kept = opened()
    assert titles(kept) == [("Run", "fuselight.server.run")], "no inputs are known"
    kept.client.commands = frozenset({"fuselight.benchmark", SHOW_BENCHMARK})
    kept.accept_result(measured_result())
    text = "eager 300 µs, default 100 µs (3.0×)"
    run, kernels = ("Run", "fuselight.server.run"), ("Kernels", "fuselight.server.kernels")
    benchmark, tune = ("Benchmark", "fuselight.benchmark"), ("Tune", TUNE)
    accuracy = ("Accuracy", ACCURACY)
    assert titles(kept) == [(text, SHOW_BENCHMARK), run, kernels, accuracy, benchmark, tune]
    kept.client.commands = frozenset({SHOW_BENCHMARK})
    assert titles(kept)[-2] == ("Benchmark", BENCH)
    assert titles(kept, [KEY]) == [
        ("starting Net (benchmark)", SHOW_BENCHMARK), (text, SHOW_BENCHMARK), run, kernels,
        ("Cancel Benchmark", CANCEL_BENCHMARK),
    ]  # fmt: skip
    kept.trusted = False
    assert titles(kept) == [(text, SHOW_BENCHMARK)]


def test_a_hover_lists_each_kernel_with_its_limit() -> None:
    (text,) = hovered(snapshot(opened(measured_result())), 3)
    assert "`Net` (default): 1 kernel, 30 µs" in text
    assert "| 60 µs ± 1% | ~1 µs | 2% (memory) | 1 | triton | triton_0 |" in text
    assert "measured by torch's profiler (CUPTI)" in text
    assert hovered(snapshot(opened(measured_result())), 4) == []


def test_marks_of_heat_follow_measured_times() -> None:
    kept = opened(estimated(), measured_result())
    server: Any = SimpleNamespace(state=kept, snapshot=lambda uri: kept.snapshot(uri, {}))
    marks = kernel_lines(server, KernelLinesParams(URI))["lines"]
    assert marks == [
        {"line": 2, "level": 2},
        {"line": 4, "level": 2},
        {"line": 6, "level": 2},
        {"line": 8, "level": 1},
    ]
    edit(kept, (0, 0), (0, 0), "new = 1\n")
    assert kernel_lines(server, KernelLinesParams(URI))["lines"] == [{"line": 3, "level": 3}]


def findings(*rows: MeasuredConfiguration) -> list[tuple[str, int, str]]:
    findings = findings_of_measured(benchmark(*rows))
    return [(finding.code, finding.span.line, finding.title) for finding in findings]


def test_wrong_results_are_a_finding_on_the_first_line_that_differs() -> None:
    known = row("default", accuracy=wrong(first=(at(14),), first_operator="torch.relu"))
    assert findings(row("eager", 300.0), known) == [
        ("FL801", 14, "results of `default` differ from eager in `torch.relu`")
    ]
    unknown = row("default", accuracy=wrong())
    assert findings(row("eager", 300.0), unknown) == [("FL801", 10, "results of `default` differ from eager")]
    assert findings(row("eager", 300.0), row("default")) == []


def test_compiled_code_that_is_slower_is_a_finding_with_its_causes() -> None:
    (finding,) = findings_of_measured(benchmark(row("eager", 100.0), replace(DEFAULT, wall=timing(400.0))))
    assert (finding.code, finding.span.line) == ("FL802", 10)
    assert finding.message.startswith("default takes 4.0× the time of eager: 400 µs")
    assert finding.related[0].span.line in {3, 5, 7}
    assert findings(row("eager", 100.0, spread=0.9), replace(DEFAULT, wall=timing(110.0, 0.2))) == []


@pytest.mark.parametrize(("code", "silent"), [("FL801", [[], [], ["FL503"]]), ("FL701", [[], ["FL503"], []])])
def test_an_ignore_is_unused_only_after_a_benchmark(code: str, silent: list[list[str]]) -> None:
    reading = read_source(FILE, f"x = 1  # fuselight: ignore[{code}]\n")
    captured, kernels_, bench = (
        [capture_result_of(Key(FILE, "Net"), 1, report(), ())],
        [estimated()],
        [measured_result()],
    )

    def codes(
        results: list[CaptureResult], kernels: list[KernelResult], measured: list[MeasuredResult]
    ) -> list[str]:
        has_run = completed_runs(reading, results, kernels, measured)
        return [finding.code for finding in compose_findings([], [], {FILE: reading}, has_run=has_run)]

    assert [codes(captured, [], []), codes([], kernels_, []), codes([], [], bench)] == silent


def test_a_deleted_file_removes_its_benchmark() -> None:
    kept = opened(measured_result())
    kept.drop_file(FILE)
    assert kept.measured == {}
