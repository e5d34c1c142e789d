"""The page of a benchmark as the editor requests it: the named run, as measured, built off the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.report import CompileStep, GapKind, data_key
from fuselight_server.editor.handlers import bench
from fuselight_server.editor.handlers.commands import clear_caches
from fuselight_server.editor.handlers.protocol import written_page
from fuselight_server.editor.handlers.status import TimedRunNotifications
from fuselight_server.editor.messages.params import MeasuredExportParams, MeasuredParams
from fuselight_server.editor.results.shown_findings import findings_of
from fuselight_server.editor.session.state import Folder
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.page import View, body, places_of
from fuselight_server.explain.benchmarks.planning import history_of
from tests.support.benchmark_session import LINE, TEXT, BenchmarkSession, benchmark_report, measured
from tests.support.measured import benchmark, gap, graph, kernel, profile, ran, row, wrong
from tests.support.reports import FILE, at

FIRST, SECOND = "20260101T120000Z", "20260102T120000Z"


@pytest.fixture
def session(tmp_path: Path) -> BenchmarkSession:
    return BenchmarkSession(tmp_path)


def write(session: BenchmarkSession, text: str | bytes) -> None:
    Path(session.path).write_bytes(text if isinstance(text, bytes) else text.encode())


async def exported(
    session: BenchmarkSession, ending: str, run: str | None = None, with_: str | None = None
) -> Any:
    params = MeasuredExportParams(session.uri, "f", run, with_, format=ending)
    return (await bench.export(session, params))["text"]  # type: ignore[arg-type]  # the parts of a server that it reads


@pytest.mark.asyncio
async def test_a_page_names_its_run_if_the_terminal_added_a_newer_one(session: BenchmarkSession) -> None:
    await measured(session, benchmark_report(session))
    assert (await session.page())["run"] == FIRST
    newer = run_of(
        benchmark_report(session, 50.0, day=2),
        str(Path(session.path).parent),
        lambda _path, _line: "return x + 1",
    )
    assert newer is not None
    assert history_of(session.path, "f").keep_run(newer) is not None
    page = await session.page()
    assert (page["run"], page["when"]) == (FIRST, "2026-01-01T12:00:00Z"), "what stands on the lines"
    page = await session.page(run=SECOND)
    assert (page["run"], page["configurations"][1]["us"]) == (SECOND, 50.0)
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_run_that_was_not_saved_is_not_the_saved_run(
    session: BenchmarkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await measured(session, benchmark_report(session))
    folder = history_of(session.path, "f").folder
    monkeypatch.setattr("fuselight_server.explain.benchmarks.history.write_whole", _full)
    await measured(session, benchmark_report(session, 50.0, day=2))
    page = await session.page()
    assert (page["run"], page["configurations"][1]["us"]) == (None, 50.0)
    page = await session.page(run=FIRST)
    assert (page["run"], page["configurations"][1]["us"]) == (FIRST, 100.0)
    assert any(
        f"benchmarks cannot be kept in {folder}: disk full" in line for line in session.state.log_lines
    )
    await session.analysis.close()


def _full(_path: Path, _data: bytes) -> None:
    raise OSError(28, "disk full")


@pytest.mark.asyncio
async def test_a_result_keeps_the_lines_that_ran_after_a_save_during_the_run(
    session: BenchmarkSession,
) -> None:
    session.command(target="f")
    await session.began()
    document = session.state.documents.at(session.path)
    assert document is not None
    change = document.source.edit((LINE, 0), (LINE, 16), "    return x - 1")
    session.analysis.edits.edited(session.path, change)
    write(session, document.source.text)
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    await session.settle()
    run = history_of(session.path, "f").newest()
    assert run is not None
    assert run.line(session.path, LINE) == "    return x + 1"
    data = json.loads(await exported(session, "json"))
    assert data["run"]["lines"][session.path][str(LINE)] == "    return x + 1", "the code that was measured"
    assert data["page"]["stale"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_file_that_changed_since_gives_no_lines(session: BenchmarkSession) -> None:
    assert session.state.close(session.uri) is not None
    session.command(target="f")
    await session.began()
    write(session, TEXT.replace("x + 1", "x - 1"))
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    await session.settle()
    run = history_of(session.path, "f").newest()
    assert run is not None
    assert run.line(session.path, LINE) is None
    await session.analysis.close()


@pytest.mark.asyncio
async def test_other_runs_during_a_benchmark_are_reported_after_a_restart(
    session: BenchmarkSession, tmp_path: Path
) -> None:
    session.command(target="f")
    await session.began()
    session.analysis.requests.command(session.path, "f")
    while not session.state.results:
        session.ui.drawn.clear()
        await asyncio.wait_for(session.ui.drawn.wait(), 10)
    session.measuring.answer = benchmark_report(session)
    session.measuring.held.set()
    await session.settle()
    note = "another run was active (f): timings may be inflated"
    assert (await session.page())["notes"].count(note) == 1
    again = BenchmarkSession(tmp_path)
    assert (await again.page())["notes"].count(note) == 1
    await session.analysis.close()
    await again.analysis.close()


@pytest.mark.asyncio
async def test_a_failed_benchmark_does_not_mark_the_previous_one_as_edited(session: BenchmarkSession) -> None:
    await measured(session, benchmark_report(session))
    session.measuring.answer = None
    session.command(target="f")
    await session.settle()
    assert not (await session.page())["stale"]
    session.edit()
    assert (await session.page())["stale"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_byte_order_mark_is_not_an_edit(session: BenchmarkSession) -> None:
    data = b"\xef\xbb\xbf" + TEXT.encode()
    write(session, data)
    ran_as = replace(benchmark_report(session), files={session.path: data_key(data)})
    await measured(session, ran_as)
    session.state.drop(session.state.measured)
    assert not (await session.page())["stale"], "open in the editor, which leaves the mark out"
    assert session.state.close(session.uri) is not None
    assert not (await session.page())["stale"]
    write(session, data + b"\n")
    assert (await session.page())["stale"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_unchanged_file_in_another_encoding_is_current(
    session: BenchmarkSession,
) -> None:
    data = b"# -*- coding: latin-1 -*- \xe9\n"
    helper = Path(session.path).with_name("helper.py")
    helper.write_bytes(data)
    await measured(session, replace(benchmark_report(session), files={str(helper): data_key(data)}))
    session.state.drop(session.state.measured)
    assert not (await session.page())["stale"]
    helper.write_bytes(data + b"\n")
    assert (await session.page())["stale"]
    await session.analysis.close()


@pytest.mark.asyncio
async def test_an_export_has_the_comparison_that_is_shown(session: BenchmarkSession) -> None:
    await measured(session, benchmark_report(session), benchmark_report(session, 112.0, day=2))
    for ending in ("json", "csv"):
        assert "comparison" in await exported(session, ending, with_=FIRST)
    data = json.loads(await exported(session, "json", with_=FIRST))
    assert data["page"]["comparison"]["id"] == FIRST
    assert data["page"]["comparison"]["differs"] == []
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_page_is_built_off_the_event_loop_and_once_without_moved_lines(
    session: BenchmarkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return body(*arguments)

    monkeypatch.setattr(bench, "body", noted)
    await measured(session, benchmark_report(session))
    first, second = await session.page(), await session.page()
    assert first == second
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    session.edit()
    moved = await session.page()
    assert moved["profiles"]["default"]["lines"][0]["place"]["line"] == LINE
    assert len(threads) == 2
    answer = await bench.answer(session, MeasuredParams(session.uri, "f"))  # type: ignore[arg-type]
    assert json.loads(answer.text) == moved
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_folder_without_an_interpreter_is_reported_immediately(session: BenchmarkSession) -> None:
    session.analysis.workers.find_interpreter = lambda _folder: None
    answer = session.command(target="f")
    assert not answer["started"]
    assert answer["message"] == "No Python interpreter was found to run it: select one that has torch."
    await session.analysis.close()


def test_every_line_that_a_page_names_is_known_before_it_is_made() -> None:
    asked = set()

    def now(place: Any) -> Any:
        asked.add(place)
        return place

    shown = profile([ran(0, 30.0), ran(None, 10.0, line=12)], [gap(GapKind.SYNC, 20.0, 14, "aten::item")])
    steps = (CompileStep("inductor_compile", 0.0, 1.0, 0, location=at(31)),)
    report = benchmark(
        row("eager", 100.0),
        row("default", 300.0, generated=(graph(kernel(3, 4)),), profile=shown, graph_breaks=1,
            accuracy=wrong(first=(at(21),)), compile_steps=steps),
    )  # fmt: skip
    body(report, View(uri_of=str, read_line=lambda _path, _line: "", now=now))
    assert {place.line for place in asked} >= {3, 4, 12, 14, 21, 31}
    assert asked <= set(places_of(report))
    assert all(place.path == FILE for place in asked)


def test_a_value_that_is_not_a_number_is_unknown() -> None:
    wild = profile([ran(0, 30.0, isolated_us=float("inf")), ran(None, float("nan"), line=12)])
    report = benchmark(row("eager", 100.0), row("default", 50.0, generated=(graph(kernel(3)),), profile=wild))
    shown = body(report, View(uri_of=str, read_line=lambda _path, _line: ""))
    assert shown is not None
    kernels = shown.profiles["default"].kernels
    assert {(kernel_row.us, kernel_row.isolated_us) for kernel_row in kernels} == {(30.0, None), (None, None)}
    assert json.loads(written_page(shown)) == encode(shown)
    assert "NaN" not in written_page(shown)


@pytest.mark.asyncio
async def test_clearing_caches_clears_the_history_of_nested_projects(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    await measured(benchmark_session := BenchmarkSession(project), benchmark_report(benchmark_session))
    await benchmark_session.analysis.close()
    again = BenchmarkSession(project)
    again.state.folders = {str(tmp_path): Folder(str(tmp_path), tmp_path.as_uri(), consent="run")}
    assert (await again.page())["run"] == FIRST
    clear_caches(again, {})  # type: ignore[arg-type]
    assert not (await again.page())["found"]
    await again.analysis.close()


@pytest.mark.asyncio
async def test_benchmark_results_are_stale_after_an_edit_of_any_line_that_ran(
    session: BenchmarkSession,
) -> None:
    slow = benchmark_report(session, 900.0)
    await measured(session, slow)
    server: Any = session
    assert [
        (finding.code, edited) for finding, edited in findings_of(session.state.view(), session.path)
    ] == [("FL802", False)]
    document = session.state.documents.at(session.path)
    assert document is not None
    session.analysis.edits.edited(session.path, document.source.edit((LINE, 11), (LINE, 16), "x"))
    assert [
        (finding.code, edited) for finding, edited in findings_of(session.state.view(), session.path)
    ] == [("FL802", True)]
    news = TimedRunNotifications()
    assert session.path in news.update(server)
    assert news.update(server) == frozenset()
    await session.analysis.close()
