"""A benchmark without times yet: first calls are shown as first calls and never as a result."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fuselight.shared.report import Culprit, Failure, MeasuredConfiguration, Report
from fuselight_server.editor.handlers import bench
from fuselight_server.editor.handlers.status import TimedRunNotifications
from fuselight_server.editor.results.lens_facts import benchmark_summary
from fuselight_server.editor.results.target_result import ENDED_EARLY, STILL_RUNNING
from fuselight_server.explain.benchmarks.planning import history_of
from tests.support.benchmark_session import BenchmarkSession, benchmark_report, measured
from tests.support.measured import row

BEGUN = (
    MeasuredConfiguration("eager", first_us=109e3, second_us=90e3),
    MeasuredConfiguration("default", first_us=12e6),
)


@pytest.fixture
def session(tmp_path: Path) -> BenchmarkSession:
    return BenchmarkSession(tmp_path)


def begun(session: BenchmarkSession, *rows: MeasuredConfiguration, seconds: float = 1.0) -> Report:
    """The partial result during the first calls of three configurations."""
    return benchmark_report(
        session,
        day=3,
        configurations=rows or BEGUN,
        order=("eager", "default", "dynamic"),
        finished=False,
        seconds=seconds,
    )


async def so_far(session: BenchmarkSession, *parts: Report) -> None:
    """Start a benchmark that has reported these partial results."""
    session.command(target="f")
    while session.key not in session.analysis.runs.in_flight:
        session.ui.moved.clear()
        await asyncio.wait_for(session.ui.moved.wait(), 10)
    running = session.analysis.runs.in_flight[session.key]
    for part in parts:
        await session.analysis.benches.accept_part(running.job, part)


async def cancelled(session: BenchmarkSession) -> None:
    running = session.analysis.runs.in_flight[session.key]
    bench.cancel(session, {"uri": session.uri, "target": "f"})  # type: ignore[arg-type]
    await session.settle()
    await session.analysis.benches.accept_part(running.job, None)


@pytest.mark.asyncio
async def test_first_calls_are_shown_as_soon_as_they_are_known(session: BenchmarkSession) -> None:
    await so_far(session, begun(session))
    page = await session.page()
    assert (page["found"], page["running"], page["partial"], page["verdict"]) == (True, True, True, [])
    assert [
        (
            configuration["name"],
            configuration["first_us"],
            configuration["second_us"],
            configuration["us"],
            configuration["speedup"],
            configuration["failure"],
        )
        for configuration in page["configurations"]
    ] == [
        ("eager", 109e3, 90e3, None, None, None),
        ("default", 12e6, None, None, None, None),
        ("dynamic", None, None, None, None, None),
    ]
    result = session.state.measured[session.key]
    assert benchmark_summary(result) == "first call: eager 109 ms, default 12 s (still measuring)"
    assert (result.lines, result.findings, result.last_complete) == ((), (), None)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_nothing_is_shown_without_a_first_call(session: BenchmarkSession) -> None:
    await so_far(session, begun(session, MeasuredConfiguration("eager")))
    assert not (await session.page())["found"]
    assert session.state.measured == {}
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_configuration_that_failed_is_reported_immediately(session: BenchmarkSession) -> None:
    failure = Failure(Culprit.USER, "exception", "it failed", "fix it")
    await so_far(session, begun(session, BEGUN[0], MeasuredConfiguration("default", failure=failure)))
    summary = benchmark_summary(session.state.measured[session.key])
    assert summary == "first call: eager 109 ms, default failed (still measuring)"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_benchmark_canceled_in_its_first_calls_leaves_nothing(
    session: BenchmarkSession,
) -> None:
    await so_far(session, begun(session))
    await cancelled(session)
    assert session.state.measured == {}
    page = await session.page()
    assert (page["found"], page["message"]) == (
        False,
        "The last benchmark has no result: canceled. Press Benchmark above f to start it again.",
    )
    assert history_of(session.path, "f").runs() == ()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_benchmark_that_ends_in_its_first_calls_failed(session: BenchmarkSession) -> None:
    await so_far(session, begun(session))
    session.measuring.held.set()  # without an answer
    await session.settle()
    result = session.state.measured[session.key]
    assert (result.has_data, result.unfinished) == (False, "")
    assert benchmark_summary(result) == "no benchmark: it ended. Fix it"
    assert (await session.page())["message"] == "The last benchmark failed: it ended. Fix it"
    await session.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("finished", [True, False], ids=["complete", "ended early"])
async def test_the_benchmark_before_stays_until_there_are_times(
    session: BenchmarkSession, *, finished: bool
) -> None:
    await measured(session, benchmark_report(session, finished=finished))
    before = session.state.measured[session.key]
    session.measuring.held.clear()
    await so_far(session, begun(session))
    now = session.state.measured[session.key]
    assert (now.unfinished, now.shown) == (STILL_RUNNING, before)
    assert now.findings == before.findings
    page = await session.page()
    assert (page["running"], page["partial"]) == (True, not finished)
    assert page["configurations"][1]["us"] == 100.0
    assert not any("failed" in note for note in page["notes"])
    assert benchmark_summary(now).endswith(" (still measuring)")
    await cancelled(session)
    assert session.state.measured[session.key] is before
    assert before.unfinished == ("" if finished else ENDED_EARLY)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_last_complete_benchmark_stays_until_there_are_times(
    session: BenchmarkSession,
) -> None:
    await measured(session, benchmark_report(session))
    session.measuring.held.clear()
    session.state.drop(session.state.measured)  # as after a reload of the window
    await so_far(session, begun(session))
    assert (await session.page())["run"] == "20260101T120000Z"
    running = session.analysis.runs.in_flight[session.key]
    await session.analysis.benches.accept_part(
        running.job, benchmark_report(session, 50.0, day=3, finished=False)
    )
    page = await session.page()
    assert (page["run"], page["partial"], page["configurations"][1]["us"]) == (None, True, 50.0)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_each_partial_result_notifies(session: BenchmarkSession) -> None:
    news = TimedRunNotifications()
    await so_far(session, begun(session, BEGUN[0]))
    news.update(session)  # type: ignore[arg-type]  # the parts of a server that it reads
    for part, notified in ((begun(session, seconds=2.0), ["f"]), (None, [])):
        session.notified.clear()
        if part is not None:
            running = session.analysis.runs.in_flight[session.key]
            await session.analysis.benches.accept_part(running.job, part)
        news.update(session)  # type: ignore[arg-type]
        assert session.notified == notified
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_early_end_names_everything_requested(session: BenchmarkSession) -> None:
    rows = (row("eager", 300.0),)
    await measured(
        session, benchmark_report(session, configurations=rows, order=("eager", "default"), finished=False)
    )
    page = await session.page()
    assert [(configuration["name"], configuration["us"]) for configuration in page["configurations"]] == [
        ("eager", 300.0),
        ("default", None),
    ]
    assert (page["partial"], page["running"]) == (True, False)
    await session.analysis.close()
