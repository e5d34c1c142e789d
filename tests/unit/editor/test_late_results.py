"""Late events: a deleted file, a failed question, a changed setting, while results are accepted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import CudagraphSkip, Refusal, Tier
from fuselight_server.base.store import Store
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.kernel_nodes import kernel_node
from fuselight_server.editor.presenters.report_nodes import shown_results
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.ui import Question
from fuselight_server.source.positions import span
from tests.support.reports import FILE, at, report
from tests.unit.editor.test_kernel_results import KEY, edit, generated, kernel, opened, result
from tests.unit.editor.test_kernel_runs import KERNELS, PATH, KernelSession, part_shown


@pytest.mark.asyncio
@pytest.mark.parametrize("tier", [Tier.CAPTURE, Tier.KERNELS])
async def test_a_file_deleted_while_its_result_is_accepted_stays_deleted(
    monkeypatch: pytest.MonkeyPatch, tier: Tier
) -> None:
    session = KernelSession({"device": "h200"})
    to_thread, taken_in = asyncio.to_thread, asyncio.Event()

    async def goes_meanwhile(*work: Any, **named: Any) -> Any:
        meanwhile = await to_thread(*work, **named)
        if not taken_in.is_set() and work[0].__name__ in {"read_capture", "kernel_result_of"}:
            taken_in.set()
            session.analysis.documents.remove_path(PATH)
        return meanwhile

    monkeypatch.setattr(asyncio, "to_thread", goes_meanwhile)
    session.analysis.requests.command(PATH, "f", tier)
    await session.settle()
    assert taken_in.is_set()
    assert not session.state.results


@pytest.mark.asyncio
async def test_deleting_a_file_removes_its_partial_kernels() -> None:
    session = KernelSession({"device": "h200"})
    await part_shown(session)
    session.analysis.documents.remove_path(PATH)
    await session.settle()
    assert KERNELS not in session.state.kernels


def test_files_with_kernels_of_removed_targets_are_named() -> None:
    kept = State()
    kernel_result = result(kernel(3))
    kernel_result.places.track(span(at(7, path="/project/layers.py")))
    kept.accept_result(kernel_result)
    kept.take_changes()
    kept.drop_file(FILE)
    assert kept.take_changes()[1] == {FILE, "/project/layers.py"}


@pytest.mark.asyncio
async def test_a_failed_question_is_asked_again() -> None:
    session = KernelSession({})
    folder = session.state.folders["/w"]
    asked: list[str] = []

    async def confirm(question: Question) -> str:
        asked.append(question.message)
        if len(asked) == 1:
            raise ConnectionError("the client could not show it")
        return "run"

    session.ui.confirm = confirm  # type: ignore[method-assign]
    folder.consent = "unknown"
    for _ in range(2):
        session.ui.moved.clear()
        session.analysis.requests.command(PATH, "f")
        await asyncio.wait_for(session.ui.moved.wait(), 10)
    await session.settle()
    assert len(asked) == 2
    assert len(session.worker.asked) == 1
    assert any("could not show it" in line for line in session.state.log_lines)


def test_refused_fusions_are_reported_for_moved_lines() -> None:
    kept = opened(20)
    whole = generated(kernel(3))
    graph = replace(
        whole.generated[0],
        refusals=(Refusal("no shared data", first=(at(5),), second=(at(9),)),),
        cudagraph_skips=(CudagraphSkip("a CPU operator", stack=(at(12),)),),
    )
    kept.accept_result(result(of=replace(whole, generated=(graph,))))
    edit(kept, (7, 0), (7, 0), "new = 1\n")
    client = convert.Client("utf-16", kept.documents.read_line, lambda path: f"file://{path}")
    all_of = kernel_node(kept.kernels[KEY], client)
    entries = {
        child["label"]: child["children"][0]
        for child in all_of["children"][0]["children"]
        if child["children"]
    }
    assert entries["Not fused (1)"]["description"] == "lines 5, 10"
    skip = entries["Not replayed as CUDA graphs (1)"]
    assert skip["range"] is not None
    assert skip["range"]["start"]["line"] + 1 == 13


def test_the_report_of_kernels_alone_is_on_lines_that_move() -> None:
    kept = opened(20)
    kept.accept_result(result(of=report(tier=Tier.KERNELS, notes=(), target_device=None)))
    edit(kept, (1, 0), (1, 0), "new = 1\n")
    ((shown, kernels),) = shown_results(kept, FILE)
    assert kernels is kept.kernels[KEY]
    assert shown.stale
    assert shown.places.now(span(at(10))).line == 11


@pytest.mark.asyncio
async def test_the_later_reading_of_the_last_run_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session = KernelSession({})
    store = Store.at(tmp_path)
    read: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()
    to_thread = asyncio.to_thread

    async def held(work: Any, *arguments: Any, **named: Any) -> Any:
        if work != store.read_report:
            return await to_thread(work, *arguments, **named)
        answer = asyncio.get_running_loop().create_future()
        read.put_nowait(answer)
        return await answer

    monkeypatch.setattr(asyncio, "to_thread", held)
    both = [asyncio.create_task(session.analysis.program_reports.load(store)) for _ in range(2)]
    older, newer = await read.get(), await read.get()
    newer.set_result(report(generation=2))
    await both[1]
    older.set_result(report(generation=1))
    await both[0]
    (shown,) = session.state.results.values()
    assert shown.report.generation == 2
