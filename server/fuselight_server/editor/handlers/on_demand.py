"""Comparisons with eager mode and estimates of memory for the client: the commands that start and end one.

Invariant: a run starts only where a capture would: in a trusted workspace, with the user's consent, and with an
interpreter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fuselight.shared.report import Tier
from fuselight_server.editor.handlers.commands import path_in, run
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.results.lens_facts import ACCURACY, CANCEL_ACCURACY, CANCEL_MEMORY, MEMORY
from fuselight_server.execution.runs.planning import MAIN


def start(server: Server, options: dict[str, Any], *, tier: Tier) -> None:
    """Start a run of a tier: of a target, or of what a file compiles."""
    run(server, options, tier)


def cancel(server: Server, options: dict[str, Any], *, tier: Tier) -> None:
    """End the run of a target, or all runs of the tier."""
    path, target = path_in(options), options.get("target")
    keys = [
        key
        for key in (*server.analysis.runs.in_flight, *server.analysis.runs.queue.waiting)
        if key.tier is tier
    ]
    if options.get("uri") is not None or target is not None:
        name = "" if target == MAIN else target
        keys = [key for key in keys if (key.path, key.name) == (path, name)]
    server.analysis.runs.cancel(keys)


COMMANDS: dict[str, Callable[[Server, dict[str, Any]], None]] = {
    ACCURACY: functools.partial(start, tier=Tier.ACCURACY),
    CANCEL_ACCURACY: functools.partial(cancel, tier=Tier.ACCURACY),
    MEMORY: functools.partial(start, tier=Tier.MEMORY),
    CANCEL_MEMORY: functools.partial(cancel, tier=Tier.MEMORY),
}
