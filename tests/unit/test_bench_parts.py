"""What is known of a benchmark before it has times: first calls, shown as what they are and never as a benchmark."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fuselight.report import Culprit, Failure, MeasuredConfiguration, Report
from fuselight_server.features.bench import commands as bench_commands
from fuselight_server.features.bench.notifications import BenchNotifications
from fuselight_server.features.lens import benchmark_summary
from fuselight_server.measured.planning import history_of
from fuselight_server.results.target_result import ENDED_EARLY, STILL_RUNNING
from tests.support.bench_desk import Desk, found, measured
from tests.support.measured import row

BEGUN = (
    MeasuredConfiguration("eager", first_us=109e3, second_us=90e3),
    MeasuredConfiguration("default", first_us=12e6),
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def begun(desk: Desk, *rows: MeasuredConfiguration, seconds: float = 1.0) -> Report:
    """What is known while first calls are made, of three configurations."""
    return found(
        desk,
        day=3,
        configurations=rows or BEGUN,
        order=("eager", "default", "dynamic"),
        finished=False,
        seconds=seconds,
    )


async def so_far(desk: Desk, *parts: Report) -> None:
    """Begin a benchmark that has told these parts."""
    desk.command(target="f")
    while desk.key not in desk.analysis.runs.in_flight:
        desk.ui.moved.clear()
        await asyncio.wait_for(desk.ui.moved.wait(), 10)
    running = desk.analysis.runs.in_flight[desk.key]
    for part in parts:
        await desk.analysis.benches.accept_part(running.job, part)


async def cancelled(desk: Desk) -> None:
    running = desk.analysis.runs.in_flight[desk.key]
    bench_commands.cancel(desk, ({"uri": desk.uri, "target": "f"},))  # type: ignore[arg-type]
    await desk.settle()
    await desk.analysis.benches.accept_part(running.job, None)


@pytest.mark.asyncio
async def test_first_calls_are_shown_as_soon_as_they_are_known(desk: Desk) -> None:
    await so_far(desk, begun(desk))
    page = await desk.page()
    assert (page["found"], page["running"], page["partial"], page["verdict"]) == (True, True, True, [])
    assert [
        (one["name"], one["first_us"], one["second_us"], one["us"], one["speedup"], one["failure"])
        for one in page["configurations"]
    ] == [
        ("eager", 109e3, 90e3, None, None, None),
        ("default", 12e6, None, None, None, None),
        ("dynamic", None, None, None, None, None),
    ]
    result = desk.state.measured[desk.key]
    assert benchmark_summary(result) == "first call: eager 109 ms, default 12 s (still measuring)"
    assert (result.lines, result.findings, result.last_complete) == ((), (), None)
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_nothing_is_shown_where_not_even_a_first_call_is_known(desk: Desk) -> None:
    await so_far(desk, begun(desk, MeasuredConfiguration("eager")))
    assert not (await desk.page())["found"]
    assert desk.state.measured == {}
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_configuration_that_failed_is_told_at_once(desk: Desk) -> None:
    failure = Failure(Culprit.USER, "exception", "it failed", "mend it")
    await so_far(desk, begun(desk, BEGUN[0], MeasuredConfiguration("default", failure=failure)))
    said = benchmark_summary(desk.state.measured[desk.key])
    assert said == "first call: eager 109 ms, default failed (still measuring)"
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_of_a_benchmark_that_is_cancelled_among_first_calls_nothing_is_left(desk: Desk) -> None:
    await so_far(desk, begun(desk))
    await cancelled(desk)
    assert desk.state.measured == {}
    page = await desk.page()
    assert (page["found"], page["message"]) == (False, "Press Benchmark above f to measure it.")
    assert history_of(desk.path, "f").runs() == ()
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_one_that_ends_among_first_calls_is_a_failure_and_no_part(desk: Desk) -> None:
    await so_far(desk, begun(desk))
    desk.measuring.held.set()  # without an answer
    await desk.settle()
    result = desk.state.measured[desk.key]
    assert (result.has_data, result.unfinished) == (False, "")
    assert benchmark_summary(result) == "no benchmark: it ended"
    assert (await desk.page())["message"] == "The last benchmark failed: it ended. Mend it"
    await desk.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("finished", [True, False], ids=["whole", "ended early"])
async def test_the_benchmark_before_stays_until_there_are_times(desk: Desk, *, finished: bool) -> None:
    await measured(desk, found(desk, finished=finished))
    before = desk.state.measured[desk.key]
    desk.measuring.held.clear()
    await so_far(desk, begun(desk))
    now = desk.state.measured[desk.key]
    assert (now.unfinished, now.shown) == (STILL_RUNNING, before)
    assert now.findings == before.findings
    page = await desk.page()
    assert (page["running"], page["partial"]) == (True, not finished)
    assert page["configurations"][1]["us"] == 100.0
    assert not any("failed" in note for note in page["notes"])
    assert benchmark_summary(now).endswith(" (still measuring)")
    await cancelled(desk)
    assert desk.state.measured[desk.key] is before
    assert before.unfinished == ("" if finished else ENDED_EARLY)
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_the_last_whole_benchmark_of_the_history_stays_until_there_are_times(desk: Desk) -> None:
    await measured(desk, found(desk))
    desk.measuring.held.clear()
    desk.state.drop(desk.state.measured)  # as after a reload of the window
    await so_far(desk, begun(desk))
    assert (await desk.page())["run"] == "20260101T120000Z"
    running = desk.analysis.runs.in_flight[desk.key]
    await desk.analysis.benches.accept_part(running.job, found(desk, 50.0, day=3, finished=False))
    page = await desk.page()
    assert (page["run"], page["partial"], page["configurations"][1]["us"]) == (None, True, 50.0)
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_each_part_is_news_though_nothing_else_moves(desk: Desk) -> None:
    news = BenchNotifications()
    await so_far(desk, begun(desk, BEGUN[0]))
    news.update(desk)  # type: ignore[arg-type]  # the parts of a server that it reads
    for part, told in ((begun(desk, seconds=2.0), ["f"]), (None, [])):
        desk.notified.clear()
        if part is not None:
            running = desk.analysis.runs.in_flight[desk.key]
            await desk.analysis.benches.accept_part(running.job, part)
        news.update(desk)  # type: ignore[arg-type]
        assert desk.notified == told
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_of_an_early_end_all_that_was_asked_for_is_named(desk: Desk) -> None:
    rows = (row("eager", 300.0),)
    await measured(desk, found(desk, configurations=rows, order=("eager", "default"), finished=False))
    page = await desk.page()
    assert [(one["name"], one["us"]) for one in page["configurations"]] == [
        ("eager", 300.0),
        ("default", None),
    ]
    assert (page["partial"], page["running"]) == (True, False)
    await desk.analysis.close()
