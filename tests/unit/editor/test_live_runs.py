"""Live runs: when one starts, where it may run, and what ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import Refused
from fuselight_server.base.settings import Settings
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.session import live_runs
from tests.support.live_simulation import (
    BROKEN,
    CURED,
    MODEL,
    LiveWorkspace,
    ran,
    shown,
)


@pytest.mark.asyncio
async def test_a_save_of_the_same_text_keeps_the_live_run(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", MODEL)
    workspace.save("model.py")
    await workspace.settle()
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert len(workspace.worker.requests) == 1
    assert len(workspace.worker.retraced) == 2


@pytest.mark.asyncio
async def test_the_live_run_starts_while_the_first_line_is_half_typed(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.worker.hold_start = asyncio.Event()
    workspace.edit("model.py", MODEL.replace("    x = x + 1\n", "    print(\n    x = x + 1\n"))
    await workspace.predicted()
    assert len(workspace.worker.requests) == 1
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert workspace.deferred() == ["the tracer is starting"]
    workspace.worker.hold_start.set()
    await workspace.predicted()
    assert workspace.deferred() == []
    assert shown(workspace) == [(7, "predicted", False), (9, "capture", False)]


@pytest.mark.asyncio
async def test_a_result_that_a_newer_run_replaces_meanwhile_starts_no_live_run(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await ran(model_folder)
    texts, gate = workspace.analysis.live._texts, asyncio.Event()
    read = texts.overlays

    async def overlays(result: CaptureResult) -> dict[str, str] | None:
        text = await read(result)
        await gate.wait()
        return text

    monkeypatch.setattr(texts, "overlays", overlays)
    workspace.edit("model.py", BROKEN)
    workspace.clock.advance(0.4)
    await asyncio.sleep(0)
    workspace.save("model.py")
    runs = workspace.analysis.runs
    while runs.settled < runs.generation:  # noqa: ASYNC110 - as in `settle`
        await asyncio.sleep(0)
    gate.set()
    await workspace.predicted()
    assert (workspace.worker.requests, workspace.deferred()) == ([], [])


@pytest.mark.asyncio
async def test_a_defect_in_a_live_run_is_logged_and_said(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.worker.requests = None  # type: ignore[assignment] # so that it raises
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert workspace.deferred() == ["the tracer ended by itself; the log says why"]


@pytest.mark.asyncio
async def test_off_means_that_nothing_happens(model_folder: Path) -> None:
    workspace = await ran(model_folder, Settings(live="off"))
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert workspace.worker.requests == []
    assert shown(workspace) == [(9, "capture", False)]


@pytest.mark.asyncio
async def test_switching_it_off_ends_the_live_run_and_its_findings(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.state.folders[str(model_folder)].settings = Settings(live="off")
    workspace.analysis.live.settings_changed()
    await workspace.predicted()
    assert workspace.worker.live == {}
    assert shown(workspace) == [(9, "capture", False)]
    workspace.state.folders[str(model_folder)].settings = Settings()
    workspace.analysis.live.settings_changed()
    await workspace.pause()
    assert len(shown(workspace)) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("change", ["untrusted", "never", "manual"])
async def test_user_code_runs_only_where_a_save_would_run_it(model_folder: Path, change: str) -> None:
    workspace = await ran(model_folder)
    mine = workspace.state.folders[str(model_folder)]
    if change == "untrusted":
        workspace.state.trusted = False
    elif change == "never":
        mine.consent = "never"
    else:
        mine.settings = Settings(run="manual")
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert workspace.worker.requests == []
    assert [line for line, tier, _ in shown(workspace) if tier == "predicted"] == []


@pytest.mark.asyncio
async def test_closing_a_file_ends_the_live_run(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.close("model.py")
    await workspace.settle()
    await workspace.predicted()
    assert workspace.worker.live == {}
    assert workspace.state.predictions == {}
    assert workspace.analysis.live.is_idle


@pytest.mark.asyncio
@pytest.mark.parametrize("does", ["rename", "delete"])
async def test_a_file_that_is_gone_ends_the_live_run(model_folder: Path, does: str) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", BROKEN.replace("print(0)", "print(1)"))
    workspace.worker.hold = asyncio.Event()
    workspace.clock.advance(0.4)
    await asyncio.sleep(0)
    if does == "rename":
        workspace.rename("model.py", "other.py")
    else:
        workspace.delete("model.py")
    workspace.worker.hold.set()
    workspace.worker.hold = None
    await workspace.settle()
    await workspace.predicted()
    assert workspace.worker.live == {}
    assert workspace.state.predictions == {}


@pytest.mark.asyncio
async def test_a_live_run_that_dies_is_started_again_once(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    for _ in range(2):
        workspace.worker.crash()
        await workspace.predicted()
    assert len(workspace.worker.requests) == 2
    workspace.edit("model.py", BROKEN.replace("x + 1", "x + 2"))
    await workspace.pause()
    assert len(workspace.worker.requests) == 2
    assert workspace.deferred() == ["the tracer ended by itself; the log says why"]
    workspace.edit("model.py", CURED)
    workspace.save("model.py")
    await workspace.settle()
    workspace.edit("model.py", MODEL)
    await workspace.pause()
    assert len(workspace.worker.requests) == 3, "a new result has attempts of its own"


@pytest.mark.asyncio
async def test_a_live_run_that_cannot_start_is_not_tried_again(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.worker.fail_start = "failed"
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", BROKEN.replace("x + 1", "x + 2"))
    await workspace.pause()
    assert len(workspace.worker.requests) == 1
    assert workspace.deferred() == ["the tracer ended by itself; the log says why"]


@pytest.mark.asyncio
async def test_a_live_run_that_the_worker_lost_is_started_again(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.worker.refuse = [Refused(0, "no_live")]
    workspace.edit("model.py", BROKEN.replace("x + 1", "x + 2"))
    await workspace.pause()
    assert len(workspace.worker.requests) == 2
    assert len(shown(workspace)) == 2


@pytest.mark.asyncio
async def test_a_stopped_worker_takes_its_live_runs_along(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    await workspace.analysis.restart(str(model_folder))
    await workspace.predicted()
    assert workspace.worker.live == {}
    assert workspace.state.predictions == {}
    workspace.edit("model.py", BROKEN.replace("x + 1", "x + 2"))
    await workspace.pause()
    assert len(shown(workspace)) == 2


@pytest.mark.asyncio
async def test_an_idle_live_run_ends(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert len(workspace.worker.live) == 1
    monkeypatch.setattr(live_runs, "IDLE_SECONDS", 0.0)
    await workspace.pause(1000)
    assert workspace.worker.live == {}
    assert len(shown(workspace)) == 2, "what was predicted still holds"


@pytest.mark.asyncio
async def test_the_number_of_live_runs_is_bounded(model_folder: Path) -> None:
    many = MODEL
    for name in "abcde":
        many += f"\n# fuselight: {name}(f32[4])\n@torch.compile\ndef {name}(x):\n    return g(x)\n"
    (model_folder / "model.py").write_text(many)
    workspace = LiveWorkspace(model_folder)
    workspace.open("model.py")
    workspace.save("model.py")
    await workspace.settle()
    workspace.edit("model.py", many.replace("return scale(x)", "print(x)"))
    await workspace.pause()
    assert len(workspace.worker.live) == live_runs.MAX_LIVE_RUNS
    assert workspace.deferred() == ["edits are traced for 3 targets of a file"] * 3
    assert [line for line, tier, _ in shown(workspace) if tier == "predicted"] == [12]


@pytest.mark.asyncio
async def test_closing_the_session_ends_everything(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", BROKEN.replace("x + 1", "x + 2"))
    await workspace.analysis.close()
    assert workspace.worker.live == {}
    assert not workspace.analysis.live._timers


@pytest.mark.asyncio
async def test_closing_the_session_waits_for_no_run_whose_worker_is_stuck(model_folder: Path) -> None:
    """A stuck worker answers to no cancel: only its own end ends its runs."""
    workspace = await ran(model_folder)
    worker, closed = workspace.worker, asyncio.Event()
    run_live, close = worker.run_live, worker.close

    async def stuck(*given: Any) -> Any:
        try:
            return await run_live(*given)
        except asyncio.CancelledError:
            await closed.wait()
            raise

    async def end() -> None:
        closed.set()
        await close()

    worker.run_live, worker.close = stuck, end  # type: ignore[method-assign,assignment]
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert len(worker.live) == 1
    await asyncio.wait_for(workspace.analysis.close(), 30)
    assert closed.is_set()
