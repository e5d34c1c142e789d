"""Benchmarks in the queue: alongside other runs, with time limits, shown as partial, stored when complete."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import Culprit, Failure, Tier
from fuselight_server.base.settings import Settings
from fuselight_server.editor.app import _worker as real_worker
from fuselight_server.editor.handlers import bench
from fuselight_server.editor.handlers.status import TimedRunNotifications
from fuselight_server.editor.messages.params import MeasuredExportParams
from fuselight_server.editor.results.lens_facts import benchmark_summary
from fuselight_server.execution.runs.keys import WorkerKey
from fuselight_server.explain.benchmarks.planning import history_of
from tests.support.benchmark_session import LINE, BenchmarkSession, benchmark_report, measured


@pytest.fixture
def session(tmp_path: Path) -> BenchmarkSession:
    return BenchmarkSession(tmp_path)


@pytest.mark.asyncio
async def test_a_save_during_a_benchmark_shows_findings_and_is_noted(
    session: BenchmarkSession,
) -> None:
    assert session.command(target="f")["started"]
    await session.began()
    session.analysis.saves.saved(session.path, automatic=False)
    while not session.state.results:
        session.ui.drawn.clear()
        await asyncio.wait_for(session.ui.drawn.wait(), 10)
    assert session.key in session.analysis.runs.in_flight, "the benchmark continues"
    assert len(session.workers) == 2
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    await session.settle()
    (note,) = session.state.measured[session.key].notes
    assert note == "another run was active (f): timings may be inflated"
    assert note in (await session.page())["notes"]
    session.analysis.requests.command(session.path, "f", Tier.KERNELS)
    await session.settle()
    assert not any(worker.closed for worker in session.workers), "neither worker is in the other's way"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_page_shows_the_progress_of_a_run(session: BenchmarkSession) -> None:
    session.command(target="f")
    await session.began()
    page = await session.page()
    assert (page["found"], page["running"]) == (False, True)
    assert page["message"] == "Benchmarking f: default: compiling"
    session.analysis.cancel(session.path)
    assert session.key in session.analysis.runs.in_flight, "to cancel a file's runs leaves its benchmarks"
    session.analysis.cancel(None)
    await session.settle()
    assert not (await session.page())["running"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_restores_the_previous_benchmark(session: BenchmarkSession) -> None:
    session.command(target="f")
    await session.began()
    worker = session.measuring
    worker.answer = benchmark_report(session)
    worker.held.set()
    await session.settle()
    before = session.state.measured[session.key]
    worker.held.clear()
    worker.partials = [benchmark_report(session, 50.0, finished=False)]
    session.ui.drawn.clear()
    session.command(target="f")
    while not session.state.measured[session.key].unfinished:
        session.ui.drawn.clear()
        await asyncio.wait_for(session.ui.drawn.wait(), 10)
    assert "partial" in benchmark_summary(session.state.measured[session.key])
    page = await session.page()
    assert page["running"]
    assert "partial: still running or stopped" in page["notes"][0]
    bench.cancel(session, {"uri": session.uri, "target": "f"})  # type: ignore[arg-type]
    await session.settle()
    assert session.state.measured[session.key] is before
    assert [past.id for past in history_of(session.path, "f").runs()] == ["20260101T120000Z"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_canceled_first_benchmark_leaves_a_marked_partial_result(session: BenchmarkSession) -> None:
    session.command(target="f")
    await session.began()
    session.measuring.partials = [benchmark_report(session, finished=False)]
    session.command(target="f")  # starts again, with partial results
    while session.key not in session.state.measured:
        session.ui.drawn.clear()
        await asyncio.wait_for(session.ui.drawn.wait(), 10)
    bench.cancel(session, {"uri": session.uri, "target": "f"})  # type: ignore[arg-type]
    await session.settle()
    assert benchmark_summary(session.state.measured[session.key]).endswith(" (partial: canceled)")
    assert "partial: canceled" in (await session.page())["notes"]
    assert history_of(session.path, "f").runs() == (), "what is not whole is not kept"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_result_that_reached_its_time_limit_is_partial(session: BenchmarkSession) -> None:
    limit = Failure(Culprit.USER, "timeout", "stopped after 60 s", "give it longer")
    await measured(session, replace(benchmark_report(session, finished=False), failures=(limit,)))
    summary = benchmark_summary(session.state.measured[session.key])
    assert summary.endswith(" (partial: ended early); stopped after 60 s. Give it longer")
    notes = (await session.page())["notes"]
    assert notes[0] == "partial: ended early"
    assert "stopped after 60 s. Give it longer" in notes
    assert history_of(session.path, "f").runs() == ()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_edit_makes_results_stale_and_comparisons_use_current_lines(
    session: BenchmarkSession,
) -> None:
    await measured(session, benchmark_report(session), benchmark_report(session, 112.0, day=2))
    page = await session.page(with_="20260101T120000Z")
    assert [value["id"] for value in page["history"]] == ["20260102T120000Z", "20260101T120000Z"]
    (line,) = page["comparison"]["lines"]
    assert line["change"] == pytest.approx(0.12)
    assert line["place"]["line"] == LINE - 1
    assert not page["stale"]
    session.edit()
    page = await session.page(with_="20260101T120000Z")
    assert page["stale"]
    assert page["comparison"]["lines"][0]["place"] == {
        "uri": session.uri, "path": "m.py", "line": LINE, "text": "return x + 1",
    }  # fmt: skip
    earlier = await session.page(run="20260101T120000Z")
    assert earlier["when"] == "2026-01-01T12:00:00Z"
    assert earlier["stale"]
    assert earlier["profiles"]["default"]["lines"][0]["place"]["line"] == LINE, "found by its text"
    unknown = await session.page(run="20250101T120000Z")
    assert (unknown["found"], unknown["message"]) == (
        False,
        "That benchmark is no longer in the history: choose another one.",
    )
    await session.analysis.close()


@pytest.mark.asyncio
async def test_after_a_restart_the_page_has_the_last_benchmark_of_the_history(
    session: BenchmarkSession, tmp_path: Path
) -> None:
    await measured(session, benchmark_report(session))
    again = BenchmarkSession(tmp_path)
    page = await again.page()
    assert (page["found"], page["stale"]) == (True, False)
    again.state.trusted = False
    page = await again.page()
    assert (page["found"], page["history"]) == (False, []), "what came with a folder is not read untrusted"
    await session.analysis.close()
    await again.analysis.close()


@pytest.mark.asyncio
async def test_exports_are_of_the_page_that_is_shown(session: BenchmarkSession) -> None:
    with pytest.raises(Exception, match="There is no benchmark to export"):
        await bench.export(session, MeasuredExportParams(session.uri, "f", format="json"))  # type: ignore[arg-type]
    await measured(session, benchmark_report(session))
    for ending in ("json", "csv"):
        export = await bench.export(session, MeasuredExportParams(session.uri, "f", format=ending))  # type: ignore[arg-type]
        assert export["name"] == f"f-2026-01-01.{ending}"
        assert "default" in export["text"]
    with pytest.raises(Exception, match="one of json, csv, html"):
        await bench.export(session, MeasuredExportParams(session.uri, "f", format="exe"))  # type: ignore[arg-type]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_page_reports_a_failed_benchmark(session: BenchmarkSession) -> None:
    session.command(target="f")
    await session.began()
    session.measuring.held.set()
    await session.settle()
    page = await session.page()
    assert (page["found"], page["running"]) == (False, False)
    assert page["message"] == "The last benchmark failed: it ended. Fix it"
    await measured(session, benchmark_report(session))
    session.measuring.answer = None
    session.command(target="f")
    await session.settle()
    page = await session.page()
    assert page["found"], "the one before stands"
    assert page["notes"][0] == "the benchmark after this one failed: it ended. Fix it"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_the_client_is_notified_of_each_change_once(session: BenchmarkSession) -> None:
    news = TimedRunNotifications()
    server: Any = session
    news.update(server)
    assert session.notified == []
    session.command(target="f")
    news.update(server)
    news.update(server)
    assert session.notified == ["f"]
    await session.began()
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    await session.settle()
    news.update(server)
    session.edit()
    news.update(server)
    news.update(server)
    assert session.notified == ["f"] * 3
    await session.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("arguments", "started", "message"),
    [
        ({"target": "f"}, "f", "f: eager, written"),
        ({"target": "Net", "configurations": ["max-autotune", "eager"]}, "Net", "Net: eager, max-autotune"),
        ({"target": "__main__"}, "", "__main__: eager, written"),
        ({"line": 5}, "f", "f: eager, written"),
        ({"line": 2}, "f", "f: eager, written"),
        ({"line": 12}, "Net", "Net: eager, default"),
        ({"line": 17}, "", "__main__: eager, written"),
        ({"line": 5, "last": 12}, None, "No target is here: point at a class or function"),
        ({"line": 0}, None, "No target is here: point at a class or function"),
        ({"target": "g"}, None, "There is no `g` in this file"),
        ({"target": "f", "configurations": ["max-autotun"]}, None, "did you mean 'max-autotune'?"),
        ({"target": "f", "uri": "untitled:1"}, None, "save this to a file first"),
        ({}, None, "No target is here"),
    ],
)
async def test_a_command_says_what_it_starts_or_why_it_does_not(
    session: BenchmarkSession, arguments: dict[str, Any], started: str | None, message: str
) -> None:
    answer = session.command(**arguments)
    assert (answer["started"], answer["target"]) == (started is not None, started)
    assert message in answer["message"]
    analysis = session.analysis
    requested = {*analysis.runs.queue.waiting, *analysis.runs.in_flight, *analysis.consent.asked}
    assert len(requested) == int(started is not None), "the inputs of Net need an answer about the program"
    await session.analysis.close()


def test_an_untrusted_folder_measures_nothing(session: BenchmarkSession) -> None:
    session.state.trusted = False
    assert "not trusted" in session.command(target="f")["message"]
    assert session.workers == []


def test_the_process_that_is_measured_is_not_sampled() -> None:
    for measures, after in ((True, 0.0), (False, 5.0)):
        worker_key = WorkerKey("/python", (), "/folder", for_benchmarks=measures)
        worker: Any = real_worker(worker_key, Settings(), lambda _line: None)
        assert worker._watch._sample_after == after
