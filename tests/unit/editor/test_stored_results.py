"""A new session shows the last results of each target whose sources are unchanged, and runs nothing for it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight_server.base.store import Store
from fuselight_server.editor.handlers import commands, sync
from fuselight_server.editor.results.lens_facts import benchmark_info
from fuselight_server.editor.results.target_lens import result_facts, summary
from fuselight_server.execution.runs import stored_reports
from tests.support.benchmark_session import LINE, BenchmarkSession, benchmark_report, measured
from tests.support.simulation import Workspace

TRAIN = """\
import torch
from helper import scale

# fuselight: f(f32[4])
@torch.compile
def f(x):
    print(x)
    return scale(x)
"""
HELPER = "def scale(x):\n    print(x)\n    return x\n"


async def ran(folder: Path) -> Workspace:
    """End a session in which `f` of `train.py` has run."""
    (folder / "pyproject.toml").touch()
    (folder / "train.py").write_text(TRAIN)
    (folder / "helper.py").write_text(HELPER)
    before = Workspace(folder)
    before.run("train.py", "f")
    await before.settle()
    await before.analysis.close()
    return before


async def reloaded(folder: Path) -> Workspace:
    workspace = Workspace(folder)
    await workspace.analysis.stored.show(Store.at(folder))
    return workspace


def breaks(workspace: Workspace) -> list[tuple[str, int, bool]]:
    return [
        (name, line, edited)
        for name in ("train.py", "helper.py")
        for code, line, _, edited in workspace.problems(name)
        if code.startswith("GB")
    ]


FOUND = [("train.py", 7, False), ("helper.py", 2, False)]


@pytest.mark.asyncio
async def test_stored_findings_appear_without_a_run_with_their_time(tmp_path: Path) -> None:
    before = await ran(tmp_path)
    after = await reloaded(tmp_path)
    assert breaks(after) == breaks(before) == FOUND
    assert after.worker.ran == []
    (result,) = after.state.captures.values()
    assert summary(result).endswith(f" (from {time.strftime('%Y-%m-%d %H:')}{summary(result)[-3:]}")
    assert next(result_facts(result)).state.startswith("from ")
    after.run("train.py", "f")
    await after.settle()
    (result,) = after.state.captures.values()
    assert (breaks(after), result.restored, next(result_facts(result)).state) == (FOUND, "", "")
    await after.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["train.py", "helper.py"])
async def test_no_lines_are_marked_for_another_text(tmp_path: Path, name: str) -> None:
    await ran(tmp_path)
    path = tmp_path / name
    text = path.read_text()
    path.write_text(text + "\n")
    assert breaks(await reloaded(tmp_path)) == []
    path.write_text(text)
    assert breaks(await reloaded(tmp_path)) == FOUND
    path.unlink()
    assert (await reloaded(tmp_path)).targets() == []


@pytest.mark.asyncio
@pytest.mark.parametrize("opened_first", [True, False])
async def test_restored_unsaved_text_moves_lines(tmp_path: Path, *, opened_first: bool) -> None:
    await ran(tmp_path)
    after = Workspace(tmp_path)
    server: Any = SimpleNamespace(state=after.state, analysis=after.analysis)
    item = types.TextDocumentItem((tmp_path / "helper.py").as_uri(), "python", 1, "# unsaved\n" + HELPER)
    if opened_first:
        sync.opened(server, types.DidOpenTextDocumentParams(item))
    await after.analysis.stored.show(Store.at(tmp_path))
    if not opened_first:
        sync.opened(server, types.DidOpenTextDocumentParams(item))
    await after.analysis.tasks.wait()
    assert breaks(after) == [("train.py", 7, False), ("helper.py", 3, False)]
    (result,) = after.state.captures.values()
    assert result.stale
    assert next(result_facts(result)).state == "before your edit"


@pytest.mark.asyncio
async def test_opening_a_file_of_another_project_loads_its_results(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    await ran(project)
    after = Workspace(tmp_path)
    await after.analysis.stored.show(Store.at(tmp_path))
    assert after.targets() == []
    await after.analysis.stored.show_for(str(project / "train.py"))
    assert [key.name for key in after.targets()] == ["f"]


@pytest.mark.asyncio
async def test_results_of_files_outside_of_the_workspace_are_not_shown(tmp_path: Path) -> None:
    """The folder `.fuselight` of a project around the workspace has them, too."""
    await ran(tmp_path)
    inner = tmp_path / "copies"
    inner.mkdir()
    (inner / "train.py").write_text(TRAIN)
    after = Workspace(inner)
    await after.analysis.stored.show_for(str(inner / "train.py"))
    assert after.targets() == []


@pytest.mark.asyncio
@pytest.mark.parametrize("is_project", [True, False])
async def test_results_of_subfolders_are_kept_in_the_workspace_folder(
    tmp_path: Path, *, is_project: bool
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    if is_project:
        (folder / "pyproject.toml").touch()
    for name, text in (("train.py", TRAIN), ("helper.py", HELPER)):
        (folder / name).write_text(text)
    before = Workspace(tmp_path)
    before.run("models/train.py", "f")
    await before.settle()
    await before.analysis.close()
    assert not (folder / ".fuselight").exists()
    assert [key.path for key in (await reloaded(tmp_path)).targets()] == [str(folder / "train.py")]


@pytest.mark.asyncio
async def test_a_folder_that_is_not_trusted_shows_nothing_until_it_is(tmp_path: Path) -> None:
    await ran(tmp_path)
    after = Workspace(tmp_path)
    after.state.trusted = False
    await after.analysis.stored.show(Store.at(tmp_path))
    assert after.targets() == []
    after.state.trusted = True
    await after.analysis.stored.show(Store.at(tmp_path))
    assert breaks(after) == FOUND


@pytest.mark.asyncio
async def test_a_result_of_this_session_is_not_replaced(tmp_path: Path) -> None:
    await ran(tmp_path)
    after = Workspace(tmp_path)
    after.run("train.py", "f")
    await after.settle()
    (mine,) = after.state.results.values()
    await after.analysis.stored.show(Store.at(tmp_path))
    assert list(after.state.results.values()) == [mine]
    await after.analysis.close()


@pytest.mark.asyncio
async def test_number_and_age_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await ran(tmp_path)
    (first,) = stored_reports.stored_captures(Store.at(tmp_path)).files()
    os.utime(first, (time.time() - 31 * 24 * 3600,) * 2)
    assert breaks(await reloaded(tmp_path)) == []
    monkeypatch.setattr(stored_reports, "_MAX", 2)
    for number in range(4):
        (tmp_path / f"m{number}.py").write_text(TRAIN)
        before.run(f"m{number}.py", "f")
        await before.settle()
    assert len(list(first.parent.iterdir())) == 2
    assert [Path(key.path).name for key in (await reloaded(tmp_path)).targets()] == ["m2.py", "m3.py"]
    await before.analysis.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("damage", ["garbage", "another target", "a link"])
async def test_a_damaged_file_counts_as_missing(tmp_path: Path, damage: str) -> None:
    await ran(tmp_path)
    (kept,) = stored_reports.stored_captures(Store.at(tmp_path)).files()
    if damage == "garbage":
        kept.write_bytes(b"\x1f\x8bnothing")
    elif damage == "another target":
        kept.rename(kept.with_name("0.json.gz"))
    else:
        kept.rename(tmp_path / "elsewhere.json.gz")
        kept.symlink_to(tmp_path / "elsewhere.json.gz")
    assert (await reloaded(tmp_path)).targets() == []


@pytest.mark.asyncio
async def test_clear_caches_forgets_them(tmp_path: Path) -> None:
    await ran(tmp_path)
    after = await reloaded(tmp_path)
    commands.clear_caches(SimpleNamespace(state=after.state, analysis=after.analysis, ui=after.ui), {})  # type: ignore[arg-type]
    assert after.targets() == []
    assert not (tmp_path / ".fuselight").exists()
    assert (await reloaded(tmp_path)).targets() == []


@pytest.mark.asyncio
async def test_stored_measured_times_return_to_their_lines(tmp_path: Path) -> None:
    before = BenchmarkSession(tmp_path)
    await measured(before, benchmark_report(before))
    await before.analysis.close()
    after = BenchmarkSession(tmp_path)
    await after.analysis.stored.show(Store.at(tmp_path))
    rows = [(row.place.line, row.us) for row in after.state.measured[after.key].rows(after.path)]
    assert rows == [(row.place.line, row.us) for row in before.state.measured[before.key].rows(before.path)]
    assert [line for line, _ in rows] == [LINE]
    result = after.state.measured[after.key]
    assert benchmark_info(result, is_running=False).state.startswith("from ")
    there, now = await before.page(), await after.page()
    assert (now["run"], now["configurations"]) == (there["run"], there["configurations"])
    (tmp_path / "m.py").write_text("import torch\n")
    other = Workspace(tmp_path)
    await other.analysis.stored.show(Store.at(tmp_path))
    assert not other.state.measured
