"""Predictions in the report's tree, and what ignore comments leave of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from fuselight_server.editor.handlers.report_tree import report_tree
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.params import ReportTreeParams
from fuselight_server.editor.presenters import convert
from tests.support.live_simulation import BROKEN, CURED, MODEL, LiveWorkspace, ran, shown


async def predicted(workspace: LiveWorkspace) -> list[tuple[str, list[tuple[str, str]]]]:
    """Label and description of the group of predictions, and of each below it, as the client gets them."""
    server = SimpleNamespace(
        state=workspace.state,
        view=convert.Client("utf-8", workspace.state.documents.read_line, convert.uri),
        analysis=workspace.analysis,
        ui=SimpleNamespace(results_changed=lambda _paths: None),
    )
    params = ReportTreeParams(convert.uri(workspace.path("model.py")))
    (target,) = (await report_tree(cast("Server", server), params))["nodes"]
    groups = [child for child in target["children"] if child["contextValue"] == "predicted"]
    return [
        (
            f"{group['label']}: {group['description']}",
            [(child["label"], child["description"]) for child in group["children"]],
        )
        for group in groups
    ]


@pytest.mark.asyncio
async def test_the_report_lists_a_typed_break_until_an_undo(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    assert await predicted(workspace) == []
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    ((group, entries),) = await predicted(workspace)
    assert group == "Predicted from your edit (1): +1 break"
    assert [(label[:8], where) for label, where in entries] == [("GB0170: ", "predicted, model.py:7")]
    workspace.state.take_changes()
    workspace.edit("model.py", MODEL)
    assert await predicted(workspace) == []
    assert workspace.path("model.py") in workspace.state.take_changes()[1], "the view is drawn again"


@pytest.mark.asyncio
async def test_an_edit_of_its_line_takes_a_prediction_from_the_report_at_once(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN)
    await workspace.pause()
    workspace.state.take_changes()
    workspace.edit("model.py", BROKEN.replace("print(0)", "int(0)"))
    assert await predicted(workspace) == []
    assert workspace.path("model.py") in workspace.state.take_changes()[1]


@pytest.mark.asyncio
async def test_the_report_lists_what_an_edit_removes(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", CURED)
    await workspace.pause()
    ((group, entries),) = await predicted(workspace)
    assert group == "Predicted from your edit (1): 1 break gone"
    assert [where for _, where in entries] == ["gone after your edit (predicted), model.py:8"]


@pytest.mark.asyncio
async def test_the_report_says_what_is_not_predicted(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", f"import os\n{MODEL}")
    await workspace.pause()
    ((group, entries),) = await predicted(workspace)
    assert group == "Predicted from your edit (1): "
    assert entries[0][0].startswith("not predicted: ")


@pytest.mark.asyncio
@pytest.mark.parametrize("comment", ["# fuselight: ignore", "# fuselight: ignore[GB0170]"])
async def test_an_ignored_break_does_not_count(model_folder: Path, comment: str) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN.replace("print(0)", f"print(0)  {comment}"))
    await workspace.pause()
    assert shown(workspace) == [(9, "capture", False)]
    assert workspace.effects() == ["no new findings"]
    assert await predicted(workspace) == []


@pytest.mark.asyncio
async def test_an_ignore_of_another_code_hides_nothing(model_folder: Path) -> None:
    workspace = await ran(model_folder)
    workspace.edit("model.py", BROKEN.replace("print(0)", "print(0)  # fuselight: ignore[FL201]"))
    await workspace.pause()
    assert workspace.effects() == ["+1 break"]
