"""Stored benchmarks are bounded, and a comparison lists other differences between the runs."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.report import Clock, Report, Versions, Work
from fuselight_server.base.store import Store
from fuselight_server.explain.benchmarks import history
from fuselight_server.explain.benchmarks.history import BenchmarkRun, History, NotKeptError, run_of
from fuselight_server.explain.benchmarks.history_diff import (
    compare,
    on_page,
    with_earlier_readings,
)
from fuselight_server.explain.benchmarks.page import View, page
from fuselight_server.explain.benchmarks.verdict import verdict
from tests.support.measured import MACHINE, benchmark, row, timing, wrong
from tests.support.reports import ROOT

VIEW = View(uri_of=str, read_line=lambda _path, _line: "")


def benchmark_run(report: Report, **more: Any) -> BenchmarkRun:
    run = run_of(report, ROOT, lambda _path, line: f"line {line}", **more)
    assert run is not None
    return run


def at(folder: Path, target: str = "Net") -> History:
    return History(Store.at(folder), str(folder / "model.py"), target)


BASE = benchmark(row("eager", 300.0), row("default", 100.0))


def changed(report: Report, **facts: Any) -> Report:
    assert report.measured is not None
    return replace(report, measured=replace(report.measured, **facts))


def versions(**facts: Any) -> Versions:
    return replace(BASE.versions, **facts)


@pytest.mark.parametrize(
    ("now", "differences"),
    [
        (BASE, []),
        (replace(BASE, versions=versions(torch="2.14.0")), ["torch: 2.13.0 then, 2.14.0 now"]),
        (
            changed(BASE, machine=replace(MACHINE, device="NVIDIA A100", threads=8)),
            ["device: NVIDIA H200 then, NVIDIA A100 now", "threads: 4 then, 8 now"],
        ),
        (changed(BASE, work=Work.TRAINING_STEP), ["one call: inference then, training step now"]),
        (
            benchmark(row("eager", 300.0), row("max-autotune", 90.0)),
            ["configurations: eager, default then, eager, max-autotune now"],
        ),
        (changed(BASE, cold_cache=True), ["cache of the device: warm then, cleared now"]),
        (replace(BASE, inputs=None), ["inputs: Net()(f32[4, 8]) then, unknown now"]),
        (
            replace(BASE, target=replace(BASE.target, name="Other")),
            ["target: Net then, Other now"],
        ),
    ],
)
def test_a_comparison_lists_other_differences_between_the_runs(now: Report, differences: list[str]) -> None:
    comparison = compare(benchmark_run(BASE), benchmark_run(now))
    assert list(comparison.differs) == differences
    assert encode(on_page(comparison, VIEW))["differs"] == differences


def test_times_of_different_clocks_are_compared_by_the_one_that_both_have_and_that_is_said() -> None:
    device = timing(50.0, clock=Clock.DEVICE)
    now = benchmark(row("eager", 300.0, device=device), row("default", 100.0, device=device))
    comparison = compare(benchmark_run(BASE), benchmark_run(now))
    assert [pair.after.us for _, pair in comparison.configurations if pair.after] == [300.0, 100.0]
    assert comparison.differs == ("times by: the host clock then, the device clock now",)


def test_the_label_of_a_run_shows_no_speedup_for_wrong_results() -> None:
    wrong_ = benchmark(row("eager", 300.0), row("default", 100.0, accuracy=wrong()))
    assert benchmark_run(BASE).past.label.endswith("inference, default 3.0×")
    assert benchmark_run(wrong_).past.label.endswith("inference, default 3.0× with WRONG results")


def test_other_runs_during_a_benchmark_are_stored_with_it() -> None:
    measured = benchmark_run(BASE, notes=("another run went on",)).report.measured
    assert measured is not None
    assert measured.machine.notes == ("another run went on",)


def test_a_small_file_that_unpacks_to_a_great_deal_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = at(tmp_path)
    kept = here.keep_run(benchmark_run(BASE))
    assert kept is not None
    assert here.read(kept.past.id) == kept
    path = here.folder / f"{kept.past.id}.json.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text + b" " * 1_000_000))
    assert here.read(kept.past.id) == kept
    monkeypatch.setattr(history, "_MAX_BYTES", 500_000)
    assert here.read(kept.past.id) is None
    monkeypatch.setattr(history, "_MAX_BYTES", 100)
    with pytest.raises(NotKeptError, match="too large to be kept"):
        here.keep_run(benchmark_run(BASE))


def test_all_runs_of_a_workspace_share_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other_benchmark_run = at(tmp_path, "a").keep_run(benchmark_run(BASE))
    assert other_benchmark_run is not None
    size = (at(tmp_path, "a").folder / f"{other_benchmark_run.past.id}.json.gz").stat().st_size
    monkeypatch.setattr(history, "KEPT_BYTES", 3 * size + size // 2)
    for target in ("b", "c", "d", "e"):
        at(tmp_path, target).keep_run(benchmark_run(BASE))
    assert len(list((tmp_path / ".fuselight/bench").glob("*/*.json.gz"))) == 3
    assert len(at(tmp_path, "e").runs()) == 1, "the newest stays"


def test_a_file_has_one_history_by_whichever_path_it_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    at(folder).keep_run(benchmark_run(BASE))
    other = History(Store.at(folder), str(tmp_path / "link/model.py"), "Net")
    assert len(other.runs()) == 1


def test_a_single_round_has_no_spread() -> None:
    once = replace(timing(100.0, 0.0), rounds_us=(100.0,))
    encoded = encode(page(benchmark(row("eager", 300.0), row("default", wall=once)), VIEW))
    assert [configuration["spread"] for configuration in encoded["configurations"]] == [
        pytest.approx(0.01),
        None,
    ]
    assert encoded["verdict"][0]["text"] == "default is 3.0× as fast as eager: 100 µs vs. 300 µs ± 1%"


def test_readings_of_earlier_processes_count_where_the_host_limits_a_call(tmp_path: Path) -> None:
    there = at(tmp_path)

    def ran(day: int, us: float, **parts: Any) -> Report:
        rows = row("eager", us, host_bound=True), row("default", 4_000.0)
        return benchmark(*rows, of={"started": f"2026-01-{day:02d}T12:00:00Z"}, **parts)

    first = ran(1, 4_300.0)
    assert with_earlier_readings(first, there) is not first
    assert with_earlier_readings(first, there) == first, "the first has nothing to compare with"
    there.keep_run(benchmark_run(first))
    there.keep_run(benchmark_run(ran(2, 7_700.0)))
    there.keep_run(benchmark_run(ran(3, 90_000.0, files={str(tmp_path / "model.py"): "other code"})))
    there.keep_run(benchmark_run(changed(ran(4, 80_000.0), cold_cache=True)))
    now = with_earlier_readings(ran(5, 5_000.0), there)
    assert now.measured is not None
    eager, default = now.measured.configurations
    assert eager.wall is not None
    assert eager.wall.earlier_us == (7_700.0, 4_300.0)
    assert default.wall == timing(4_000.0), "its kernels take its time"
    headline = verdict(now)[0].text
    assert headline.startswith("default is 1.25× as fast as eager: 4 ms ± 1% vs. 4.3–7.7 ms; the host limits")
    shown = encode(page(now, VIEW))["configurations"][0]
    assert shown["unsteady"]
    assert shown["notes"] == ["4.3–7.7 ms with 2 earlier benchmarks of the same code"]
    unfinished = changed(ran(6, 5_000.0), finished=False)
    assert with_earlier_readings(unfinished, there) is unfinished
