"""Live findings: what is predicted while the user types, when it is asked, and when it is dropped."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.protocol import Refused
from fuselight_server.editor.session import live_traces
from fuselight_server.source.document import LARGE
from tests.support.live_simulation import (
    BROKEN,
    CURED,
    IN_G,
    MODEL,
    LiveWorkspace,
    codes_on,
    ran,
    shown,
)


@pytest.mark.asyncio
async def test_a_typed_break_is_shown_before_the_save(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    assert workspace.worker.requests == []
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    (request,) = workspace.worker.requests
    assert (request.target.name, request.overlays, request.automatic) == ("f", {}, True)
    assert [retrace.functions for retrace in workspace.worker.retraced] == [("f",)]
    assert workspace.worker.retraced[0].text == BROKEN
    assert shown(workspace) == [(7, "predicted", False), (9, "capture", False)]
    assert workspace.effects() == ["+1 break"]
    assert (model_folder / "model.py").read_text() != BROKEN


@pytest.mark.asyncio
async def test_a_large_file_is_said_not_to_be_predicted(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    large = BROKEN + "# " + "x" * LARGE + "\n"
    workspace.edit("model.py", large)
    await workspace.pause()
    assert workspace.deferred() == ["the file has more than 400 kB"]
    assert workspace.worker.requests == []
    workspace.edit("model.py", large.replace("print(0)", "print(1)"))
    assert workspace.deferred() == ["the file has more than 400 kB"]
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert (workspace.effects(), workspace.deferred()) == (["+1 break"], [])


@pytest.mark.asyncio
async def test_nothing_is_asked_before_the_pause_ends(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    for size in range(len(MODEL), len(MODEL) + 20):
        workspace.edit("model.py", MODEL.replace("x + 1", "x + " + "1" * (size - len(MODEL) + 2)))
        await workspace.pause(0.3)
    assert len(workspace.worker.requests) == 1, "it is started at once"
    assert workspace.worker.retraced == []
    await workspace.pause(0.4)
    assert len(workspace.worker.retraced) == 1


@pytest.mark.asyncio
async def test_a_predicted_finding_goes_with_its_line_and_with_the_next_answer(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", BROKEN.replace("x + 1", "x + 2"))
    assert shown(workspace)[0] == (7, "predicted", False), "another line was edited"
    assert workspace.effects() == [""], "what the edit would do is not known until the next answer"
    workspace.edit("model.py", BROKEN.replace("print(0)", "int(0)"))
    assert shown(workspace) == [(9, "capture", False)]
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert len(shown(workspace)) == 2
    workspace.edit("model.py", BROKEN.replace("    print(0)\n", "\n"))
    await workspace.pause()
    assert shown(workspace) == [(9, "capture", False)]


@pytest.mark.asyncio
async def test_an_undo_ends_every_prediction_at_once(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", MODEL)
    assert shown(workspace) == [(8, "capture", False)]
    assert workspace.state.predictions == {}
    await workspace.pause()
    assert len(workspace.worker.retraced) == 1


@pytest.mark.asyncio
async def test_a_cured_break_goes_before_the_save(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", CURED)
    assert shown(workspace) == [(8, "capture", True)]
    await workspace.pause()
    assert shown(workspace) == []
    assert workspace.effects() == ["1 break gone"]
    workspace.edit("model.py", CURED.replace("x + 2", "x + 3"))
    await workspace.pause()
    assert shown(workspace) == []


@pytest.mark.asyncio
async def test_a_break_that_is_deleted_counts_as_gone_and_one_that_is_moved_does_not(
    model_folder: Path,
) -> None:
    workspace = await ran(model_folder)
    deleted = MODEL.replace("    print(x)\n", "")
    workspace.edit("model.py", deleted)
    await workspace.pause()
    assert workspace.effects() == ["1 break gone"]
    workspace.edit("model.py", deleted.replace("    x = x + 1\n", "    print(x)\n    x = x + 1\n"))
    await workspace.pause()
    assert shown(workspace) == [(7, "predicted", False)]
    assert workspace.effects() == ["no new findings"]


@pytest.mark.asyncio
async def test_after_a_restart_of_the_editor_edits_are_predicted_again(model_folder: Path) -> None:
    await ran(model_folder)
    workspace = LiveWorkspace(model_folder)
    workspace.open("model.py")
    await workspace.analysis.stored.show_for(workspace.path("model.py"))
    assert shown(workspace) == [(8, "capture", False)]
    workspace.edit("model.py", BROKEN)
    await workspace.predicted()
    await workspace.pause()
    assert workspace.worker.requests[0].target.name == "f"
    assert shown(workspace) == [(7, "predicted", False), (9, "capture", False)]


@pytest.mark.asyncio
async def test_a_break_on_an_unchanged_line_says_that_it_is_gone(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", MODEL.replace("    x = x + 1\n", "    print = len\n"))
    workspace.worker.problems = {}
    tree = MODEL.replace("    x = x + 1\n", "    return x\n")
    workspace.edit("model.py", tree)
    prediction_without_break = workspace.worker._report

    def report(request: Any) -> Any:
        return dataclasses.replace(prediction_without_break(request), breaks=(), frames=())

    workspace.worker._report = report  # type: ignore[method-assign]
    await workspace.pause()
    assert shown(workspace) == [(8, "gone", False)]
    assert workspace.effects() == ["1 break gone"]


@pytest.mark.asyncio
async def test_a_break_that_stays_on_an_edited_line_is_shown_once(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", MODEL.replace("print(x)", "print(x, 1)"))
    await workspace.pause()
    assert shown(workspace) == [(8, "predicted", False)]
    assert workspace.effects() == ["no new findings"]


@pytest.mark.asyncio
async def test_the_run_of_a_save_replaces_predictions(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.save("model.py")
    await workspace.settle()
    assert shown(workspace) == [(7, "capture", False), (9, "capture", False)]
    assert workspace.state.predictions == {}
    await workspace.predicted()
    assert workspace.worker.live == {}, "the live run has the old text"
    workspace.edit("model.py", MODEL)
    await workspace.pause()
    assert len(workspace.worker.requests) == 2
    assert shown(workspace) == [(8, "capture", False)]


@pytest.mark.asyncio
async def test_an_edit_during_a_run_is_predicted_after_it(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", CURED)
    workspace.save("model.py")
    while not workspace.analysis.runs.in_flight:  # noqa: ASYNC110 - as in `settle`
        await asyncio.sleep(0)
    workspace.edit("model.py", CURED.replace("x + 1", "x + 1\n    print(9)"))
    await workspace.settle()
    await workspace.pause()
    assert shown(workspace) == [(8, "predicted", False)]
    (request,) = workspace.worker.requests
    assert workspace.worker.retraced[-1].functions == ("f",)
    assert request.overlays == {}


@pytest.mark.asyncio
async def test_an_answer_for_an_older_text_is_dropped(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.worker.hold = asyncio.Event()
    workspace.edit("model.py", BROKEN.replace("print(0)", "print(1)"))
    await workspace.pause()
    await workspace.until(lambda: len(workspace.worker.retraced) == 2)
    workspace.edit("model.py", MODEL.replace("x + 1", "x + 5"))
    workspace.worker.hold.set()
    workspace.worker.hold = None
    await workspace.predicted()
    assert workspace.worker.canceled == 1
    assert shown(workspace) == [(8, "capture", False)]
    await workspace.pause()
    assert shown(workspace) == [(8, "capture", False)]
    assert workspace.effects() == ["no new findings"]


TWICE = CURED.replace("    x = x + 1\n", "    print(0)\n    x = x + 1\n    print(1)\n")
"""Breaks on lines 7 and 9; the one of the run, on line 10, is cured."""


async def tracing(model_folder: Path, text: str) -> LiveWorkspace:
    """A workspace whose trace of a text has told its first break, and goes on until `hold` is set."""
    workspace = await ran(model_folder)
    workspace.worker.hold, workspace.worker.tells_early = asyncio.Event(), True
    workspace.edit("model.py", CURED)
    workspace.edit("model.py", text)
    await workspace.pause()
    await workspace.until(lambda: (7, "predicted", False) in shown(workspace))
    return workspace


async def end_trace(workspace: LiveWorkspace) -> None:
    assert workspace.worker.hold is not None
    workspace.worker.hold.set()
    workspace.worker.hold = None
    await workspace.predicted()


@pytest.mark.asyncio
async def test_a_break_is_shown_before_the_end_of_the_trace_which_alone_removes_others(
    model_folder: Path,
) -> None:
    workspace = await tracing(model_folder, TWICE)
    assert shown(workspace) == [(7, "predicted", False), (10, "capture", True)]
    assert workspace.effects() == [""], "what the edit does is not known yet"
    await end_trace(workspace)
    assert shown(workspace) == [(7, "predicted", False), (9, "predicted", False)]
    assert workspace.effects() == ["+2 breaks, 1 break gone"]


@pytest.mark.asyncio
async def test_an_early_break_of_an_older_text_is_dropped(model_folder: Path) -> None:
    workspace = await tracing(model_folder, TWICE)
    workspace.edit("model.py", CURED.replace("x + 1", "x + 5"))
    again = workspace.worker.early[0]
    assert again is not None
    again()
    await end_trace(workspace)
    assert [entry[1] for entry in shown(workspace)] == ["capture"]
    await workspace.pause()
    assert (shown(workspace), workspace.effects()) == ([], ["1 break gone"])


@pytest.mark.asyncio
@pytest.mark.parametrize("why", ["refused", "off"])
async def test_an_early_break_goes_with_a_trace_that_has_no_answer(model_folder: Path, why: str) -> None:
    workspace = await tracing(model_folder, TWICE)
    if why == "refused":
        workspace.worker.refuse = [Refused(0, "crashed")]
    else:
        (folder,) = workspace.state.folders.values()
        folder.settings = dataclasses.replace(folder.settings, live="off")
        workspace.analysis.live.settings_changed()
        again = workspace.worker.early[0]
        assert again is not None
        again()
    await end_trace(workspace)
    await workspace.until(lambda: (7, "predicted", False) not in shown(workspace))
    assert shown(workspace) == [(10, "capture", True)]
    assert workspace.deferred() == (["f: the process of the trace ended"] if why == "refused" else [])


@pytest.mark.asyncio
async def test_an_early_break_that_cannot_be_shown_comes_with_the_answer(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = await ran(model_folder)
    workspace.worker.hold, workspace.worker.tells_early = asyncio.Event(), True
    failed: list[bool] = []

    def fail(*_arguments: object, **_options: object) -> None:
        failed.append(True)
        raise ValueError("no findings")

    with monkeypatch.context() as patch:
        patch.setattr(live_traces, "trace_findings", fail)
        workspace.edit("model.py", CURED)
        workspace.edit("model.py", TWICE)
        await workspace.pause()
        await workspace.until(lambda: bool(failed))
    assert shown(workspace) == [(10, "capture", True)]
    await end_trace(workspace)
    assert shown(workspace) == [(7, "predicted", False), (9, "predicted", False)]


@pytest.mark.asyncio
async def test_an_early_break_where_another_one_was_leaves_that_one_on_its_line(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.worker.hold, workspace.worker.tells_early = asyncio.Event(), True
    workspace.edit("model.py", BROKEN.replace("    print(0)\n", "    print(5)\n    print(0)\n"))
    assert shown(workspace) == [(8, "predicted", False), (10, "capture", False)]
    await workspace.pause()
    await workspace.until(lambda: len(shown(workspace)) == 3)
    assert shown(workspace) == [(7, "predicted", False), (8, "predicted", False), (10, "capture", False)]
    await end_trace(workspace)
    assert len(shown(workspace)) == 3


@pytest.mark.asyncio
async def test_half_typed_text_is_not_traced_and_keeps_other_lines(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.edit("model.py", BROKEN.replace("return g(x)", "return g(x"))
    await workspace.pause()
    assert len(workspace.worker.retraced) == 1
    assert shown(workspace) == [(7, "predicted", False), (9, "capture", False)]


@pytest.mark.asyncio
async def test_a_comment_needs_no_trace(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", MODEL.replace("x + 1", "x + 1  # more"))
    await workspace.pause()
    assert workspace.worker.requests == []
    assert workspace.deferred() == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MODEL.replace("def g(x)", "def g(x, y=1)"), "g: its signature has changed"),
        (MODEL.replace("import torch", "import math\nimport torch"), "an import has changed"),
        (MODEL + "\nLIMIT = 3\n", "code of the module has changed"),
        (MODEL.replace("@torch.compile", "@torch.compile(fullgraph=True)"), "f: its decorators have changed"),
    ],
)
async def test_what_needs_a_run_is_said(model_folder: Path, text: str, name: str) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", text)
    await workspace.pause()
    assert workspace.worker.retraced == []
    assert workspace.deferred() == [name]


@pytest.mark.asyncio
async def test_a_function_that_the_worker_cannot_trace_is_said(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.worker.problems = {"g": "closure: x"}
    both = IN_G.replace("x + 1", "x + 2")
    workspace.edit("model.py", both)
    await workspace.pause()
    assert workspace.effects() == ["no new findings"]
    assert shown(workspace) == [(8, "capture", False)]
    (text,) = workspace.deferred()
    assert text.startswith("g: ")
    workspace.worker.refuse = [Refused(0, "timeout")]
    workspace.edit("model.py", both.replace("x + 2", "x + 3"))
    await workspace.pause()
    assert workspace.effects() == [""]
    assert workspace.deferred() == [
        "f: the trace took longer than its time limit",
        "g: the trace took longer than its time limit",
    ]


@pytest.mark.asyncio
async def test_it_is_said_where_nothing_was_predicted_before(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", IN_G)
    await workspace.pause()
    workspace.edit("model.py", MODEL)
    await workspace.pause()
    assert workspace.effects() == []
    workspace.worker.problems = {"g": "closure: x"}
    workspace.edit("model.py", IN_G.replace("x + 1", "x + 2"))
    await workspace.pause()
    (text,) = workspace.deferred()
    assert text.startswith("g: ")


async def with_a_caller_in_eager(workspace: LiveWorkspace) -> list[str]:
    """Type a break into `g`, which `f` calls in a loop; returns the codes on the line of `f`."""
    workspace.worker.loops = frozenset({"f"})
    workspace.edit("model.py", IN_G)
    await workspace.pause()
    return codes_on(workspace, 6)


@pytest.mark.asyncio
async def test_a_caller_that_a_break_sends_to_eager_is_predicted_by_a_second_trace(
    model_folder: Path,
) -> None:
    workspace = await ran(model_folder)
    assert await with_a_caller_in_eager(workspace) == ["FL101"]
    assert [retrace.functions for retrace in workspace.worker.retraced] == [("g",), ("g", "f")]
    assert [function is None for function in workspace.worker.early] == [False, True], (
        "the second is not waited for"
    )
    assert workspace.effects() == ["+1 break, +1 uncompiled function"]
    workspace.edit("model.py", MODEL)
    assert codes_on(workspace, 6) == []


@pytest.mark.asyncio
async def test_without_an_answer_of_the_second_trace_the_first_stays(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.worker.problems["f"] = "signature: changed"
    assert await with_a_caller_in_eager(workspace) == []
    assert len(workspace.worker.retraced) == 2
    assert workspace.effects() == ["+1 break"]


@pytest.mark.asyncio
async def test_a_size_that_is_fixed_is_predicted_by_the_trace_of_the_target(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", MODEL.replace("    return scale(x)\n", "    len(x)\n    return scale(x)\n"))
    workspace.worker.problems["f"] = "signature: changed"
    await workspace.pause()
    assert codes_on(workspace, 12) == [], "the trace of g alone does not know which sizes vary"
    workspace.worker.problems.clear()
    workspace.edit("model.py", MODEL.replace("    return scale(x)\n", "    len(x)\n    return  scale(x)\n"))
    await workspace.pause()
    assert codes_on(workspace, 12) == ["FL301"]
    assert workspace.effects() == ["+1 specialization"]


@pytest.mark.asyncio
async def test_a_fixed_size_is_gone_only_after_the_trace_of_the_target(model_folder: Path) -> None:
    (model_folder / "model.py").write_text(
        MODEL.replace("    return scale(x)\n", "    len(x)\n    return scale(x)\n")
    )
    workspace = await ran(model_folder)
    edited = MODEL.replace("    return scale(x)\n", "    x = x + 1\n    return scale(x)\n")
    kept = edited.replace("x + 1\n    return scale", "len(x)\n    return scale")
    workspace.worker.problems["f"] = "signature: changed"
    workspace.edit("model.py", kept)
    await workspace.pause()
    assert workspace.effects() == ["no new findings"]
    workspace.worker.problems.clear()
    workspace.edit("model.py", edited)
    await workspace.pause()
    assert workspace.effects() == ["1 specialization gone"]


@pytest.mark.asyncio
async def test_an_edit_of_a_helper_is_predicted_for_its_target(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.open("helper.py")
    workspace.edit("helper.py", "def scale(x):\n    print(x)\n    return x\n")
    await workspace.pause()
    assert shown(workspace, "helper.py") == [(2, "predicted", False)]
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    assert "helper.py has changed, too" in workspace.deferred()
    assert shown(workspace) == [(9, "capture", False)]


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(6))
async def test_after_any_edits_and_a_pause_the_breaks_of_the_text_are_shown(
    model_folder: Path, seed: int
) -> None:
    """What is shown after a pause is what a run of the text would find, whatever was typed, saved and undone."""
    chance = random.Random(seed)  # noqa: S311 - nothing is kept secret
    workspace = await ran(model_folder)
    past = [MODEL]
    for _ in range(25):
        lines = past[-1].split("\n")
        starts = [at for at, line in enumerate(lines) if line.startswith("    ")]
        does = chance.choice(["insert", "insert", "delete", "undo", "save", "half", "pause"])
        if does == "insert":
            text = chance.choice(["    print(x)", "    x = x + 1", "    # words", "    print(x, 1)"])
            lines.insert(chance.choice(starts), text)
            past.append("\n".join(lines))
        elif does == "delete":
            at = chance.choice(starts)
            if not lines[at].startswith("    return"):
                del lines[at]
                past.append("\n".join(lines))
        elif does == "undo" and len(past) > 1:
            past.pop(chance.randrange(1, len(past)))
        elif does == "half":
            await workspace.settle()  # else the run could have this text, and would fail
            workspace.edit("model.py", past[-1].replace("return g(x)", "return g("))
            await workspace.pause(chance.choice([0.1, 0.4]))
        workspace.edit("model.py", past[-1])
        if does == "save":
            workspace.save("model.py")
            if chance.random() < 0.5:
                await workspace.settle()
        if does == "pause":
            await workspace.settle()
            await workspace.pause()
            await workspace.pause()
            expected = [at for at, line in enumerate(past[-1].split("\n"), 1) if "print" in line]
            numbers = [line for line, tier, edited in shown(workspace) if not edited and tier != "gone"]
            assert numbers == expected, past[-1]
            assert not [entry for entry in shown(workspace) if entry[2]], "nothing is doubtful after a trace"
    live = workspace.analysis.live
    assert len(workspace.state.predictions) <= 1
    assert len(live._texts._known) <= 2
    assert len(workspace.worker.live) <= 1
