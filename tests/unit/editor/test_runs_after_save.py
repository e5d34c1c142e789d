"""What a save runs again, and which findings it removes from Problems."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.base.settings import parse_settings
from tests.support.simulation import Workspace

TRAIN = """\
import torch
from helper import scale

@torch.compile
def f(x):
    return scale(x)

if __name__ == "__main__":
    f(1)
"""
DIRECTED = TRAIN.replace("@torch.compile", "# fuselight: f(f32[4])\n@torch.compile")
HELPER = "def scale(x):\n    print(x)\n    return x\n"
CURED = HELPER.replace("    print(x)\n", "")


def codes(workspace: Workspace, *names: str) -> list[tuple[str, int, bool]]:
    """Graph breaks and failures that are shown, with their lines and marks."""
    return [
        (code, line, edited)
        for name in names
        for code, line, _, edited in workspace.problems(name)
        if code.startswith("GB") or code == "FL401"
    ]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helper.py").write_text(HELPER)
    return Workspace(tmp_path)


@pytest.mark.asyncio
async def test_a_save_runs_again_what_the_user_ran_by_hand(workspace: Workspace) -> None:
    workspace.write("train.py", TRAIN.replace("return scale(x)", "print(x)\n    return scale(x)"))
    workspace.open("train.py")
    workspace.run("train.py", "__main__")
    workspace.run("train.py", "f")
    await workspace.settle()
    assert codes(workspace, "train.py", "helper.py") == [("GB0170", 6, False), ("GB0170", 2, False)]
    workspace.edit("train.py", DIRECTED)
    workspace.save("train.py")
    await workspace.settle()
    assert {key.name for key in workspace.targets()} == {"", "f"}
    assert codes(workspace, "train.py") == []


@pytest.mark.asyncio
async def test_a_save_of_a_file_that_a_target_used_runs_the_target_again(workspace: Workspace) -> None:
    workspace.run("train.py", "__main__")
    await workspace.settle()
    workspace.open("helper.py")
    assert codes(workspace, "helper.py") == [("GB0170", 2, False)]
    workspace.edit("helper.py", CURED)
    workspace.save("helper.py")
    await workspace.settle()
    assert codes(workspace, "helper.py") == []
    assert workspace.worker.ran == ["train.py:", "train.py:"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("scope", "opened", "runs"),
    [
        ("workspace", [], 2),
        ("openFiles", [], 1),
        ("openFiles", ["train.py"], 2),
        ("file", ["train.py"], 1),
    ],
)
async def test_the_setting_says_how_far_a_save_reaches(
    tmp_path: Path, scope: str, opened: list[str], runs: int
) -> None:
    settings, warnings = parse_settings({"runScope": scope})
    assert warnings == ()
    workspace = Workspace(tmp_path, settings)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helper.py").write_text(HELPER)
    workspace.run("train.py", "f")
    await workspace.settle()
    for name in (*opened, "helper.py"):
        workspace.open(name)
    workspace.save("helper.py")
    await workspace.settle()
    assert workspace.worker.ran == ["train.py:f"] * runs


@pytest.mark.asyncio
async def test_a_newer_run_of_functions_clears_fixed_findings_of_a_program(
    workspace: Workspace,
) -> None:
    async def only_on_request(_question: object) -> str:
        return "command"

    workspace.ui.confirm = only_on_request  # type: ignore[method-assign]
    text = TRAIN.replace("return scale(x)", "print(x)\n    return x")
    workspace.write("train.py", text + "    print(2)\n")
    workspace.open("train.py")
    workspace.run("train.py", "__main__")
    await workspace.settle()
    before = codes(workspace, "train.py")
    assert [line for _, line, _ in before] == [6, 11]
    cured = text.replace("    print(x)\n", "").replace("@torch", "# fuselight: f(f32[4])\n@torch")
    workspace.edit("train.py", cured + "    print(2)\n")
    workspace.save("train.py")
    await workspace.settle()
    assert workspace.worker.ran == ["train.py:", "train.py:f"]
    assert codes(workspace, "train.py") == [("GB0170", 11, True)], "the block has not run again: marked"
    main = next(capture for key, capture in workspace.state.captures.items() if not key.name)
    assert len(main.own) == 2, "the report keeps what the older run found"
    workspace.edit("train.py", text + "    print(2)\n")
    assert codes(workspace, "train.py") == before, "an undo makes the older run current"


@pytest.mark.asyncio
async def test_results_of_a_renamed_or_removed_target_go_with_the_next_save(workspace: Workspace) -> None:
    workspace.write("train.py", DIRECTED)
    workspace.open("train.py")
    workspace.save("train.py")
    workspace.run("train.py", "__main__")
    await workspace.settle()
    assert [key.name for key in workspace.targets()] == ["", "f"]
    workspace.edit("train.py", DIRECTED.replace("f(", "g("))
    workspace.save("train.py")
    await workspace.settle()
    assert [key.name for key in workspace.targets()] == ["", "g"]
    workspace.edit("train.py", "import torch\n")
    workspace.save("train.py")
    await workspace.settle()
    assert workspace.targets() == []
    assert codes(workspace, "train.py", "helper.py") == []


@pytest.mark.asyncio
async def test_a_helper_that_is_no_longer_called_has_no_finding(workspace: Workspace) -> None:
    workspace.open("train.py")
    workspace.run("train.py", "f")
    await workspace.settle()
    workspace.edit("train.py", TRAIN.replace("return scale(x)", "return x"))
    workspace.save("train.py")
    await workspace.settle()
    assert codes(workspace, "train.py", "helper.py") == []


@pytest.mark.asyncio
async def test_a_broken_import_is_cleared_by_the_save_that_fixes_it(workspace: Workspace) -> None:
    workspace.open("train.py")
    workspace.run("train.py", "f")
    workspace.write("helper.py", "def scale(x:\n")
    await workspace.settle()
    assert [code for code, _, _ in codes(workspace, "helper.py")] == ["FL401"]
    workspace.open("helper.py")
    workspace.edit("helper.py", CURED)
    workspace.save("helper.py")
    await workspace.settle()
    assert codes(workspace, "helper.py", "train.py") == []


@pytest.mark.asyncio
async def test_a_module_that_is_written_later_clears_the_failure_to_import_it(workspace: Workspace) -> None:
    workspace.delete("helper.py")
    workspace.open("train.py")
    workspace.run("train.py", "f")
    await workspace.settle()
    assert [code for code, _, _ in codes(workspace, "train.py")] == ["FL401"]
    workspace.write("helper.py", CURED)
    await workspace.settle()
    assert codes(workspace, "train.py") == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
@pytest.mark.parametrize("ran_unsaved", [True, False])
async def test_closing_a_file_runs_again_what_ran_its_unsaved_text(
    workspace: Workspace, *, ran_unsaved: bool
) -> None:
    workspace.write("helper.py", CURED)
    workspace.run("train.py", "f")
    await workspace.settle()
    workspace.open("helper.py")
    workspace.edit("helper.py", HELPER)
    if ran_unsaved:
        workspace.run("train.py", "f")
        await workspace.settle()
        assert codes(workspace, "helper.py") == [("GB0170", 2, False)]
    before = len(workspace.worker.ran)
    workspace.close("helper.py")
    await workspace.settle()
    assert codes(workspace, "helper.py") == []
    assert len(workspace.worker.ran) - before == ran_unsaved, "a result of the text on the disk is current"


@pytest.mark.asyncio
async def test_closing_a_file_whose_edits_were_undone_runs_again_what_ran_them(workspace: Workspace) -> None:
    workspace.write("helper.py", CURED)
    workspace.open("helper.py")
    workspace.edit("helper.py", HELPER)
    workspace.run("train.py", "f")
    await workspace.settle()
    workspace.edit("helper.py", CURED)
    workspace.close("helper.py")
    await workspace.settle()
    assert workspace.worker.ran == ["train.py:f"] * 2
    assert codes(workspace, "helper.py") == []


@pytest.mark.asyncio
async def test_a_finding_of_a_current_run_is_not_marked_by_an_older_run(workspace: Workspace) -> None:
    workspace.write("other.py", TRAIN)
    workspace.run("train.py", "f")
    await workspace.settle()
    workspace.write("train.py", TRAIN.replace("return scale(x)", "return missing(x)"))
    await workspace.settle()
    assert codes(workspace, "helper.py") == [("GB0170", 2, True)]
    workspace.run("other.py", "f")
    await workspace.settle()
    assert codes(workspace, "helper.py") == [("GB0170", 2, False)]


async def held(workspace: Workspace) -> asyncio.Event:
    """Start a run of `f` that has read its files and is in flight until the event is set."""
    began, let_go, run = asyncio.Event(), asyncio.Event(), workspace.worker.run

    async def slow(*arguments: Any) -> Any:
        answer = await run(*arguments)
        began.set()
        await let_go.wait()
        return answer

    workspace.worker.run = slow  # type: ignore[method-assign,assignment]
    workspace.run("train.py", "f")
    await began.wait()
    workspace.worker.run = run  # type: ignore[method-assign]
    return let_go


@pytest.mark.asyncio
@pytest.mark.parametrize("is_open", [True, False])
async def test_a_helper_that_is_saved_during_the_first_run_runs_the_target_once_more(
    workspace: Workspace, *, is_open: bool
) -> None:
    if is_open:
        workspace.open("helper.py")
    let_go = await held(workspace)
    for text in (HELPER + "\n", CURED):
        if is_open:
            workspace.edit("helper.py", text)
            workspace.save("helper.py")
        else:
            workspace.write("helper.py", text)
    let_go.set()
    await workspace.settle()
    assert workspace.worker.ran == ["train.py:f"] * 2
    assert codes(workspace, "helper.py", "train.py") == []


@pytest.mark.asyncio
@pytest.mark.parametrize("text", [HELPER, CURED])
async def test_an_edited_or_unchanged_helper_starts_no_run(workspace: Workspace, text: str) -> None:
    workspace.open("helper.py")
    let_go = await held(workspace)
    workspace.edit("helper.py", text)
    if text == HELPER:
        workspace.save("helper.py")
    let_go.set()
    await workspace.settle()
    assert workspace.worker.ran == ["train.py:f"]


@pytest.mark.asyncio
async def test_automatic_saves_of_a_helper_run_its_targets_once_in_a_while(workspace: Workspace) -> None:
    workspace.open("helper.py")
    let_go = await held(workspace)

    def save(text: str) -> None:
        workspace.edit("helper.py", text)
        workspace.save("helper.py", automatic=True)

    save(HELPER + "# 1\n")
    let_go.set()
    await workspace.settle()
    for number in range(5):
        save(HELPER + f"# {number + 2}\n")
        await workspace.settle()
    assert workspace.worker.ran == ["train.py:f"] * 2
    await workspace.analysis.close()
