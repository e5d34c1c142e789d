"""Comparisons of results with eager mode for the client: the commands that start and end one.

Invariant: a comparison starts only where a run would: in a trusted workspace, with the user's consent, and with an
interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight.shared.report import Tier
from fuselight_server.editor.handlers.commands import path_in, run
from fuselight_server.editor.results.lens_facts import ACCURACY, CANCEL_ACCURACY
from fuselight_server.execution.runs.planning import MAIN

if TYPE_CHECKING:
    from fuselight_server.editor.handlers.server import Server


def start(server: Server, options: dict[str, Any]) -> None:
    """Answer `fuselight.server.accuracy`: compare the calls of a target, or of what a file compiles."""
    run(server, options, Tier.ACCURACY)


def cancel(server: Server, options: dict[str, Any]) -> None:
    """Answer `fuselight.server.cancelAccuracy`: end the comparison of a target, or all of them."""
    path, target = path_in(options), options.get("target")
    keys = [
        key
        for key in (*server.analysis.runs.in_flight, *server.analysis.runs.queue.waiting)
        if key.tier is Tier.ACCURACY
    ]
    if options.get("uri") is not None or target is not None:
        name = "" if target == MAIN else target
        keys = [key for key in keys if (key.path, key.name) == (path, name)]
    server.analysis.runs.cancel(keys)


COMMANDS = {ACCURACY: start, CANCEL_ACCURACY: cancel}
