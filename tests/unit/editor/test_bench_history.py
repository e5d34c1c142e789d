"""The history of a target on the page: it moves with its file, offers renamed targets, and can remove a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.codec import encode
from fuselight_server.editor.handlers import bench, files
from fuselight_server.editor.handlers.bench import forget as forget_bench
from fuselight_server.editor.messages.params import MeasuredParams
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.planning import history_of
from tests.support.benchmark_session import TEXT, BenchmarkSession, benchmark_report, measured

FIRST, SECOND = "20260101T120000Z", "20260102T120000Z"


@pytest.fixture
def session(tmp_path: Path) -> BenchmarkSession:
    return BenchmarkSession(tmp_path)


def renamed(session: BenchmarkSession, name: str) -> tuple[Path, Path]:
    """Rename the file, as the editor does before it notifies the server."""
    old, new = Path(session.path), Path(session.path).with_name(name)
    old.rename(new)
    return old, new


@pytest.mark.asyncio
async def test_a_renamed_file_keeps_its_benchmarks_and_notifies(
    session: BenchmarkSession,
) -> None:
    await measured(session, benchmark_report(session))
    assert session.state.close(session.uri) is not None
    old, new = renamed(session, "renamed.py")
    tasks: list[Any] = []
    server: Any = SimpleNamespace(
        **vars(session), uri_of=session.uri_of, spawn=lambda work, _what: tasks.append(work)
    )
    files.renamed(server, types.RenameFilesParams([types.FileRename(old.as_uri(), new.as_uri())]))
    assert session.state.measured == {}
    await asyncio.gather(*tasks)
    assert session.notified == ["f"]
    session.path, session.uri = str(new), new.as_uri()
    page = await session.page()
    assert (page["found"], page["run"], page["stale"]) == (True, FIRST, False)
    assert page["profiles"]["default"]["lines"][0]["place"]["uri"] == new.as_uri()
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_renamed_target_is_compared_with_its_old_runs(session: BenchmarkSession) -> None:
    await measured(session, benchmark_report(session))
    document = session.state.documents.at(session.path)
    assert document is not None
    document.source.become(TEXT.replace("f(", "g("))
    session.state.drop(session.state.measured)
    after = replace(
        benchmark_report(session, 50.0, day=2), target=replace(benchmark_report(session).target, name="g")
    )
    run = run_of(after, str(Path(session.path).parent), lambda _path, _line: "    return x + 1")
    assert run is not None
    assert history_of(session.path, "g").keep_run(run) is not None

    async def page(**named: str) -> dict[str, Any]:
        params = MeasuredParams(session.uri, "g", **named)
        shown: dict[str, Any] = encode(await bench.measured(session, params))  # type: ignore[arg-type]
        return shown

    own, gone = (await page())["history"]
    assert own["id"] == SECOND
    assert gone["label"].startswith("f, which is not in this file any more: ")
    compared = (await page(with_=gone["id"]))["comparison"]
    assert "target: f then, g now" in compared["differs"]
    assert [line["change"] for line in compared["lines"]] == [pytest.approx(-0.5)]
    shown = await page(run=gone["id"])
    assert (shown["found"], shown["run"], shown["title"]) == (True, gone["id"], "f")
    await session.analysis.close()


@pytest.mark.asyncio
async def test_a_removed_run_disappears_from_the_page_and_the_lines(
    session: BenchmarkSession,
) -> None:
    await measured(session, benchmark_report(session), benchmark_report(session, 50.0, day=2))

    def forget(**named: Any) -> bool:
        return forget_bench(session, {"uri": session.uri, "target": "f", **named})  # type: ignore[arg-type]

    for other in (
        {},
        {"run": "none"},
        {"run": SECOND, "target": "Net"},
        {"run": SECOND, "uri": "untitled:x"},
    ):
        assert not forget(**other)
    assert [value["id"] for value in (await session.page())["history"]] == [SECOND, FIRST]
    session.ui.drawn.clear()
    assert forget(run=SECOND)
    session.analysis.notices.show_changes()
    assert session.ui.drawn.is_set()
    assert session.state.measured == {}
    page = await session.page()
    assert (page["run"], page["configurations"][1]["us"]) == (FIRST, 100.0)
    await measured(session, benchmark_report(session, 40.0, day=3))
    assert forget(run=FIRST)
    assert (await session.page())["configurations"][1]["us"] == 40.0, (
        "what stands on the lines is another one"
    )
    session.state.trusted = False
    assert not forget(run="20260103T120000Z")
    await session.analysis.close()
