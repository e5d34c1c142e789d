"""The history of a target on the page: it goes along with its file, offers what was renamed, and lets go of a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight_server.features import files
from fuselight_server.features.bench import page as bench_page
from fuselight_server.features.bench.commands import forget as forget_bench
from fuselight_server.features.protocol import MeasuredParams
from fuselight_server.measured.history import run_of
from fuselight_server.measured.planning import history_of
from tests.support.bench_desk import TEXT, Desk, found, measured

FIRST, SECOND = "20260101T120000Z", "20260102T120000Z"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def renamed(desk: Desk, name: str) -> tuple[Path, Path]:
    """Give the file another name, as the editor does before it tells of it."""
    old, new = Path(desk.path), Path(desk.path).with_name(name)
    old.rename(new)
    return old, new


@pytest.mark.asyncio
async def test_a_renamed_file_keeps_its_benchmarks_and_says_when_they_are_there(desk: Desk) -> None:
    await measured(desk, found(desk))
    assert desk.state.close(desk.uri) is not None
    old, new = renamed(desk, "renamed.py")
    tasks: list[Any] = []
    server: Any = SimpleNamespace(
        **vars(desk), uri_of=desk.uri_of, spawn=lambda work, _what: tasks.append(work)
    )
    files.renamed(server, types.RenameFilesParams([types.FileRename(old.as_uri(), new.as_uri())]))
    assert desk.state.measured == {}
    await asyncio.gather(*tasks)
    assert desk.notified == ["f"]
    desk.path, desk.uri = str(new), new.as_uri()
    page = await desk.page()
    assert (page["found"], page["run"], page["stale"]) == (True, FIRST, False)
    assert page["profiles"]["default"]["lines"][0]["place"]["uri"] == new.as_uri()
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_target_that_was_renamed_is_compared_with_what_it_was(desk: Desk) -> None:
    await measured(desk, found(desk))
    document = desk.state.at(desk.path)
    assert document is not None
    document.source.replace(TEXT.replace("f(", "g("))
    desk.state.drop(desk.state.measured)
    after = replace(found(desk, 50.0, day=2), target=replace(found(desk).target, name="g"))
    run = run_of(after, str(Path(desk.path).parent), lambda _path, _line: "    return x + 1")
    assert run is not None
    assert history_of(desk.path, "g").keep(run) is not None

    async def page(**named: str) -> dict[str, Any]:
        return await bench_page.measured(desk, MeasuredParams(desk.uri, "g", **named))  # type: ignore[arg-type]

    own, gone = (await page())["history"]
    assert own["id"] == SECOND
    assert gone["label"].startswith("f, which is not in this file any more: ")
    compared = (await page(with_=gone["id"]))["comparison"]
    assert "target: f then, g now" in compared["differs"]
    assert [one["change"] for one in compared["lines"]] == [pytest.approx(-0.5)]
    shown = await page(run=gone["id"])
    assert (shown["found"], shown["run"], shown["title"]) == (True, gone["id"], "f")
    await desk.analysis.close()


@pytest.mark.asyncio
async def test_a_run_that_is_removed_is_gone_from_the_page_and_from_the_lines(desk: Desk) -> None:
    await measured(desk, found(desk), found(desk, 50.0, day=2))

    def forget(**named: Any) -> bool:
        return forget_bench(desk, ({"uri": desk.uri, "target": "f", **named},))  # type: ignore[arg-type]

    for other in (
        {},
        {"run": "none"},
        {"run": SECOND, "target": "Net"},
        {"run": SECOND, "uri": "untitled:x"},
    ):
        assert not forget(**other)
    assert [one["id"] for one in (await desk.page())["history"]] == [SECOND, FIRST]
    desk.ui.drawn.clear()
    assert forget(run=SECOND)
    desk.analysis.outcomes.show_changes()
    assert desk.ui.drawn.is_set()
    assert desk.state.measured == {}
    page = await desk.page()
    assert (page["run"], page["configurations"][1]["us"]) == (FIRST, 100.0)
    await measured(desk, found(desk, 40.0, day=3))
    assert forget(run=FIRST)
    assert (await desk.page())["configurations"][1]["us"] == 40.0, "what stands on the lines is another one"
    desk.state.trusted = False
    assert not forget(run="20260103T120000Z")
    await desk.analysis.close()
