"""Answers `fuselight/doctor`: the checks of a folder's environment, as a page of Markdown.

Invariant: no interpreter is started in an untrusted workspace or without the user's agreement. Canceling the request
ends the process.
"""

from __future__ import annotations

import os

from pygls.exceptions import JsonRpcException

from fuselight.doctor import Check, Status
from fuselight_server.base.markdown import plain
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.params import FolderParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.session.consent import NEVER
from fuselight_server.execution import doctor


async def examine(server: Server, params: FolderParams) -> str:
    """Answer `fuselight/doctor`. Raises JsonRpcException where no interpreter may be started."""
    if not server.state.trusted:
        raise _refusal("The checks run in the workspace's Python: trust the workspace first.")
    path = convert.path(params.folder) if params.folder else None
    folders = [folder for folder in server.state.folders.values() if folder.path]
    folder = server.state.folder_of(path) if path is not None else next(iter(folders), None)
    interpreter = server.analysis.workers.interpreter(folder) if folder is not None else None
    if folder is None or interpreter is None:
        raise _refusal("No Python was found: choose one with `Fuselight: Select Interpreter`.")
    if not await server.analysis.consent.agrees_to_start(folder, interpreter.executable):
        raise _refusal(
            "Fuselight won't run code here: you turned off runs for this folder. "
            "Use `Fuselight: Ask Again Before Running Code in This Folder` to change that."
            if folder.consent == NEVER
            else "The checks need your agreement to start Python."
        )
    environ = {**os.environ, **folder.settings.environment}
    checks = [check async for check in doctor.examine(interpreter, environ)]
    return page(interpreter.executable, checks)


def _refusal(message: str) -> JsonRpcException:
    return JsonRpcException(message, code=-32803)


def page(executable: str, checks: list[Check]) -> str:
    """Make a page of Markdown, with the failed checks first."""
    order = [Status.FAILED, Status.WARNING, Status.OK, Status.SKIPPED]
    lines = [
        "# Fuselight: the environment",
        "",
        plain(executable),
        "",
        f"**{plain(doctor.verdict(checks))}**",
        "",
    ]
    for check in sorted(checks, key=lambda check: order.index(check.status)):
        lines.append(f"- **{doctor.MARKS[check.status]}** - {plain(check.title)}: {plain(check.found)}")
        if check.fix:
            lines.append(f"  - why it matters: {plain(check.meaning)}")
            lines.append(f"  - what to do: {plain(check.fix)}")
    return "\n".join([*lines, ""])
