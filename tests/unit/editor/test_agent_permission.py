"""Whom the editor asks before an agent runs code: the user, about the folder that has the code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.editor.session.agents import EditorPermission
from fuselight_server.editor.session.consent import NEVER, RUN
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Question


class AnsweringUi:
    """A user who allows all folders but those whose name starts with `private`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def confirm(self, question: Question) -> str:
        self.asked.append(Path(question.folder.path).name)
        return NEVER if self.asked[-1].startswith("private") else RUN


def test_a_link_needs_the_permission_of_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    state, ui = State(), AnsweringUi()
    for name in ("open", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").touch()
        state.folders[name] = Folder(str(tmp_path / name), (tmp_path / name).as_uri())
    try:
        (tmp_path / "open" / "linked.py").symlink_to(tmp_path / "private" / "model.py")
    except OSError:
        pytest.skip("this system allows no links")
    permission, caller = EditorPermission(state, ui), _caller()  # type: ignore[arg-type]

    def refusal(*parts: str) -> str:
        return asyncio.run(permission.refusal(tmp_path.joinpath(*parts), caller))

    assert refusal("open", "model.py") == ""
    assert "does not allow" in refusal("open", "linked.py")
    assert "does not allow" in refusal("private", "model.py")
    assert ui.asked == ["open", "private"]
    state.trusted = False
    assert "not trusted" in refusal("open", "model.py")


def _caller() -> Any:
    """The editor asks, never the agent's client."""
    return None
