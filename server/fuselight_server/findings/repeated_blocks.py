"""FL707: a module that is compiled once for each of many equal instances, where once would do.

Invariant: instances are equal in every operator and size. The share counts captured operators; a time in seconds is an
estimate.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from fuselight.report import Phase
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.text import compose
from fuselight_server.formatting import format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import GeneratedGraph, Repeated
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

_LEAST = 0.5
"""Of a graph's operators: below, the rest of the graph takes most of the time anyway."""
_AGAIN = 100
"""Least number of repeated operators for a finding: a second or two of code generation."""


def region_findings(context: Context) -> Iterator[Finding]:
    """A finding for each module with many equal instances in one graph, and for each graph that is there many times."""
    least = context.thresholds.repeats
    if not least:
        return
    told = set()
    for graph in context.report.generated:
        one = graph.repeated
        if one is None or one.count < least or one.operators < one.whole * _LEAST:
            continue
        if _again(one) >= _AGAIN and one.name not in told:
            told.add(one.name)
            yield _in_one_graph(context, graph, one)
    yield from _as_many_graphs(context, least)


def _again(one: Repeated) -> int:
    """Return the number of operators in all instances after the first."""
    return one.operators - one.operators // one.count


def _in_one_graph(context: Context, graph: GeneratedGraph, one: Repeated) -> Finding:
    home = context.innermost_user_frame(one.call)
    if home is None and one.location is not None and context.is_user_file(one.location.path):
        home = one.location
    seconds = next((made.seconds for made in context.report.compiles if made.id == graph.compile_id), None)
    again = _again(one)
    cost = [
        f"{one.operators} of the graph's {one.whole} captured operators are in the {one.count} instances",
        f"{format_percent(again, one.whole)} of all operators are in the instances after the first",
    ]
    if seconds is not None:
        cost.append(
            f"this graph took {seconds:.1f} s to compile here, ~{seconds * again / one.whole:.1f} s of it for those "
            "instances"
        )
    name = one.name.rpartition(".")[2]
    hints = (
        f"Compile each `{name}` instead of the whole model, with `block.compile()`: equal instances share one compile",
        "Or ignore it if compile time does not matter: only one graph fuses kernels across block boundaries",
    )
    return context.finding(
        "FL707",
        title=f"{one.count} equal instances of `{name}` are compiled one by one: one compile of the block is enough",
        message=compose(
            f"The graph contains `{name}` {one.count} times, with the same operators on the same sizes. Each is "
            "captured and compiled separately.",
            cost=cost,
            hints=hints,
        ),
        span=span_of(home) if home else context.target_span(),
        hints=hints,
        related=trail(one.call, without=home, verb="in"),
        count=one.count,
        cost=tuple(cost),
    )


def _as_many_graphs(context: Context, least: int) -> Iterator[Finding]:
    """Graphs whose ATen text is the same, which were generated each by itself."""
    groups: dict[tuple[str, int | None], list[GeneratedGraph]] = defaultdict(list)
    calls = {one.id: one for one in context.report.compiles}
    for graph in context.report.generated:
        made = calls.get(graph.compile_id)
        if graph.aten_key is not None and graph.phase is not Phase.BACKWARD and made is not None:
            groups[graph.aten_key, made.frame].append(graph)
    for (_, frame), graphs in groups.items():
        launches = sum(len(one.kernels) for one in graphs)
        if len(graphs) < least or frame is None or frame >= len(context.report.frames) or not launches:
            continue
        yield _many_graphs(context, graphs, context.report.frames[frame].function, frame, launches)


def _many_graphs(
    context: Context, graphs: list[GeneratedGraph], function: str, frame: int, launches: int
) -> Finding:
    place = context.report.frames[frame].location
    whole = sum(len(one.kernels) for one in context.report.generated if one.phase is not Phase.BACKWARD)
    seconds = {one.id: one.seconds or 0.0 for one in context.report.compiles}
    spent = sum(seconds[one.compile_id] for one in graphs[1:])
    cost = (
        f"{launches} of the target's {whole} launches are in these graphs"
        + (f"; the graphs after the first took {spent:.1f} s to compile here" if spent else ""),
    )
    hints = (
        f"See the recompilation finding of `{function}` for what each compile was specialized to",
        "Pass such values to the block as tensors: it is then compiled once",
    )
    return context.finding(
        "FL707",
        title=f"the same graph of `{function}` is compiled {len(graphs)} times: once is enough",
        message=compose(
            f"`{function}` was compiled {len(graphs)} times to the same operators.", cost=cost, hints=hints
        ),
        span=span_of(place) if context.is_user_file(place.path) else context.target_span(),
        hints=hints,
        count=len(graphs),
        cost=cost,
    )
