"""The page of a benchmark as the editor asks for it: the run that it names, as measured, made off the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.report import CompileStep, GapKind, data_key
from fuselight_server.features.bench import page
from fuselight_server.features.bench.notifications import BenchNotifications
from fuselight_server.features.commands import clear_caches
from fuselight_server.features.diagnostics import findings_of
from fuselight_server.features.protocol import MeasuredExportParams, MeasuredParams, written
from fuselight_server.measured.history import run_of
from fuselight_server.measured.page import View, body, places_of
from fuselight_server.measured.planning import history_of
from fuselight_server.session.state import Folder
from tests.support.bench_desk import LINE, TEXT, Desk, found, measured
from tests.support.measured import benchmark, gap, graph, kernel, profile, ran, row, wrong
from tests.support.reports import FILE, at

FIRST, SECOND = "20260101T120000Z", "20260102T120000Z"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def write(desk: Desk, text: str | bytes) -> None:
    Path(desk.path).write_bytes(text if isinstance(text, bytes) else text.encode())


async def exported(desk: Desk, ending: str, run: str | None = None, with_: str | None = None) -> Any:
    params = MeasuredExportParams(desk.uri, "f", ending, run, with_)
    return (await page.export(desk, params))["text"]  # type: ignore[arg-type]  # the parts of a server that it reads


@pytest.mark.asyncio
async def test_a_page_says_which_run_it_shows_where_the_terminal_has_made_a_newer_one(desk: Desk) -> None:
    await measured(desk, found(desk))
    assert (await desk.page())["run"] == FIRST
    newer = run_of(found(desk, 50.0, day=2), str(Path(desk.path).parent), lambda _path, _line: "return x + 1")
    assert newer is not None
    assert history_of(desk.path, "f").keep(newer) is not None
    page = await desk.page()
    assert (page["run"], page["when"]) == (FIRST, "2026-01-01T12:00:00Z"), "what stands on the lines"
    page = await desk.page(run=SECOND)
    assert (page["run"], page["configurations"][1]["us"]) == (SECOND, 50.0)
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_what_could_not_be_kept_is_not_taken_for_the_run_that_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await measured(desk, found(desk))
    folder = history_of(desk.path, "f").folder
    monkeypatch.setattr("fuselight_server.measured.history.write_whole", _full)
    await measured(desk, found(desk, 50.0, day=2))
    page = await desk.page()
    assert (page["run"], page["configurations"][1]["us"]) == (None, 50.0)
    page = await desk.page(run=FIRST)
    assert (page["run"], page["configurations"][1]["us"]) == (FIRST, 100.0)
    assert any(f"benchmarks cannot be kept in {folder}: disk full" in line for line in desk.state.log_lines)
    await desk.analysis.close()


def _full(_path: Path, _data: bytes) -> None:
    raise OSError(28, "disk full")


@pytest.mark.asyncio
async def test_lines_are_kept_as_they_ran_though_the_file_was_saved_with_others_meanwhile(desk: Desk) -> None:
    desk.command(target="f")
    await desk.began()
    document = desk.state.at(desk.path)
    assert document is not None
    change = document.source.edit((LINE, 0), (LINE, 16), "    return x - 1")
    desk.analysis.outcomes.edited(desk.path, change)
    write(desk, document.source.text)
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    await desk.settle()
    run = history_of(desk.path, "f").newest()
    assert run is not None
    assert run.line(desk.path, LINE) == "    return x + 1"
    data = json.loads(await exported(desk, "json"))
    assert data["run"]["lines"][desk.path][str(LINE)] == "    return x + 1", "the code that was measured"
    assert data["page"]["stale"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_file_that_is_another_one_by_then_gives_no_lines(desk: Desk) -> None:
    assert desk.state.close(desk.uri) is not None
    desk.command(target="f")
    await desk.began()
    write(desk, TEXT.replace("x + 1", "x - 1"))
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    await desk.settle()
    run = history_of(desk.path, "f").newest()
    assert run is not None
    assert run.line(desk.path, LINE) is None
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_what_went_on_beside_a_benchmark_is_still_told_after_a_restart(
    desk: Desk, tmp_path: Path
) -> None:
    desk.command(target="f")
    await desk.began()
    desk.analysis.command(desk.path, "f")
    while not desk.state.results:
        desk.ui.drawn.clear()
        await asyncio.wait_for(desk.ui.drawn.wait(), 10)
    desk.measuring.answer = found(desk)
    desk.measuring.held.set()
    await desk.settle()
    note = "another run was active (f): timings may be inflated"
    assert (await desk.page())["notes"].count(note) == 1
    again = Desk(tmp_path)
    assert (await again.page())["notes"].count(note) == 1
    await desk.analysis.close()
    await again.analysis.close()


@pytest.mark.asyncio
async def test_a_benchmark_that_fails_makes_no_edit_of_the_one_before(desk: Desk) -> None:
    await measured(desk, found(desk))
    desk.measuring.answer = None
    desk.command(target="f")
    await desk.settle()
    assert not (await desk.page())["stale"]
    desk.edit()
    assert (await desk.page())["stale"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_mark_of_the_encoding_is_no_edit(desk: Desk) -> None:
    data = b"\xef\xbb\xbf" + TEXT.encode()
    write(desk, data)
    ran_as = replace(found(desk), files={desk.path: data_key(data)})
    await measured(desk, ran_as)
    desk.state.drop(desk.state.measured)
    assert not (await desk.page())["stale"], "open in the editor, which leaves the mark out"
    assert desk.state.close(desk.uri) is not None
    assert not (await desk.page())["stale"]
    write(desk, data + b"\n")
    assert (await desk.page())["stale"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_file_in_another_encoding_is_what_ran_as_long_as_it_is_not_changed(desk: Desk) -> None:
    data = b"# -*- coding: latin-1 -*- \xe9\n"
    helper = Path(desk.path).with_name("helper.py")
    helper.write_bytes(data)
    await measured(desk, replace(found(desk), files={str(helper): data_key(data)}))
    desk.state.drop(desk.state.measured)
    assert not (await desk.page())["stale"]
    helper.write_bytes(data + b"\n")
    assert (await desk.page())["stale"]
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_an_export_has_the_comparison_that_is_shown(desk: Desk) -> None:
    await measured(desk, found(desk), found(desk, 112.0, day=2))
    for ending in ("json", "csv"):
        assert "comparison" in await exported(desk, ending, with_=FIRST)
    data = json.loads(await exported(desk, "json", with_=FIRST))
    assert data["page"]["comparison"]["id"] == FIRST
    assert data["page"]["comparison"]["differs"] == []
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_page_is_made_off_the_event_loop_and_once_where_no_line_has_moved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[threading.Thread] = []

    def noted(*arguments: Any) -> Any:
        made.append(threading.current_thread())
        return body(*arguments)

    monkeypatch.setattr(page, "body", noted)
    await measured(desk, found(desk))
    first, second = await desk.page(), await desk.page()
    assert first == second
    assert len(made) == 1
    assert made[0] is not threading.main_thread()
    desk.edit()
    moved = await desk.page()
    assert moved["profiles"]["default"]["lines"][0]["place"]["line"] == LINE
    assert len(made) == 2
    answer = await page.answer(desk, MeasuredParams(desk.uri, "f"))  # type: ignore[arg-type]
    assert json.loads(answer.text) == moved
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_folder_without_an_interpreter_says_so_at_once(desk: Desk) -> None:
    desk.analysis._find_interpreter = lambda _folder: None
    answer = desk.command(target="f")
    assert not answer["started"]
    assert answer["message"] == "No Python interpreter was found to run it: select one that has torch."
    await desk.analysis.close()


def test_every_line_that_a_page_names_is_known_before_it_is_made() -> None:
    asked = set()

    def now(place: Any) -> Any:
        asked.add(place)
        return place

    shown = profile([ran(0, 30.0), ran(None, 10.0, line=12)], [gap(GapKind.SYNC, 20.0, 14, "aten::item")])
    steps = (CompileStep("inductor_compile", 0.0, 1.0, 0, location=at(31)),)
    made = benchmark(
        row("eager", 100.0),
        row("default", 300.0, generated=(graph(kernel(3, 4)),), profile=shown, graph_breaks=1,
            accuracy=wrong(first=(at(21),)), compile_steps=steps),
    )  # fmt: skip
    body(made, View(uri_of=str, read_line=lambda _path, _line: "", now=now))
    assert {place.line for place in asked} >= {3, 4, 12, 14, 21, 31}
    assert asked <= set(places_of(made))
    assert all(place.path == FILE for place in asked)


def test_what_is_no_number_is_not_known() -> None:
    wild = profile([ran(0, 30.0, isolated_us=float("inf")), ran(None, float("nan"), line=12)])
    made = benchmark(row("eager", 100.0), row("default", 50.0, generated=(graph(kernel(3)),), profile=wild))
    shown = body(made, View(uri_of=str, read_line=lambda _path, _line: ""))
    assert shown is not None
    kernels = shown["profiles"]["default"]["kernels"]
    assert {(one["us"], one["isolated_us"]) for one in kernels} == {(30.0, None), (None, None)}
    assert json.loads(written(shown)) == shown
    assert "NaN" not in written(shown)


@pytest.mark.asyncio
async def test_caches_that_are_cleared_take_the_history_of_a_project_within_the_folder(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    await measured(one := Desk(project), found(one))
    await one.analysis.close()
    again = Desk(project)
    again.state.folders = {str(tmp_path): Folder(str(tmp_path), tmp_path.as_uri(), consent="run")}
    assert (await again.page())["run"] == FIRST
    clear_caches(again, ())  # type: ignore[arg-type]
    assert not (await again.page())["found"]
    await again.analysis.close()


@pytest.mark.asyncio
async def test_what_a_benchmark_found_is_from_before_an_edit_of_any_line_that_ran(desk: Desk) -> None:
    slow = found(desk, 900.0)
    await measured(desk, slow)
    server: Any = desk
    assert [(one.code, edited) for one, edited in findings_of(server, desk.path)] == [("FL802", False)]
    document = desk.state.at(desk.path)
    assert document is not None
    desk.analysis.outcomes.edited(desk.path, document.source.edit((LINE, 11), (LINE, 16), "x"))
    assert [(one.code, edited) for one, edited in findings_of(server, desk.path)] == [("FL802", True)]
    news = BenchNotifications()
    assert news.update(server) == {desk.path}
    assert news.update(server) == frozenset()
    await desk.analysis.close()
