"""Which target a line means: `fuselight/targetAt`, for the commands that run the target at the cursor.

Invariant: the answer depends on the source alone, so that it is the same with lenses switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.features import convert
from fuselight_server.runs.planning import MAIN

if TYPE_CHECKING:
    from fuselight_server.features.protocol import TargetAtParams
    from fuselight_server.features.server import Server
    from fuselight_server.static.reading import Reading


def answer(server: Server, params: TargetAtParams) -> dict[str, str | None]:
    """Answer `fuselight/targetAt`: the target's name as commands take it; None where the whole file is meant."""
    path, line = convert.path(params.uri), convert.line_of(params.line)
    reading = server.analysis.reading(path) if path is not None else None
    if reading is None or line is None:
        return {"target": None}
    name = target_at(reading, line + 1, line + 1)
    if name is None:
        name = _nearest_above(reading, line + 1)
    elif name == "":
        return {"target": MAIN}
    target = next((one for one in reading.targets if one.name == name), None)
    serving = reading.serving(target) if target is not None else None
    return {"target": serving.name if serving is not None else name}


def target_at(reading: Reading, first: int, last: int) -> str | None:
    """Name the innermost target that holds these 1-based lines, with its decorators and the directives above it.

    Empty for the `__main__` block; None for none.
    """
    around = []
    for one in reading.targets:
        top = min([one.span.line, one.name_span.line, *(directive.line for directive in one.directives)])
        if top <= first and last <= (one.span.end_line or one.span.line):
            around.append((top, one.name))
    if around:
        return max(around)[1]
    main = reading.main_line
    return "" if main is not None and main <= first else None


def _nearest_above(reading: Reading, line: int) -> str | None:
    above = [(one.name_span.line, one.name) for one in reading.targets if one.name_span.line <= line]
    return max(above)[1] if above else None
