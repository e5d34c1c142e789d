"""What a lens or a quick fix runs, for each client: a command of its own, the server's in its place, or none.

Invariant: a client is given no command that neither it nor the server has. Lenses name the client's commands, and are
translated here alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.presenters.lens import Lens
from fuselight_server.editor.results.lens_facts import (
    ASK_BENCHMARK,
    ASK_TUNE,
    BENCH,
    DETAILS,
    SHOW_BENCHMARK,
    SHOW_JOB,
    SHOW_KERNEL,
    SHOW_TUNING,
    TUNE,
)

OF_SERVER = "fuselight.server."
"""Begins the commands that the server answers."""
OPEN_PAGE = "fuselight.openPage"
"""The client's command that opens a page of the documentation: in a browser or on a remote host only it knows how."""

SERVER_DETAILS = f"{OF_SERVER}showDetails"
SERVER_KERNEL = f"{OF_SERVER}showKernel"
SERVER_BENCHMARK = f"{OF_SERVER}showBenchmark"
SERVER_TUNING = f"{OF_SERVER}showTuning"
SERVER_JOB = f"{OF_SERVER}showJob"
SERVER_PAGE = f"{OF_SERVER}openPage"
NO_ACTION = f"{OF_SERVER}noAction"
"""Of a lens that only informs, for clients that run the command of every lens."""

_SERVED = {
    DETAILS: SERVER_DETAILS,
    SHOW_KERNEL: SERVER_KERNEL,
    SHOW_BENCHMARK: SERVER_BENCHMARK,
    SHOW_TUNING: SERVER_TUNING,
    SHOW_JOB: SERVER_JOB,
    OPEN_PAGE: SERVER_PAGE,
    ASK_BENCHMARK: BENCH,
    ASK_TUNE: TUNE,
}
"""The server's command that does what one of the client's does, with the same arguments."""


def command_for(name: str, client: ClientFeatures) -> str:
    """Return the command that does what `name` does; empty where none does."""
    if name in client.commands or name.startswith(OF_SERVER):
        return name
    return _SERVED.get(name, "")


def lenses_for(lenses: Iterable[Lens], client: ClientFeatures) -> list[Lens]:
    """Return lenses as the client runs them."""
    shown = []
    for lens in lenses:
        command = lens["command"]
        name = command_for(command["command"], client)
        if not name:
            name = "" if client.text_lenses else NO_ACTION
        shown.append(
            lens if name == command["command"] else {**lens, "command": {**command, "command": name}}
        )
    return shown
