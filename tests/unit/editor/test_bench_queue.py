"""Benchmarks that wait for each other, for the settings, or for the end of a file, and how they are shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import MeasureRequest
from fuselight.shared.report import Tier
from fuselight_server.base.settings import BenchSettings, Settings
from fuselight_server.editor.handlers import bench
from fuselight_server.editor.handlers.status import TimedRunNotifications
from fuselight_server.editor.presenters.lens import target_lenses
from fuselight_server.editor.results.lens_facts import benchmark_summary
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.results.target_lens import TargetLens
from fuselight_server.editor.results.target_result import ENDED_EARLY
from fuselight_server.editor.session.state import Folder
from fuselight_server.execution.runs.keys import Key, WorkerKey
from fuselight_server.execution.runs.queue import Job
from fuselight_server.explain.benchmarks.planning import history_of
from fuselight_server.source.document import SourceDocument
from tests.support.benchmark_session import LINE, TEXT, BenchmarkSession, benchmark_report, measured

PLACE: Any = {"start": {"line": 4, "character": 0}, "end": {"line": 4, "character": 1}}


@pytest.fixture
def session(tmp_path: Path) -> BenchmarkSession:
    return BenchmarkSession(tmp_path)


def titles(session: BenchmarkSession, target: str) -> list[str]:
    runs = session.analysis.runs
    snapshot = session.state.snapshot(session.uri, runs.in_flight, runs.queue.waiting)
    assert snapshot is not None
    lenses = target_lenses(TargetLens(snapshot, target, is_known=True), PLACE)
    return [lens["command"]["title"] for lens in lenses if lens["command"]["title"] not in ("Run", "Kernels")]


@pytest.mark.asyncio
async def test_a_queued_benchmark_is_shown_and_can_be_canceled(
    session: BenchmarkSession,
) -> None:
    session.analysis.consent._programs[session.path] = "command"  # Net has its inputs from the program
    session.command(target="f")
    await session.began()
    session.command(target="Net")
    assert titles(session, "Net") == [
        "Benchmark: waiting for another run to end",
        "Cancel Benchmark",
    ]
    assert titles(session, "f")[:2] == ["Benchmark: default: compiling", "Cancel Benchmark"]
    bench.cancel(session, {"uri": session.uri, "target": "Net"})  # type: ignore[arg-type]  # the parts that it reads
    assert titles(session, "Net") == ["benchmark canceled"]
    assert session.key in session.analysis.runs.in_flight
    session.command(target="Net")
    bench.cancel(session, {})  # type: ignore[arg-type]
    await session.settle()
    assert titles(session, "Net") == titles(session, "f") == ["benchmark canceled"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_only_one_folder_is_benchmarked_at_a_time(session: BenchmarkSession, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other"
    path = str(other / "m.py")
    session.state.folders[str(other)] = Folder(str(other), other.as_uri(), consent="run")
    session.state.open(Document(Path(path).as_uri(), path, 1, SourceDocument(path, TEXT), runnable=True))
    session.command(target="f")
    await session.began()
    session.command(target="f", uri=Path(path).as_uri())
    there = Key(path, "f", Tier.MEASURED)
    while there not in session.analysis.runs.in_flight or len(session.workers) < 2:
        session.ui.moved.clear()
        await asyncio.wait_for(session.ui.moved.wait(), 10)
    first, second = session.workers
    first.answer = second.answer = benchmark_report(session)
    second.held.set()
    running = session.analysis.runs.in_flight[there]
    while running.progress is None:
        session.ui.moved.clear()
        await asyncio.wait_for(session.ui.moved.wait(), 10)
    assert running.progress.detail == "waiting for another run to end"
    assert (len(first.asked), len(second.asked)) == (1, 0)
    first.held.set()
    await session.settle()
    assert len(second.asked) == 1
    assert session.state.measured[session.key].notes == (), "neither ran during the other"
    assert session.state.measured[there].notes == ()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_queued_benchmark_can_be_canceled(session: BenchmarkSession) -> None:
    async with session.analysis.workers.benchmark_turn:
        session.command(target="f")
        while session.key not in session.analysis.runs.in_flight:
            session.ui.moved.clear()
            await asyncio.wait_for(session.ui.moved.wait(), 10)
        bench.cancel(session, {"uri": session.uri, "target": "f"})  # type: ignore[arg-type]
        await session.settle()
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    session.command(target="f")
    await session.settle()
    assert session.state.measured[session.key].has_data
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_benchmark_requested_before_the_settings_are_known_uses_them(
    session: BenchmarkSession,
) -> None:
    session.analysis.early._waiting = []
    answer = session.command(target="f")
    assert (answer["started"], answer["target"]) == (True, "f")
    folder = session.state.folder_of(session.path)
    folder.settings = replace(
        Settings(), bench=BenchSettings(configurations=["max-autotune"], seconds=0.0, rounds=1)
    )
    session.analysis.early.end()
    await session.began()
    (asked,) = session.measuring.asked
    assert isinstance(asked, MeasureRequest)
    assert asked.plan.configurations == ("eager", "max-autotune")
    assert asked.plan.seconds > 0, "the setting may be 0, a benchmark may not"
    assert asked.plan.rounds == 2, "one has no spread"
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_page_says_that_consent_is_pending(
    session: BenchmarkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, answers = asyncio.Event(), iter(["later", "run"])

    async def confirm(_question: object) -> str:
        await answered.wait()
        return next(answers)

    monkeypatch.setattr(session.ui, "confirm", confirm)
    news = TimedRunNotifications()
    server: Any = session
    session.state.folder_of(session.path).consent = "unknown"
    session.command(target="f")
    news.update(server)
    assert session.notified == ["f"]
    answered.set()
    while session.state.folder_of(session.path).consent == "unknown":
        session.ui.moved.clear()
        await asyncio.wait_for(session.ui.moved.wait(), 10)
    news.update(server)
    assert session.notified == ["f", "f"]
    assert "Press Benchmark" in (await session.page())["message"]
    answered.clear()
    session.command(target="f")
    page = await session.page()
    assert (page["running"], page["message"]) == (
        False, "Fuselight asks whether it may run this folder's code: answer the question to go on",
    )  # fmt: skip
    answered.set()
    await session.began()
    assert (await session.page())["message"].startswith("Benchmarking f")
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_page_is_notified_of_moved_lines_but_not_of_each_keystroke(session: BenchmarkSession) -> None:
    news = TimedRunNotifications()
    server: Any = session
    await measured(session, benchmark_report(session))
    news.update(server)
    session.edit()
    news.update(server)
    count = len(session.notified)
    document = session.state.documents.at(session.path)
    assert document is not None
    for letter in "abc":
        change = document.source.edit((LINE + 1, 0), (LINE + 1, 0), letter)
        session.analysis.edits.edited(session.path, change)
        news.update(server)
    assert len(session.notified) == count
    session.edit()
    news.update(server)
    assert len(session.notified) == count + 1
    page = await session.page()
    assert page["profiles"]["default"]["lines"][0]["place"]["line"] == LINE + 1
    await session.analysis.close()


@pytest.mark.asyncio
async def test_deleting_a_file_ends_its_benchmark_and_leaves_nothing(session: BenchmarkSession) -> None:
    session.command(target="f")
    await session.began()
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    session.analysis.documents.remove_path(session.path)
    await session.settle()
    assert session.state.measured == {}
    assert history_of(session.path, "f").runs() == ()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_change_of_an_imported_file_on_disk_marks_the_lines(
    session: BenchmarkSession, tmp_path: Path
) -> None:
    helper = str(tmp_path / "helper.py")
    await measured(session, replace(benchmark_report(session), files={helper: "0" * 32}))
    assert not session.state.measured[session.key].stale
    session.ui.drawn.clear()
    session.analysis.documents.changed_on_disk(helper)
    assert session.state.measured[session.key].stale
    session.analysis.notices.show_changes()
    assert session.ui.drawn.is_set(), "lenses are asked for again"
    session.ui.drawn.clear()
    session.analysis.documents.changed_on_disk(str(tmp_path / "other.py"))
    assert not session.ui.drawn.is_set()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_worker_restart_ends_a_benchmark_and_the_next_gets_a_worker(
    session: BenchmarkSession,
) -> None:
    session.command(target="f")
    await session.began()
    worker = session.measuring
    await session.analysis.restart(None)
    await session.settle()
    assert worker.closed
    session.workers.clear()
    await measured(session, benchmark_report(session))
    assert session.state.measured[session.key].is_stored
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_before_any_result_keeps_a_result_that_reached_its_limit(
    session: BenchmarkSession,
) -> None:
    await measured(session, benchmark_report(session, finished=False))
    before = session.state.measured[session.key]
    assert before.unfinished == ENDED_EARLY
    later = Job(session.key, WorkerKey("/python", (), "/"), before.generation + 1, "command", lambda: None)
    await session.analysis.benches.accept_part(later, None)
    assert session.state.measured[session.key] is before
    assert before.unfinished == ENDED_EARLY
    await session.analysis.close()


@pytest.mark.asyncio
async def test_shown_times_outlive_the_measuring_process(
    session: BenchmarkSession,
) -> None:
    await measured(session, benchmark_report(session, 300.0))
    session.measuring.held.clear()
    session.measuring.answer = None  # it ends without a result
    session.measuring.partials = [benchmark_report(session, 50.0, day=2, finished=False)]
    session.command(target="f")
    while not session.state.measured[session.key].unfinished:
        session.ui.drawn.clear()
        await asyncio.wait_for(session.ui.drawn.wait(), 10)
    session.measuring.held.set()
    await session.settle()
    kept = session.state.measured[session.key]
    assert benchmark_summary(kept).endswith(" (partial: ended early); it ended. Fix it")
    page = await session.page()
    assert page["configurations"][1]["us"] == 50.0
    assert {"partial: ended early", "it ended. Fix it"} <= set(page["notes"])
    assert page["run"] is None, "what is not whole is not kept"
    await session.analysis.close()
