"""Answers `fuselight/doctor`: the checks of a folder's environment, as a page of Markdown.

Invariant: an untrusted workspace starts no interpreter; to cancel the request ends what it started.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pygls.exceptions import JsonRpcException

from fuselight.doctor import Status
from fuselight_server import convert, doctor
from fuselight_server.features.markdown import plain
from fuselight_server.worker_start import Interpreter

if TYPE_CHECKING:
    from fuselight.doctor import Check
    from fuselight_server.features.protocol import DoctorParams
    from fuselight_server.features.server import Server


async def examine(server: Server, params: DoctorParams) -> str:
    """Answer `fuselight/doctor`. Raises JsonRpcException where there is nothing to ask."""
    if not server.state.trusted:
        raise JsonRpcException(
            "The checks run in the workspace's Python: trust the workspace first.", code=-32803
        )
    path = convert.path(params.folder) if params.folder else None
    folders = [folder for folder in server.state.folders.values() if folder.path]
    folder = server.state.folder_of(path) if path is not None else next(iter(folders), None)
    interpreter = server.analysis.interpreter(folder) if folder is not None else None
    if folder is None or interpreter is None:
        raise JsonRpcException(
            "No Python was found: choose one with `Fuselight: Select Interpreter`.", code=-32803
        )
    environ = {**os.environ, **folder.settings.environment}
    python = Interpreter(interpreter.executable, tuple(interpreter.args))
    found = [check async for check in doctor.examine(python, environ)]
    return page(interpreter.executable, found)


def page(executable: str, found: list[Check]) -> str:
    """Say the checks in Markdown, what is to be mended first."""
    order = [Status.FAILED, Status.WARNING, Status.OK, Status.SKIPPED]
    lines = [
        "# Fuselight: the environment",
        "",
        plain(executable),
        "",
        f"**{plain(doctor.verdict(found))}**",
        "",
    ]
    for check in sorted(found, key=lambda one: order.index(one.status)):
        lines.append(f"- **{doctor.mark(check.status)}** - {plain(check.title)}: {plain(check.found)}")
        if check.mend:
            lines.append(f"  - why it matters: {plain(check.meaning)}")
            lines.append(f"  - what to do: {plain(check.mend)}")
    return "\n".join([*lines, ""])
