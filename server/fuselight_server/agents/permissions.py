"""Consent in a server that a terminal started: a flag, or a question to the user where the client shows questions.

Invariant: without the flag and without the user's answer, no user code runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fuselight_server.agents.protocol.toolbox import Caller
from fuselight_server.base.files import within


def _real(path: Path) -> str:
    return os.path.realpath(path)


class FlagPermission:
    """The folders in which user code may run: those of the flag, and those that the user has allowed since then."""

    def __init__(self, allowed: Sequence[Path], folders: Sequence[Path]) -> None:
        """`folders`: those of the server. The user is asked for one of them as a whole."""
        self._allowed = [os.path.realpath(path) for path in allowed]
        self._folders = [os.path.realpath(path) for path in folders]
        self._has_flag = bool(allowed)

    async def refusal(self, path: Path, caller: Caller) -> str:
        """Why the code of a file or folder may not run; empty if it may. Asks once for each folder and each answer."""
        real = _real(path)
        if self._allows(real):
            return ""
        folder = next((folder for folder in self._folders if within(real, folder)), real)
        answer = await caller.ask(
            f"Allow Fuselight to run the Python code in `{folder}`? It imports the files that the agent names, and "
            "calls their models, until this server ends."
        )
        if answer:
            self._allowed.append(folder)
            return ""
        if answer is False:
            return f"The user did not allow code in `{folder}` to run. Nothing was run."
        return self._how_to_allow(real)

    def _allows(self, real: str) -> bool:
        return any(within(real, folder) for folder in self._allowed)

    def _how_to_allow(self, real: str) -> str:
        if not self._has_flag:
            return (
                "This tool runs the user's code, which this server may not do. The user allows it by starting the "
                "server with `fuselight mcp --allow-run`, or with `--allow-run PATH` for a part of the project."
            )
        allowed = ", ".join(f"`{folder}`" for folder in self._allowed)
        return (
            f"Code in `{real}` may not run: this server was started with `--allow-run` for {allowed}. "
            "The user can add the path to that option."
        )
