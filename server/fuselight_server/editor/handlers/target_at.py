"""Which target a line or a command means: `fuselight/targetAt`, and the target of a benchmark or a search.

Invariant: the answer depends on the source alone, so that it is the same with lenses switched off.
"""

from __future__ import annotations

import os
from typing import Any

from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.answers import TargetAt
from fuselight_server.editor.messages.params import TargetAtParams
from fuselight_server.editor.presenters import convert
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.source.reading import Reading


def answer(server: Server, params: TargetAtParams) -> TargetAt:
    """Answer `fuselight/targetAt`: the target's name as commands take it; None where the whole file is meant."""
    path, line = convert.path(params.uri), convert.line_of(params.line)
    reading = server.analysis.targets.reading(path) if path is not None else None
    if reading is None or line is None:
        return {"target": None}
    name = target_at(reading, line + 1, line + 1)
    if name is None:
        name = _nearest_above(reading, line + 1)
    elif name == "":
        return {"target": MAIN}
    target = next((static_target for static_target in reading.targets if static_target.name == name), None)
    serving = reading.serving(target) if target is not None else None
    return {"target": serving.name if serving is not None else name}


UNSAVED = "Fuselight runs files only: save this to a file first."


class NoTargetError(Exception):
    """A command cannot run what it names; the message says what to do."""


def asked_target(server: Server, path: str | None, options: dict[str, Any], lens: str) -> tuple[Reading, str]:
    """Return the file and the name of the target that a command names, empty for the `__main__` block.

    `lens`: the title of the lens that does the same. Raises NoTargetError.
    """
    if path is None:
        raise NoTargetError(UNSAVED)
    if not server.state.trusted:
        raise NoTargetError("Fuselight runs no code in a workspace that is not trusted.")
    reading = server.analysis.targets.reading(path)
    if reading is None:
        raise NoTargetError(f"{os.path.basename(path)} cannot be read.")  # noqa: PTH119 - paths stay text
    name = _wanted(reading, options)
    if name is None:
        named = options.get("target")
        there = f"There is no `{named}` in this file" if isinstance(named, str) else "No target is here"
        raise NoTargetError(f"{there}: point at a class or function, or press {lens} above one.")
    return reading, name


def _wanted(reading: Reading, options: dict[str, Any]) -> str | None:
    """Name the target that is asked for, empty for the `__main__` block; None where there is none."""
    named = options.get("target")
    if isinstance(named, str):
        name = "" if named == MAIN else named
        there = any(target.name == name for target in reading.targets) or (
            not name and reading.main_line is not None
        )
        return name if there else None
    first, last = (convert.line_of(options.get(name)) for name in ("line", "last"))
    if first is None:
        return None
    return target_at(reading, first + 1, max(first, last or 0) + 1)


def target_at(reading: Reading, first: int, last: int) -> str | None:
    """Name the innermost target that holds these 1-based lines, with its decorators and the directives above it.

    Empty for the `__main__` block; None for none.
    """
    around = []
    for target in reading.targets:
        top = min(
            [target.span.line, target.name_span.line, *(directive.line for directive in target.directives)]
        )
        if top <= first and last <= (target.span.end_line or target.span.line):
            around.append((top, target.name))
    if around:
        return max(around)[1]
    main = reading.main_line
    return "" if main is not None and main <= first else None


def _nearest_above(reading: Reading, line: int) -> str | None:
    above = [
        (target.name_span.line, target.name) for target in reading.targets if target.name_span.line <= line
    ]
    return max(above)[1] if above else None
