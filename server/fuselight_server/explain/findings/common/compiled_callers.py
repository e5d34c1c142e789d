"""Which compiled code calls a function that torch compiled separately: torch refuses to mark sizes there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fuselight.shared.report import Frame, Location, Outcome, Recompile, Report
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around


def is_called_in_compiled_code(report: Report, recompilation: Recompile) -> bool:
    """Whether a function above the call is compiled, also one that goes on after a graph break."""
    compiled = {
        record.frame for record in report.compiles if record.outcome in {Outcome.COMPILED, Outcome.EMPTY}
    }
    frames = [frame for index, frame in enumerate(report.frames) if index in compiled]
    return next(_callers(frames, recompilation), None) is not None


def outer_frame(report: Report, recompilation: Recompile) -> Frame | None:
    """The function whose calls lead to one that torch compiled separately; None for one that is called itself."""
    outer = next(_callers(report.frames, recompilation), None)
    return None if outer is None or outer.location == recompilation.location else outer


def is_handed_on(context: Context, recompilation: Recompile, outer: Frame, name: str) -> bool:
    """Whether a parameter of the outer function reaches the inner one under its name, as far as the source shows it.

    `boxes[order]`, passed as `boxes`, is another tensor than the `boxes` of the outer function.
    """
    if name not in outer.parameters:
        return False
    places = [place for place in recompilation.caller if context.is_user_file(place.path)]
    below = next((number for number, place in enumerate(places) if _is_in(outer, place)), len(places))
    return all(_passes(context, place, name) for place in places[below:])


def _is_in(frame: Frame, place: Location) -> bool:
    is_below = place.path == frame.location.path and frame.location.line <= place.line
    return is_below and _is_same_function(place.function, frame.function)


def _passes(context: Context, place: Location, name: str) -> bool:
    """Whether a line passes a name as it is to what it calls; of a line without a call, nothing is known."""
    tree = tree_around(context, place)
    calls = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Call) and node.lineno <= place.line <= (node.end_lineno or node.lineno)
    ]
    passed = (part for call in calls for part in (*call.args, *(item.value for item in call.keywords)))
    return not calls or any(isinstance(part, ast.Name) and part.id == name for part in passed)


def is_called_by(frame: Frame, recompilation: Recompile) -> bool:
    """Whether a function is on the stack above the one that was compiled again."""
    return next(_callers((frame,), recompilation), None) is not None


def _callers(frames: Sequence[Frame], recompilation: Recompile) -> Iterator[Frame]:
    """The frames that are on the stack above a recompilation, the outermost first."""
    for place in recompilation.caller:
        above = [
            frame
            for frame in frames
            if place.path == frame.location.path
            and frame.location.line <= place.line
            and _is_same_function(place.function, frame.function)
        ]
        nearest = max(
            (frame.location.line for frame in above), default=0
        )  # two classes may have a `forward` each
        yield from (frame for frame in above if frame.location.line == nearest)


def _is_same_function(name: str | None, other: str) -> bool:
    """Whether two names can be of one function: a stack may have the last part of it alone."""
    if name is None:
        return False
    if "." in name and "." in other:
        return name == other
    return name.rpartition(".")[2] == other.rpartition(".")[2]
