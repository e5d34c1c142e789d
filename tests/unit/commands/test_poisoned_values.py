"""Kept data with values of the right type that no run would write is shown, or counts as damaged: nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight.remote.run_client import RemoteAnswer
from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.report import GapKind, Report
from fuselight_server.base.store import read_report
from fuselight_server.editor.results.captures import read_capture
from fuselight_server.editor.results.report_reading import line_reader
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.benchmarks.exports import as_csv, as_json
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.history_diff import compare, on_page
from fuselight_server.explain.benchmarks.page import View, page
from fuselight_server.explain.benchmarks.verdict import verdict
from fuselight_server.explain.findings import Thresholds
from fuselight_server.explain.searches.page import Surroundings
from fuselight_server.explain.searches.page import page as search_page
from fuselight_server.sweep.comparison import compare_sweeps
from fuselight_server.sweep.exports import rows_as_csv
from fuselight_server.sweep.page import as_page
from fuselight_server.sweep.results import newest, read_rows
from fuselight_server.sweep.row_of_report import row_of_answer
from fuselight_server.sweep.rows import RowStatus, SweepAbout, SweepJob, SweepRow
from fuselight_server.sweep.suites import read_suite
from fuselight_server.sweep.summary import summarize
from fuselight_server.sweep.tasks import SweepOptions, plan_sweep
from tests.support.measured import benchmark, gap, graph, kernel, profile, ran, row
from tests.support.poison import poisoned
from tests.support.reports import FILE, ROOT, at, broken, report
from tests.support.sweeps import NET, VERSIONS, failed, timed
from tests.support.sweeps import row as sweep_row
from tests.support.tuned import search

SEEDS = 150
VIEW = View(uri_of=str, read_line=lambda _path, line: f"line {line}")
SWEEP = [
    sweep_row("net", graphs=2, breaks=1, recompilations=0, operators=7, break_causes={"a": 1}),
    sweep_row("k", kernels=3, job=SweepJob.KERNELS, kernel_us=12.0, kernel_device="h100", notes=("n",)),
    failed("bad"),
    sweep_row("gone", status=RowStatus.ABSENT),
    sweep_row(
        "fast", SweepJob.BENCH, clock="wall", machine="cpu", gain=1.5, gain_low=1.2, winner="default",
        configurations=(timed("eager", 100.0), timed("default", 25.0, 4.0, is_accurate=True)),
    ),
]  # fmt: skip
KERNELS = graph(kernel(3, 4), kernel(9, launch=1, flops=10**9, dtype="f32"))
SHOWN = profile(
    [ran(0, 30.0), ran(1, 60.0, isolated_us=50.0), ran(None, 10.0, line=12)], [gap(GapKind.LAUNCH, 80.0)]
)
BENCHMARK = benchmark(
    row("eager", 300.0, first_us=400.0),
    row("default", 100.0, first_us=90_000.0, profile=SHOWN, generated=(KERNELS,)),
)
CAPTURE = report(
    breaks=(broken(at(21)), broken(at(23, function="Net.forward"), gb="GB0059", explanation="Another call."))
)


def with_lies(value: Any, seed: int) -> Any:
    """`value` as a file has it in which some values were replaced."""
    numbers = random.Random(seed)  # noqa: S311 - the same values in each run
    return poisoned(encode(value), numbers, numbers.choice((0.01, 0.03, 0.1)))


def show_sweep(rows: list[SweepRow], about: SweepAbout) -> None:
    as_page(rows, about, compare_sweeps(SWEEP, rows), "before").encode("utf-8", "backslashreplace")
    compare_sweeps(rows, SWEEP)
    rows_as_csv(rows)
    summarize(rows)


def test_rows_of_a_sweep() -> None:
    shown = 0
    for seed in range(SEEDS):
        numbers = random.Random(seed)  # noqa: S311 - the same values in each run
        lines = [json.dumps(poisoned(encode(sweep), numbers)) for sweep in SWEEP]
        rows, damaged = read_rows("\n".join([*lines, json.dumps(encode(sweep_row("whole")))]).encode())
        assert len(rows) + damaged == len(SWEEP) + 1
        assert rows[-1].name == "whole"
        show_sweep(list(newest(rows)), decode(SweepAbout, with_lies(SweepAbout("s", "p", "e"), seed)))
        shown += len(rows) - 1
    assert shown > SEEDS, "most lies decode, else this tries nothing"


@pytest.mark.parametrize("job", [SweepJob.CHECK, SweepJob.BENCH, SweepJob.TUNE])
def test_answers_of_the_machines_of_a_sweep(job: SweepJob, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    suite = read_suite(str(tmp_path))
    (task,) = plan_sweep(suite, SweepOptions(jobs=(job,)), has_gpu=False).tasks
    whole = {SweepJob.CHECK: CAPTURE, SweepJob.BENCH: BENCHMARK, SweepJob.TUNE: search()}[job]
    for seed in range(SEEDS):
        answer = RemoteAnswer(with_lies(whole, seed), node="far", versions=with_lies(VERSIONS, seed))
        line = json.dumps(encode(row_of_answer(task, answer, 1)))
        rows, damaged = read_rows(line.encode())
        assert not damaged, "a row that cannot be read again repeats its task with each resume"
        show_sweep(rows, SweepAbout())


def show_benchmark(data: Report) -> None:
    verdict(data)
    whole, run = (run_of(each, ROOT, lambda _path, line: f"line {line}") for each in (BENCHMARK, data))
    assert whole is not None
    if run is not None:
        on_page(compare(whole, run), VIEW)
        on_page(compare(run, whole), VIEW)
    shown = page(data, VIEW)
    as_csv(shown)
    as_json(shown, run)


def show_search(data: Report) -> None:
    search_page(data, Surroundings(), uri_of=str, shown=str)


def show_capture(data: Report) -> None:
    read_capture(Key(FILE, "fuselight run"), 1, data, Thresholds(), line_reader({}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whole", "show"), [(BENCHMARK, show_benchmark), (search(), show_search), (CAPTURE, show_capture)]
)
def test_reports_that_are_kept(whole: Report, show: Callable[[Report], None], tmp_path: Path) -> None:
    show(whole)
    shown = 0
    for seed in range(SEEDS):
        (tmp_path / "report.json").write_text(json.dumps(with_lies(whole, seed)), encoding="utf-8")
        data = read_report(tmp_path / "report.json")
        if data is not None:
            show(data)
            shown += 1
    assert shown > SEEDS / 10, "some lies decode, else this tries nothing"


@pytest.mark.parametrize("end", [2**31, 2**62, 10**40])
def test_lines_without_end(end: int) -> None:
    """A loop over the lines of a break took as long as the file said."""
    data: dict[str, Any] = encode(CAPTURE)
    data["breaks"][0]["stack"][0]["end_line"] = end
    with pytest.raises(DecodeError, match="end_line should be in"):
        decode(Report, data)
