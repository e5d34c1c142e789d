"""The page that compares a benchmark with independent readings: what it reads from Reports, and which goals are met."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.gpu import measured, measured_table
from benchmarks.gpu.measured_table import ModelRow, Seed, page, row_of, seed_rows
from fuselight.shared.report import (
    Accuracy,
    Clock,
    Culprit,
    Failure,
    Gap,
    GapKind,
    LaunchKind,
    Machine,
    Measured,
    MeasuredConfiguration,
    MeasuredLaunch,
    Profile,
    TensorError,
    Work,
)
from tests.support.measured import graph, kernel, timing


def _launch(name: str, us: float, *, count: float = 1.0, **more: Any) -> MeasuredLaunch:
    kind = more.pop("kind", LaunchKind.KERNEL)
    return MeasuredLaunch(name, kind, us, us, us, count, **more)


PROFILE = Profile(
    "CUPTI", 10, wall_us=100.0, kernel_us=80.0, device_us=90.0, joined_us=89.1,
    launches=(
        _launch("triton_a", 40.0, graph=0, launch=0),
        _launch("gemm", 24.0, count=2.0, graph=0, launch=1),
        _launch("gemm", 12.0, kind=LaunchKind.EAGER),
        _launch("small", 6.0, graph=0, launch=2),
        _launch("memcpy", 15.0, kind=LaunchKind.COPY),
    ),
    gaps=(Gap(GapKind.LAUNCH, 15.0), Gap(GapKind.GUARDS, 4.0)),
)  # fmt: skip
MEASURED = Measured(
    Work.INFERENCE,
    Machine("NVIDIA H200", notes=("heat throttled the clocks for 1 s",)),
    (
        MeasuredConfiguration("eager", wall=timing(200.0)),
        MeasuredConfiguration(
            "default",
            first_us=2.5e6,
            wall=timing(150.0),
            device=timing(102.0, clock=Clock.DEVICE),
            accuracy=Accuracy(
                passed=True,
                tensors=(
                    TensorError("output", 0.99995, 0.1, 0.1, passed=True),
                    TensorError("state", 0.5, 0.1, 0.1, passed=True),
                    TensorError("zeros", None, 0.0, None, passed=True),
                ),
            ),
            profile=PROFILE,
            generated=(
                graph(
                    kernel(1, launch=0, name="triton_a", estimate_us=30.0, bound="memory"),
                    kernel(2, launch=1, name="gemm", estimate_us=24.0, bound="compute"),
                    kernel(3, launch=2, name="small", estimate_us=0.7, bound="launch"),
                ),
            ),
            notes=("spread is wide",),
        ),
        MeasuredConfiguration(
            "max-autotune", failure=Failure(Culprit.COMPILER, "timeout", "not done after 400 s")
        ),
    ),
    seconds=11.0,
    counted_seconds=10.0,
)
APART = {"us": 100.0, "kernels": {"triton_a": {"us": 42.0, "count": 1}, "gemm": {"us": 36.0, "count": 3}}}


def test_a_row_is_read_from_the_report_and_the_reading() -> None:
    row = row_of("bert", MEASURED, "default", [APART])
    assert (row.us, row.clock, row.apart_us) == (102.0, "device", (100.0,))
    assert row.off == pytest.approx(0.02)
    assert row.joined == pytest.approx(0.99)
    assert row.whole == pytest.approx(0.99)
    assert row.overhead == pytest.approx(0.1)
    assert row.cosine == 0.5
    assert {(timed_kernel.name, timed_kernel.us, timed_kernel.other_us) for timed_kernel in row.kernels} == {
        ("triton_a", 40.0, 42.0), ("gemm", 36.0, 36.0),
    }  # fmt: skip
    assert row.unread == 0
    assert [(estimate.name, round(estimate.error, 3)) for estimate in row.estimates] == [
        ("triton_a", 0.25), ("gemm", 0.0), ("small", 0.883),
    ]  # fmt: skip
    assert row.notes == ("heat throttled the clocks for 1 s", "spread is wide")


def test_a_kernel_without_a_counterpart_is_counted() -> None:
    row = row_of("bert", MEASURED, "default", [{"us": 100.0, "kernels": {"triton_a": {"us": 40.0}}}])
    assert (len(row.kernels), row.unread) == (1, 1)
    several = {"triton_a": {"us": 40.0, "count": 1}, "gemm": {"us": 30.0, "count": 2}}
    row = row_of("bert", MEASURED, "default", [{"us": 100.0, "kernels": several}])
    assert ([timed_kernel.name for timed_kernel in row.kernels], row.unread) == (["triton_a"], 1)
    assert row_of("bert", MEASURED, "default", [{}]).unread is None


def test_several_readings_are_a_range_and_what_is_within_it_is_not_off() -> None:
    others = [{"us": us, "kernels": {"triton_a": {"us": us / 2.5, "count": 1}}} for us in (110.0, 98.0)]
    row = row_of("bert", MEASURED, "default", others)
    assert (row.apart_us, row.off) == ((98.0, 110.0), 0.0)
    (kernel,) = row.kernels
    assert (kernel.others_us, kernel.error) == ((39.2, 44.0), 0.0)
    assert "98.0 to 110.0 | 0.0%" in page({}, [row], None)
    above = row_of("bert", MEASURED, "default", [{"us": 90.0}, {"us": 100.0}])
    assert above.off == pytest.approx(0.02)


def test_contradictory_readings_meet_no_goal() -> None:
    others = [{"us": us, "kernels": {"triton_a": {"us": us / 2.5, "count": 1}}} for us in (60.0, 110.0)]
    row = row_of("bert", MEASURED, "default", others)
    assert (row.off, row.kernels, row.unread) == (None, (), 2)
    text = page({}, [row], None)
    assert "60.0 to 110.0 | - |" in text
    assert _promises(text)["time of a call against an independent one"][-1] == "not measured"


def test_the_command_has_what_changes_a_compile_and_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("TORCHINDUCTOR_", "TRITON_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine/cache")
    monkeypatch.setenv("TRITON_HOME", "/mine")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/venv/lib/site-packages/torch/bin/ptxas")
    assert measured._variables() == ["PYTHONPATH=compiler:server", "TRITON_PTXAS_PATH=torch/bin/ptxas"]


def test_a_failure_has_a_reason() -> None:
    assert row_of("bert", MEASURED, "max-autotune", [APART]).failure == "not done after 400 s"
    assert row_of("bert", MEASURED, "reduce-overhead", [APART]).failure == "it was not measured"
    assert "| bert | failed: not done | - |" in page({}, [ModelRow("bert", "not done")], None)


def _promises(text: str) -> dict[str, list[str]]:
    section = text.partition("## Promises")[2].partition("## Models")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in rows[1:]}


def test_goals_are_met_or_not() -> None:
    row = row_of("bert", MEASURED, "default", [APART])
    promises = _promises(page({}, [row], Seed("tiny", MEASURED)))
    kept = {what: cells[-1] for what, cells in promises.items()}
    assert kept["time of a call against an independent one"] == "yes"
    assert kept["kernels of more than 10 us against another reading"] == "yes"
    assert kept["device time that is not joined"] == "yes"
    assert kept["kernels and gaps against wall"] == "yes"
    assert kept["estimates of kernels of more than 5 us, median error"] == "yes"
    assert kept["overhead of a benchmark: two configurations"] == "yes"
    assert kept["overhead of a benchmark: the large model"] == "yes"
    # A configuration without a similarity keeps no promise, however good the others are.
    assert kept["results of the large model: 1 - similarity"] == "not measured"
    worse = replace(row, us=103.0, joined=0.98, whole=1.04, overhead=0.21)
    promises = _promises(page({}, [row, worse], None))
    assert [cells[-1] for cells in promises.values()] == [
        "**no**", "yes", "**no**", "**no**", "yes", "not measured", "**no**", "not measured",
    ]  # fmt: skip


def test_one_missing_number_leaves_the_result_open() -> None:
    row = row_of("bert", MEASURED, "default", [APART])
    promises = _promises(page({}, [row, ModelRow("gpt2", failure="no memory")], None))
    assert promises["time of a call against an independent one"][-1] == "not measured"


def test_the_large_models_rows() -> None:
    eager, default, autotuned = seed_rows(MEASURED)
    assert eager == ("eager", "0.200", "1.0%", "-", "-", "-")
    assert default == ("default", "0.102", "1.0%", "0.500000", "passed", "2.5")
    assert autotuned == ("max-autotune", "-", "-", "-", "not done after 400 s", "-")
    text = page({"device": "NVIDIA H200"}, [], Seed("resnet50_large", MEASURED, "X=1 python -m it"))
    assert "| max-autotune | - | - | - | not done after 400 s | - |" in text
    assert "`X=1 python -m it`" in text
    assert "own time: 10.0% of its compiles and calls" in text
    assert "| device | NVIDIA H200 |" in text
    assert "## ResNet-50 on one image, 1x3x1024x1024" in text


def test_the_worst_estimates_are_listed_with_their_kernels() -> None:
    row = row_of("bert", MEASURED, "default", [APART])
    text = page({}, [replace(row, estimates=row.estimates * 9)], None)
    section = text.partition("## Estimates")[2].partition("## What")[0]
    lines = [line for line in section.splitlines() if line.startswith("| bert")]
    assert len(lines) == measured_table._WORST
    assert lines[0] == "| bert | `small` | 6.00 | 0.70 | 88.3% | triton, bound by launch, add |"
    assert "- heat throttled the clocks for 1 s (bert)" in text
