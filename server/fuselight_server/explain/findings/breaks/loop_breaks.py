"""Graph breaks in loops. In the loops of one function, each of them alone has the whole function run in eager mode.

torch reports the first one and stops. Another one is known only if it is in a function that the loop calls, which torch
compiles separately then. Invariant: only breaks of the report are named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from fuselight.shared.foreign_data import try_parse_expression
from fuselight.shared.report import Break, Location
from fuselight_server.base.formatting import format_place
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import tree_around


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


def loop_words(context: Context, graph_break: Break, home: Location) -> str:
    """What breaks on the line `home` and in which loop of traced code, as ``print in the loop on line 35``.

    `called in the loop on line 35` if only a function that leads to the line is in one; empty if none is.
    """
    for place in reversed(graph_break.stack):
        inner = [
            node
            for node in _loop_nodes(context, place)
            if _is_in(place.line, [_body(node)])
            or (isinstance(node, ast.While) and place.line == node.lineno)
        ]
        if not inner or not context.is_user_file(place.path):
            continue
        line = max(node.lineno for node in inner)
        at = f"line {line}" if place.path == home.path else format_place(place.path, line)
        is_here = (place.path, place.line) == (home.path, home.line)
        what = _called(context, graph_break.stack[-1]) if is_here else f"{home.function or 'it'} is called"
        return f"{what} in the loop on {at}".lstrip()
    return ""


def _called(context: Context, broke: Location) -> str:
    """The name of what a line calls where it broke, as `print` or `.item()`; empty for all else than a call."""
    text = context.read_line(broke.path, broke.line) or ""
    part = text.encode()[broke.column or 0 : broke.end_column].decode(errors="replace")
    node = try_parse_expression(part)
    if node is None:
        return ""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and not isinstance(called.value, ast.Name):
        return f".{called.attr}()"
    return ast.unparse(called) if isinstance(called, (ast.Attribute, ast.Name)) else ""


def _loops(context: Context, place: Location) -> Iterator[tuple[int, int]]:
    """The first and the last line of the body of each loop of the function around a line."""
    yield from map(_body, _loop_nodes(context, place))


def _loop_nodes(context: Context, place: Location) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    for node in ast.walk(tree_around(context, place) or ast.Module([], [])):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            yield node


def _body(loop: ast.For | ast.AsyncFor | ast.While) -> tuple[int, int]:
    """The first and the last line of its body."""
    return loop.body[0].lineno, loop.body[-1].end_lineno or loop.body[-1].lineno


def _is_in(line: int, loops: Iterable[tuple[int, int]]) -> bool:
    return any(start <= line <= end for start, end in loops)
