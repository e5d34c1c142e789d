"""Benchmarks that wait for each other, for the settings, or for a file's end, and what is shown of them meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.protocol import MeasureRequest
from fuselight.report import Tier
from fuselight_server.features.bench import commands as bench_commands
from fuselight_server.features.bench.notifications import BenchNotifications
from fuselight_server.features.code_lens import TargetLenses
from fuselight_server.features.lens import benchmark_summary
from fuselight_server.measured.planning import history_of
from fuselight_server.results.target_result import ENDED_EARLY
from fuselight_server.runs.keys import Key, WorkerKey
from fuselight_server.runs.queue import Job
from fuselight_server.session.state import Document, Folder
from fuselight_server.session.throttle import PendingUntilConfigured
from fuselight_server.settings import BenchSettings, Settings
from fuselight_server.static.document import SourceDocument
from tests.support.bench_desk import LINE, TEXT, Desk, found, measured

PLACE: Any = {"start": {"line": 4, "character": 0}, "end": {"line": 4, "character": 1}}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def titles(desk: Desk, target: str) -> list[str]:
    runs = desk.analysis.runs
    snapshot = desk.state.snapshot(desk.uri, runs.in_flight, runs.queue.waiting)
    assert snapshot is not None
    lenses = TargetLenses(snapshot, target, PLACE, has_inputs=True).make()
    return [one["command"]["title"] for one in lenses if one["command"]["title"] not in ("Run", "Kernels")]


@pytest.mark.asyncio
async def test_a_target_that_waits_for_another_says_so_and_can_be_taken_back(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    desk.command(target="Net")
    assert titles(desk, "Net") == ["Cancel Benchmark", "Benchmark: waiting for another benchmark"]
    assert titles(desk, "f")[:2] == ["Cancel Benchmark", "Benchmarking f: default: compiling"]
    bench_commands.cancel(desk, ({"uri": desk.uri, "target": "Net"},))  # type: ignore[arg-type]  # the parts that it reads
    assert titles(desk, "Net") == ["Benchmark"]
    assert desk.key in desk.analysis.runs.in_flight
    desk.command(target="Net")
    bench_commands.cancel(desk, ({},))  # type: ignore[arg-type]
    await desk.settle()
    assert titles(desk, "Net") == titles(desk, "f") == ["Benchmark"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_no_two_folders_are_measured_at_a_time(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other"
    path = str(other / "m.py")
    desk.state.folders[str(other)] = Folder(str(other), other.as_uri(), consent="run")
    desk.state.open(Document(Path(path).as_uri(), path, 1, SourceDocument(path, TEXT), runnable=True))
    desk.command(target="f")
    await desk.began()
    desk.command(target="f", uri=Path(path).as_uri())
    there = Key(path, "f", Tier.MEASURED)
    while there not in desk.analysis.runs.in_flight or len(desk.workers) < 2:
        desk.ui.moved.clear()
        await asyncio.wait_for(desk.ui.moved.wait(), 10)
    first, second = desk.workers
    first.answer = second.answer = found(desk)
    second.held.set()
    running = desk.analysis.runs.in_flight[there]
    while running.progress is None:
        desk.ui.moved.clear()
        await asyncio.wait_for(desk.ui.moved.wait(), 10)
    assert running.progress.detail == "waiting for another benchmark"
    assert (len(first.asked), len(second.asked)) == (1, 0)
    first.held.set()
    await desk.settle()
    assert len(second.asked) == 1
    assert desk.state.measured[desk.key].notes == (), "neither went on beside the other"
    assert desk.state.measured[there].notes == ()
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_what_waits_for_its_turn_can_be_cancelled(desk: Desk) -> None:
    async with desk.analysis.benches.turn:
        desk.command(target="f")
        while desk.key not in desk.analysis.runs.in_flight:
            desk.ui.moved.clear()
            await asyncio.wait_for(desk.ui.moved.wait(), 10)
        bench_commands.cancel(desk, ({"uri": desk.uri, "target": "f"},))  # type: ignore[arg-type]
        await desk.settle()
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    desk.command(target="f")
    await desk.settle()
    assert desk.state.measured[desk.key].has_data
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_what_is_asked_for_before_the_settings_are_known_is_measured_as_they_say(desk: Desk) -> None:
    desk.analysis.early = PendingUntilConfigured()
    answer = desk.command(target="f")
    assert (answer["started"], answer["target"]) == (True, "f")
    folder = desk.state.folder_of(desk.path)
    folder.settings = replace(
        Settings(), bench=BenchSettings(configurations=["max-autotune"], seconds=0.0, rounds=1)
    )
    desk.analysis.begin()
    await desk.began()
    (asked,) = desk.measuring.asked
    assert isinstance(asked, MeasureRequest)
    assert asked.plan.configurations == ("eager", "max-autotune")
    assert asked.plan.seconds > 0, "the setting may be 0, a benchmark may not"
    assert asked.plan.rounds == 2, "one has no spread"
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_page_says_that_the_user_is_asked_first(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, answers = asyncio.Event(), iter(["later", "run"])

    async def confirm(_question: object) -> str:
        await answered.wait()
        return next(answers)

    monkeypatch.setattr(desk.ui, "confirm", confirm)
    news = BenchNotifications()
    server: Any = desk
    desk.state.folder_of(desk.path).consent = "unknown"
    desk.command(target="f")
    news.update(server)
    assert desk.notified == ["f"]
    answered.set()
    while desk.state.folder_of(desk.path).consent == "unknown":
        desk.ui.moved.clear()
        await asyncio.wait_for(desk.ui.moved.wait(), 10)
    news.update(server)
    assert desk.notified == ["f", "f"]
    assert "Press Benchmark" in (await desk.page())["message"]
    answered.clear()
    desk.command(target="f")
    page = await desk.page()
    assert (page["running"], page["message"]) == (
        False, "Fuselight asks whether it may run this folder's code: answer the question to go on",
    )  # fmt: skip
    answered.set()
    await desk.began()
    assert (await desk.page())["message"].startswith("Benchmarking f")
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_page_is_told_of_lines_that_move_and_not_of_each_letter(desk: Desk) -> None:
    news = BenchNotifications()
    server: Any = desk
    await measured(desk, found(desk))
    news.update(server)
    desk.edit()
    news.update(server)
    told = len(desk.notified)
    document = desk.state.at(desk.path)
    assert document is not None
    for letter in "abc":
        change = document.source.edit((LINE + 1, 0), (LINE + 1, 0), letter)
        desk.analysis.outcomes.edited(desk.path, change)
        news.update(server)
    assert len(desk.notified) == told
    desk.edit()
    news.update(server)
    assert len(desk.notified) == told + 1
    page = await desk.page()
    assert page["profiles"]["default"]["lines"][0]["place"]["line"] == LINE + 1
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_file_that_goes_ends_its_benchmark_and_leaves_nothing(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    desk.analysis.gone(desk.path)
    await desk.settle()
    assert desk.state.measured == {}
    assert history_of(desk.path, "f").runs() == ()
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_file_of_another_that_changes_on_the_disk_is_told_on_the_lines(
    desk: Desk, tmp_path: Path
) -> None:
    helper = str(tmp_path / "helper.py")
    await measured(desk, replace(found(desk), files={helper: "0" * 32}))
    assert not desk.state.measured[desk.key].stale
    desk.ui.drawn.clear()
    desk.analysis.changed_on_disk(helper)
    assert desk.state.measured[desk.key].stale
    desk.analysis.outcomes.show_changes()
    assert desk.ui.drawn.is_set(), "lenses are asked for again"
    desk.ui.drawn.clear()
    desk.analysis.changed_on_disk(str(tmp_path / "other.py"))
    assert not desk.ui.drawn.is_set()
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_restart_of_the_workers_ends_a_benchmark_and_the_next_one_has_a_worker(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    worker = desk.measuring
    await desk.analysis.restart(None)
    await desk.settle()
    assert worker.closed
    desk.workers.clear()
    await measured(desk, found(desk))
    assert desk.state.measured[desk.key].is_stored
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_cancel_before_anything_is_shown_leaves_what_came_to_its_limit(desk: Desk) -> None:
    await measured(desk, found(desk, finished=False))
    before = desk.state.measured[desk.key]
    assert before.unfinished == ENDED_EARLY
    later = Job(desk.key, WorkerKey("/python", (), "/"), before.generation + 1, "command", lambda: None)
    await desk.analysis.benches.accept_part(later, None)
    assert desk.state.measured[desk.key] is before
    assert before.unfinished == ENDED_EARLY
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_times_that_were_shown_outlive_the_process_that_measured_them(desk: Desk) -> None:
    await measured(desk, found(desk, 300.0))
    desk.measuring.held.clear()
    desk.measuring.answer = None  # it ends without a result
    desk.measuring.partials = [found(desk, 50.0, day=2, finished=False)]
    desk.command(target="f")
    while not desk.state.measured[desk.key].unfinished:
        desk.ui.drawn.clear()
        await asyncio.wait_for(desk.ui.drawn.wait(), 10)
    desk.measuring.held.set()
    await desk.settle()
    kept = desk.state.measured[desk.key]
    assert benchmark_summary(kept).endswith(", failed (partial: ended early)")
    page = await desk.page()
    assert page["configurations"][1]["us"] == 50.0
    assert {"partial: ended early", "it ended. Mend it"} <= set(page["notes"])
    assert page["run"] is None, "what is not whole is not kept"
    await desk.analysis.close()
