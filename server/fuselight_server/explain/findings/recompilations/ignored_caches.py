"""FL204: a function whose results `functools` caches, and whose body compiled code runs in each call.

Invariant: one finding for each such function that has operators in a graph, where no recompilation names the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight.shared.report import Compile, Location, Stack
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_count
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import cached_function_around
from fuselight_server.explain.findings.recompilations.value_remedies import cached_function

_Place = tuple[str, str | None]
"""The file and the function of a frame."""


def ignored_cache_findings(context: Context) -> Iterator[Finding]:
    """The findings of the functions whose caches compiled code does not use."""
    cached = _cached_functions(context)
    known = _known(context)
    for place, function in cached.items():
        if function is None or function in known:
            continue
        graphs = [(compiled, _stacks(compiled, place)) for compiled in context.report.compiles]
        compiled, stacks = max(graphs, key=lambda graph: len(graph[1]))
        call = _call_of(context, stacks[0], place) or function
        operators = format_count(len(stacks), "operator")
        yield context.finding(
            "FL204",
            f"compiled code does not use the cache of `{function.function}`",
            "The cache that functools adds holds results of eager mode: compiled code runs the body in each call.",
            at=call,
            cost=(f"{operators} of `{function.function}` run in each call of the compiled code",),
            hints=(
                "Expect it where the body is cheap: torch can fuse its operators with those around them",
                f"Or call `{function.function}` outside the compiled code, where its cache works, and pass the result",
            ),
            call=compiled.call,
            subject=function.function or "",
        )


def _cached_functions(context: Context) -> dict[_Place, Location | None]:
    """Each function of the user's that has operators in a graph, and its definition if its results are cached."""
    cached: dict[_Place, Location | None] = {}
    for compiled in context.report.compiles:
        for stack in compiled.graph.lines if compiled.graph is not None else ():
            for frame in stack:
                place = frame.path, frame.function
                if place not in cached and context.is_user_file(frame.path):
                    cached[place] = cached_function_around(context, frame)
    return cached


def _known(context: Context) -> set[Location]:
    """The functions of which a recompilation says it."""
    failures = (
        failure
        for recompilation in context.report.recompiles
        for entry in recompilation.entries
        for failure in entry.failures
    )
    return {function for failure in failures if (function := cached_function(context, failure)) is not None}


def _stacks(compiled: Compile, place: _Place) -> list[Stack]:
    """The stacks of the operators of one compile that a function makes."""
    lines = compiled.graph.lines if compiled.graph is not None else ()
    return [stack for stack in lines if any((frame.path, frame.function) == place for frame in stack)]


def _call_of(context: Context, stack: Stack, place: _Place) -> Location | None:
    """The line of the user's that calls the function."""
    index = next(number for number, frame in enumerate(stack) if (frame.path, frame.function) == place)
    return context.innermost_user_frame(stack[:index])
