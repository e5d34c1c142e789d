"""Measured times of two versions: which differences count, by call and by line."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.shared.report import Report
from fuselight_server.explain.findings import Thresholds
from fuselight_server.jobs.comparison.model import ChangeVerdict
from fuselight_server.upgrades.comparison import compare_target
from fuselight_server.upgrades.model import (
    ComparedRuns,
    RegressionKind,
    SideReports,
    TargetComparison,
)
from fuselight_server.upgrades.rows import target_rows
from tests.support.measured import benchmark, graph, kernel, profile, ran, row
from tests.support.reports import FILE, report


def compare(before: Report, after: Report) -> TargetComparison:
    sides = (SideReports(report(), measured=(given,)) for given in (before, after))
    return compare_target(
        ComparedRuns(FILE, "Net", *sides),
        thresholds=Thresholds(),
        read_line=lambda _, line: f"line_{line}(x)",
        without_ignored=lambda given: given,
    )


@pytest.mark.parametrize(
    ("us", "spread", "verdict"),
    [
        (120.0, 0.01, ChangeVerdict.REGRESSION),
        (80.0, 0.01, ChangeVerdict.IMPROVEMENT),
        (103.0, 0.01, ChangeVerdict.SAME),
        (120.0, 0.3, ChangeVerdict.SAME),
    ],
)
def test_a_time_counts_from_five_percent_on_and_beyond_both_spreads(
    us: float, spread: float, verdict: ChangeVerdict
) -> None:
    target = compare(benchmark(row("default", 100.0)), benchmark(row("default", us, spread)))
    (time,) = target.times
    assert time.verdict is verdict
    assert list(target.regressions()) == [RegressionKind.TIMES] * (verdict is ChangeVerdict.REGRESSION)
    assert target.is_same == (verdict is ChangeVerdict.SAME)
    assert [finding.code for finding in target.own] == ["FL934"] * (verdict is ChangeVerdict.REGRESSION)
    assert not list(target_rows(target, ChangeVerdict.REGRESSION, str))  # the finding is shown in its place
    equal = f"measured calls without a difference beyond their spreads and 5%: default 100 µs -> {us:.0f} µs"
    assert target.notes == ((equal,) if verdict is ChangeVerdict.SAME else ())


def test_a_slower_call_is_a_finding_that_names_the_lines() -> None:
    facts: dict[str, Any] = {"generated": (graph(kernel(21)),)}
    sides = [benchmark(row("default", us, profile=profile([ran(0, us)]), **facts)) for us in (100.0, 150.0)]
    (finding,) = compare(*sides).own
    torch = report().versions.torch
    assert finding.title == f"default calls take 150 µs with torch {torch}, 100 µs with {torch} (+50%)"
    assert finding.message == "Lines that take longer:\n- model.py:21: 100 µs -> 150 µs"
    assert finding.span.line == sides[1].target.line


def profiled(us: float) -> Report:
    facts: dict[str, Any] = {"generated": (graph(kernel(21)),), "profile": profile([ran(0, us)])}
    return benchmark(row("default", 100.0, **facts))


def test_a_line_that_takes_longer_is_a_difference_but_no_regression_of_its_own() -> None:
    target = compare(profiled(40.0), profiled(60.0))
    rows = list(target_rows(target, ChangeVerdict.CHANGE, str))
    assert rows == [f"measured time of Net, {FILE}:21: 40 µs -> 60 µs (+50%)"]
    assert not list(target.regressions())


def test_a_side_without_times_is_not_compared() -> None:
    assert not compare(report(), benchmark(row("default", 100.0))).times
    assert not compare(benchmark(row("default", None)), benchmark(row("default", 100.0))).times
