"""Benchmarks in the queue: beside other runs, bounded by their configurations, shown as unfinished, kept when whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.report import Culprit, Failure, Tier
from fuselight_server.app import _worker as real_worker
from fuselight_server.features.bench import commands as bench_commands
from fuselight_server.features.bench import page
from fuselight_server.features.bench.notifications import BenchNotifications
from fuselight_server.features.lens import benchmark_summary
from fuselight_server.features.protocol import MeasuredExportParams
from fuselight_server.measured.planning import history_of
from fuselight_server.runs.keys import WorkerKey
from fuselight_server.settings import Settings
from tests.support.bench_desk import LINE, Desk, found, measured


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.asyncio
async def test_a_save_meanwhile_shows_its_findings_and_the_benchmark_says_so(desk: Desk) -> None:
    assert desk.command(target="f")["started"]
    await desk.began()
    desk.analysis.saved(desk.path, automatic=False)
    while not desk.state.results:
        desk.ui.drawn.clear()
        await asyncio.wait_for(desk.ui.drawn.wait(), 10)
    assert desk.key in desk.analysis.runs.in_flight, "the benchmark goes on"
    assert len(desk.workers) == 2
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    await desk.settle()
    (note,) = desk.state.measured[desk.key].notes
    assert note == "another run was active (f): timings may be inflated"
    assert note in (await desk.page())["notes"]
    desk.analysis.command(desk.path, "f", Tier.KERNELS)
    await desk.settle()
    assert not any(worker.closed for worker in desk.workers), "neither worker is in the other's way"
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_while_it_runs_the_page_says_what_it_is_at(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    page = await desk.page()
    assert (page["found"], page["running"]) == (False, True)
    assert page["message"] == "Benchmarking f: default: compiling"
    desk.analysis.cancel(desk.path)
    assert desk.key in desk.analysis.runs.in_flight, "to cancel a file's runs leaves its benchmarks"
    desk.analysis.cancel(None)
    await desk.settle()
    assert not (await desk.page())["running"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_ends_it_and_brings_back_the_benchmark_of_before(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    worker = desk.measuring
    worker.answer = found(desk)
    worker.held.set()
    await desk.settle()
    before = desk.state.measured[desk.key]
    worker.held.clear()
    worker.partials = [found(desk, 50.0, finished=False)]
    desk.ui.drawn.clear()
    desk.command(target="f")
    while not desk.state.measured[desk.key].unfinished:
        desk.ui.drawn.clear()
        await asyncio.wait_for(desk.ui.drawn.wait(), 10)
    assert "partial" in benchmark_summary(desk.state.measured[desk.key])
    page = await desk.page()
    assert page["running"]
    assert "partial: still running or stopped" in page["notes"][0]
    bench_commands.cancel(desk, ({"uri": desk.uri, "target": "f"},))  # type: ignore[arg-type]
    await desk.settle()
    assert desk.state.measured[desk.key] is before
    assert [past.id for past in history_of(desk.path, "f").runs()] == ["20260101T120000Z"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_part_of_a_cancelled_benchmark_says_so_where_nothing_was_known_before(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    desk.measuring.partials = [found(desk, finished=False)]
    desk.command(target="f")  # begins anew, and tells its parts this time
    while desk.key not in desk.state.measured:
        desk.ui.drawn.clear()
        await asyncio.wait_for(desk.ui.drawn.wait(), 10)
    bench_commands.cancel(desk, ({"uri": desk.uri, "target": "f"},))  # type: ignore[arg-type]
    await desk.settle()
    assert benchmark_summary(desk.state.measured[desk.key]).endswith(" (partial: canceled)")
    assert "partial: canceled" in (await desk.page())["notes"]
    assert history_of(desk.path, "f").runs() == (), "what is not whole is not kept"
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_what_came_to_its_time_limit_is_not_shown_as_whole(desk: Desk) -> None:
    limit = Failure(Culprit.USER, "timeout", "stopped after 60 s", "give it longer")
    await measured(desk, replace(found(desk, finished=False), failures=(limit,)))
    assert benchmark_summary(desk.state.measured[desk.key]).endswith(", failed (partial: ended early)")
    notes = (await desk.page())["notes"]
    assert notes[0] == "partial: ended early"
    assert "stopped after 60 s. Give it longer" in notes
    assert history_of(desk.path, "f").runs() == ()
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_an_edit_makes_it_stale_and_runs_are_compared_where_lines_are_now(desk: Desk) -> None:
    await measured(desk, found(desk), found(desk, 112.0, day=2))
    page = await desk.page(with_="20260101T120000Z")
    assert [one["id"] for one in page["history"]] == ["20260102T120000Z", "20260101T120000Z"]
    (line,) = page["comparison"]["lines"]
    assert line["change"] == pytest.approx(0.12)
    assert line["place"]["line"] == LINE - 1
    assert not page["stale"]
    desk.edit()
    page = await desk.page(with_="20260101T120000Z")
    assert page["stale"]
    assert page["comparison"]["lines"][0]["place"] == {
        "uri": desk.uri, "path": "m.py", "line": LINE, "text": "return x + 1",
    }  # fmt: skip
    earlier = await desk.page(run="20260101T120000Z")
    assert earlier["when"] == "2026-01-01T12:00:00Z"
    assert earlier["stale"]
    assert earlier["profiles"]["default"]["lines"][0]["place"]["line"] == LINE, "found by its text"
    unknown = await desk.page(run="20250101T120000Z")
    assert (unknown["found"], unknown["message"]) == (
        False,
        "That benchmark is no longer in the history: choose another one.",
    )
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_after_a_restart_the_page_has_the_last_benchmark_of_the_history(
    desk: Desk, tmp_path: Path
) -> None:
    await measured(desk, found(desk))
    again = Desk(tmp_path)
    page = await again.page()
    assert (page["found"], page["stale"]) == (True, False)
    again.state.trusted = False
    page = await again.page()
    assert (page["found"], page["history"]) == (False, []), "what came with a folder is not read untrusted"
    await desk.analysis.close()
    await again.analysis.close()


@pytest.mark.asyncio
async def test_exports_are_of_the_page_that_is_shown(desk: Desk) -> None:
    with pytest.raises(Exception, match="There is no benchmark to export"):
        await page.export(desk, MeasuredExportParams(desk.uri, "f", "json"))  # type: ignore[arg-type]
    await measured(desk, found(desk))
    for ending in ("json", "csv"):
        made = await page.export(desk, MeasuredExportParams(desk.uri, "f", ending))  # type: ignore[arg-type]
        assert made["name"] == f"f-2026-01-01.{ending}"
        assert "default" in made["text"]
    with pytest.raises(Exception, match="one of json, csv, html"):
        await page.export(desk, MeasuredExportParams(desk.uri, "f", "exe"))  # type: ignore[arg-type]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_benchmark_that_fails_says_so_on_the_page(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    desk.measuring.held.set()
    await desk.settle()
    page = await desk.page()
    assert (page["found"], page["running"]) == (False, False)
    assert page["message"] == "The last benchmark failed: it ended. Mend it"
    await measured(desk, found(desk))
    desk.measuring.answer = None
    desk.command(target="f")
    await desk.settle()
    page = await desk.page()
    assert page["found"], "the one before stands"
    assert page["notes"][0] == "the benchmark after this one failed: it ended. Mend it"
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_the_client_hears_of_each_change_once(desk: Desk) -> None:
    news = BenchNotifications()
    server: Any = desk
    news.update(server)
    assert desk.notified == []
    desk.command(target="f")
    news.update(server)
    news.update(server)
    assert desk.notified == ["f"]
    await desk.began()
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    await desk.settle()
    news.update(server)
    desk.edit()
    news.update(server)
    news.update(server)
    assert desk.notified == ["f"] * 3
    await desk.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("arguments", "started", "said"),
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
    desk: Desk, arguments: dict[str, Any], started: str | None, said: str
) -> None:
    answer = desk.command(**arguments)
    assert (answer["started"], answer["target"]) == (started is not None, started)
    assert said in answer["message"]
    analysis = desk.analysis
    requested = {*analysis.runs.queue.waiting, *analysis.runs.in_flight, *analysis.consent.asked}
    assert len(requested) == int(started is not None), "the inputs of Net need an answer about the program"
    await desk.analysis.close()


def test_nothing_is_measured_in_a_folder_that_is_not_trusted(desk: Desk) -> None:
    desk.state.trusted = False
    assert "not trusted" in desk.command(target="f")["message"]
    assert desk.workers == []


def test_the_process_that_is_measured_is_not_sampled() -> None:
    for measures, after in ((True, 0.0), (False, 5.0)):
        lane = WorkerKey("/python", (), "/folder", measures=measures)
        worker: Any = real_worker(lane, Settings(), lambda _line: None)
        assert worker._watch._sample_after == after
