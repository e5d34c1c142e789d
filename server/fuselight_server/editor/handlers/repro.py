"""The command and the quick fix that write the smallest program of a fault of the compiler, and open it.

Invariant: it runs because the user asked for it and agreed to runs of the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsprotocol import types

from fuselight_server.base.finding import Finding
from fuselight_server.base.store import Store
from fuselight_server.base.views import view_name
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.handlers.target_at import UNSAVED
from fuselight_server.editor.handlers.views import write_and_show
from fuselight_server.editor.handlers.work_progress import ShownWork, WorkProgress
from fuselight_server.editor.session.repros import SmallProgramText
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN

WRITE_REPRO = "fuselight.server.repro"
_NO_INTERPRETER = "No Python interpreter was found: set `fuselight.interpreter` to one that has torch."
_CODES = frozenset({"FL402", "FL405", "FL801"})
"""Findings whose fault may be the compiler's: it fails, it does not end, its results are wrong."""


class ReproProgress:
    """Shows the searches in progress, and cancels the one that the user cancels."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._progress: WorkProgress[Key] = WorkProgress(server)

    def update(self) -> None:
        """Begin, move on and end what the client shows."""
        active = self._server.repros.active
        self._progress.show(
            {key: ShownWork(search.words, "Writing a repro") for key, search in active.items()}
        )

    def cancel(self, token: str | int) -> bool:
        """Cancel the search that a token belongs to; False where it is none."""
        key = self._progress.work_of(token)
        if key is not None:
            self._server.repros.cancel(key)
        return key is not None


async def write_repro(server: Server, options: dict[str, Any]) -> None:
    """Write the small programs of a target, or of all targets of a file, and open them."""
    path, target = path_in(options), options.get("target")
    if path is None:
        server.ui.say(UNSAVED, error=False)
        return
    name = target if isinstance(target, str) else None
    key = Key(path, "" if name in (None, MAIN) else str(name))
    folder = server.state.folder_of(path)
    interpreter = server.analysis.workers.interpreter(folder)
    if interpreter is None:
        server.ui.say(_NO_INTERPRETER, error=True)
        return
    if not server.analysis.verification_runs.agrees(
        key, lambda: server.spawn(write_repro(server, options), "writing a repro")
    ):
        return
    result = await server.repros.search(key, name, interpreter.executable, folder.settings)
    for message in result.messages:
        server.ui.say(message, error=False)
    for number, program in enumerate(result.programs):
        await _show(server, key, f"{key.name}\0{number}", program)


async def _show(server: Server, key: Key, identity: str, program: SmallProgramText) -> None:
    """Open a program, and before it its issue, so that the program is in front."""
    for ending, text in (("md", program.issue), ("py", program.script)):
        name = view_name("repro", program.name, of=f"{key.path}\0{identity}", ending=ending)
        await write_and_show(server, Store.of(Path(key.path)), name, text.__str__, is_page=False)


def repro_actions(server: Server, finding: Finding, shown: types.Diagnostic) -> Iterator[types.CodeAction]:
    """A quick fix that writes the repro of a finding which may be the compiler's fault."""
    if finding.code not in _CODES:
        return
    given = {
        "uri": server.uri_of(finding.target_path or finding.span.path),
        "target": finding.target or MAIN,
    }
    yield types.CodeAction(
        title="Write a repro for PyTorch: the smallest program that shows this",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown],
        command=types.Command(title="Write a repro", command=WRITE_REPRO, arguments=[given]),
    )


COMMANDS = {WRITE_REPRO: write_repro}
