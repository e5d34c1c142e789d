"""Comparing sweeps, and counting them."""

from __future__ import annotations

import pytest

from fuselight_server.sweep.comparison import Direction, compare_sweeps
from fuselight_server.sweep.rows import RowFailure, SweepJob, SweepRow
from fuselight_server.sweep.summary import EDGES, summarize
from tests.support.sweeps import failed, row, timed

BENCH = SweepJob.BENCH


def bench(name: str, us: float, speedup: float = 2.0, **fields: object) -> SweepRow:
    return row(
        name, BENCH, clock="wall", machine="cpu", configurations=(timed("default", us, speedup, **fields),)
    )


def test_regressions_come_first_the_worst_before_the_others() -> None:
    before = [
        row("lost"),
        row("more", breaks=1),
        bench("slow", 100.0),
        bench("fast", 100.0),
        bench("wrong", 100.0),
    ]
    after = [
        bench("fast", 50.0),
        bench("slow", 150.0),
        row("more", breaks=3),
        bench("wrong", 100.0, is_accurate=False),
        failed("lost"),
    ]
    comparison = compare_sweeps(before, after)
    assert [(change.id, change.direction.value) for change in comparison.changes] == [
        ("lost check", "regression"),
        ("wrong bench", "regression"),
        ("more check", "regression"),
        ("slow bench", "regression"),
        ("fast bench", "improvement"),
    ]
    assert comparison.compared == 5
    assert len(comparison.regressions) == 4
    slow = comparison.changes[3]
    assert (slow.before, slow.after, slow.detail) == ("100 µs", "150 µs", "+50%")


def test_a_difference_within_the_spread_is_none() -> None:
    assert compare_sweeps([bench("a", 100.0)], [bench("a", 101.0)]).changes == ()


def test_times_of_another_machine_are_not_compared() -> None:
    (other,) = (bench("a", 500.0),)
    assert (
        compare_sweeps(
            [row("a", BENCH, clock="device", configurations=other.configurations)], [other]
        ).changes
        == ()
    )


def test_rows_of_one_sweep_alone_are_no_changes() -> None:
    comparison = compare_sweeps([row("a"), row("b")], [row("b"), row("c")])
    assert (comparison.changes, comparison.added, comparison.missing, comparison.compared) == (
        (),
        ("c check",),
        ("a check",),
        1,
    )


def test_a_configuration_that_failed_is_a_regression() -> None:
    failure = RowFailure("compiler", "backend", "no kernel")
    (change,) = compare_sweeps([bench("a", 100.0)], [bench("a", 100.0, failure=failure)]).changes
    assert (change.direction, change.detail) == (Direction.REGRESSION, "no kernel")


def test_a_summary_counts_rows_speedups_and_causes() -> None:
    rows = [
        row("a", breaks=2, break_causes={"print": 2}),
        row("b", breaks=1, break_causes={"print": 1, "item": 3}),
        failed("c"),
        bench("d", 100.0, 4.0),
        bench("e", 100.0, 1.0),
        bench("f", 100.0, 9.0, is_accurate=False),
        row("g", SweepJob.TUNE, winner="max", gain=1.3, configurations=(timed("max", 10.0, 1.5),)),
    ]
    summary = summarize(rows)
    assert summary.statuses == {"done": 6, "failed": 1}
    assert [(graph_break.cause, graph_break.count, graph_break.rows) for graph_break in summary.breaks] == [
        ("print", 3, ("a", "b")),
        ("item", 3, ("b",)),
    ]
    assert [failure.cause for failure in summary.failures] == ["exception: ValueError"]
    default, winner = summary.speedups
    assert (default.name, default.rows) == ("default", 2)
    assert default.mean == pytest.approx(2.0)
    assert winner.name == "winner"
    assert winner.mean == pytest.approx(1.5)
    assert len(default.counts) == len(EDGES) + 1
    assert summary.gain is not None
    assert summary.gain.mean == pytest.approx(1.3)
