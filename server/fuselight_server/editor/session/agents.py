"""Agents that are attached to this editor: what they may read, who is asked before code runs, and the unsaved texts.

Invariant: an agent runs code of a folder only after the user has agreed to that for agents: it may have written the
code itself, so that the answer about the user's own runs does not count.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fuselight_server.agents.attachment.listener import AgentListener
from fuselight_server.agents.protocol.toolbox import Caller, Toolbox
from fuselight_server.base.files import within
from fuselight_server.base.settings import Interpreter
from fuselight_server.commands.options import RunSettings
from fuselight_server.editor.session.consent import LATER, NEVER, RUN
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Question, Ui


class AttachedAgents:
    """The listener for agents, which serves while the setting is on and the workspace is trusted."""

    def __init__(self, state: State, ui: Ui, interpreter: Callable[[Folder], Interpreter | None]) -> None:
        """`interpreter`: that of a folder's models."""
        self._state = state
        self._interpreter = interpreter
        self._permission = EditorPermission(state, ui)
        self._turn: asyncio.Lock | None = None
        self._changing = asyncio.Lock()
        self._listener = AgentListener(self._toolbox)

    async def apply(self) -> str:
        """Listen or stop, as the settings and the trust are now; the folder of the address, empty without one."""
        async with self._changing:
            if not (self._state.trusted and self._state.outside_settings().agents):
                await self._listener.close()
                return ""
            try:
                return (await self._listener.start([str(folder) for folder in self._folders()])).folder
            except OSError as error:
                self._state.log(f"agents cannot attach: {error}")
                return ""

    def forget_folder(self, folder: Folder) -> None:
        """Ask again before an agent runs code of a folder."""
        self._permission.forget_folder(folder)

    async def close(self) -> None:
        """End all conversations."""
        async with self._changing:
            await self._listener.close()

    def _folders(self) -> Sequence[Path]:
        return [Path(folder.path) for folder in self._state.folders.values() if folder.uri is not None]

    def unsaved_texts(self) -> Mapping[str, str]:
        """The texts of open documents that are not saved, by path."""
        roots = tuple(folder.path for folder in self._state.folders.values() if folder.uri is not None)
        return self._state.documents.overlays(roots, "")

    def _python(self, path: Path) -> str | None:
        chosen = self._interpreter(self._state.folder_of(str(path)))
        return chosen.executable if chosen is not None else None

    def _settings(self, path: Path) -> RunSettings:
        return RunSettings.of(self._state.folder_of(str(path)).settings)

    def _idle_seconds(self, path: Path) -> float:
        return self._state.folder_of(str(path)).settings.idle_minutes * 60

    def _toolbox(self) -> Toolbox:
        # Imported with the first agent: the tools take a part of a second.
        from fuselight_server.agents.host import AgentHost  # noqa: PLC0415
        from fuselight_server.agents.session import AgentSession  # noqa: PLC0415
        from fuselight_server.agents.toolbox import AgentToolbox  # noqa: PLC0415

        self._turn = self._turn or asyncio.Lock()
        host = AgentHost(
            folders=self._folders,
            permission=self._permission,
            texts=self.unsaved_texts,
            python=self._python,
            settings=self._settings,
            idle_seconds=self._idle_seconds,
            log=self._state.log,
        )
        return AgentToolbox(AgentSession(host, self._turn))


class EditorPermission:
    """Asks the user of the editor, once for each folder until it is answered."""

    def __init__(self, state: State, ui: Ui) -> None:
        self._state = state
        self._ui = ui
        self._answers: dict[str, str] = {}
        self._asked: dict[str, asyncio.Task[str]] = {}

    async def refusal(self, path: Path, caller: Caller) -> str:  # noqa: ARG002 - the editor asks by itself
        """Why the code of a file or folder may not run; empty if it may."""
        if not self._state.trusted:
            return "The workspace is not trusted in the editor, so that no code runs."
        folder = self._folder_of(path)
        answer = self._answers.get(folder.path)
        if answer is None:
            answer = await self._answer(folder)
        if answer == RUN:
            return ""
        if answer == NEVER:
            return f"The user does not allow agents to run code of `{folder.path}`. Nothing was run."
        return f"The user has not allowed agents to run code of `{folder.path}` yet. Nothing was run."

    def forget_folder(self, folder: Folder) -> None:
        """Forget the answer about a folder."""
        self._answers.pop(folder.path, None)

    def _folder_of(self, path: Path) -> Folder:
        """The workspace folder that has the code itself: a link may name a file of another one."""
        real = os.path.realpath(path)
        holding = [
            (len(root), folder)
            for folder in self._state.folders.values()
            if folder.uri is not None and within(real, root := os.path.realpath(folder.path))
        ]
        return max(holding, key=lambda item: item[0])[1] if holding else self._state.folder_of(str(path))

    async def _answer(self, folder: Folder) -> str:
        # Calls that come while a question is shown wait for its answer; a call that is canceled leaves it shown.
        if folder.path not in self._asked:
            self._asked[folder.path] = asyncio.ensure_future(self._ask(folder))
        return await asyncio.shield(self._asked[folder.path])

    async def _ask(self, folder: Folder) -> str:
        question = Question(
            folder,
            "Let a coding agent run code of this folder under torch.compile?",
            f"An agent that is attached to Fuselight asks to import and call code of {folder.path}, "
            "also code that it has written itself.",
            {"Allow": RUN, "Not in This Folder": NEVER, "Later": LATER},
            is_for_agents=True,
            explicit=True,
        )
        try:
            answer = await self._ui.confirm(question)
        except Exception as error:  # noqa: BLE001 - a client that cannot ask has not agreed
            self._state.log(f"the question about agents in {folder.path} was not answered: {error!r}")
            answer = LATER
        finally:
            self._asked.pop(folder.path, None)
        if answer in {RUN, NEVER}:
            self._answers[folder.path] = answer
        return answer
