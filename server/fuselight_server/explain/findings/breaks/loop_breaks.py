"""Graph breaks in the loops of one function: each of them alone has the whole function run in eager mode.

torch reports the first one and stops. Another one is known only if it is in a function that the loop calls, which torch
compiles separately then. Invariant: only breaks of the report are named.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from fuselight_server.explain.findings.common.source_tree import tree_around

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight.shared.report import Location
    from fuselight_server.explain.findings.common.context import Context


def lines_in_loops(context: Context, skipped: Location) -> tuple[int, ...]:
    """The lines of a function whose breaks in a loop skip it, where `skipped` is one of several; empty for one alone.

    `skipped`: the line of the function at which torch gave up.
    """
    loops = list(_loops(context, skipped))
    if not _is_in(skipped.line, loops):
        return ()
    lines = {
        place.line
        for graph_break in context.report.breaks
        for place in (*graph_break.above, *graph_break.stack)
        if place.path == skipped.path and _is_in(place.line, loops)
    }
    lines.add(skipped.line)
    return tuple(sorted(lines)) if len(lines) > 1 else ()


def skipped_around(context: Context, places: Iterable[Location]) -> Location | None:
    """The break that skips a function through a loop of which a chain of calls leads; None where none does."""
    skipped = [item for item in context.report.breaks if item.frame_skipped and item.stack]
    for place in places:
        for item in skipped:
            broke = item.stack[0]
            if (
                broke.path == place.path
                and place.line in lines_in_loops(context, broke)
                and place.line != broke.line
            ):
                return broke
    return None


def _loops(context: Context, place: Location) -> Iterator[tuple[int, int]]:
    """The first and the last line of the body of each loop of the function around a line."""
    for node in ast.walk(tree_around(context, place) or ast.Module([], [])):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            yield node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno


def _is_in(line: int, loops: Iterable[tuple[int, int]]) -> bool:
    return any(start <= line <= end for start, end in loops)
