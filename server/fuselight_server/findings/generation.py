"""FL703 and FL704: a dtype that the target device has no unit for, and a graph without kernels.

Invariant: one finding per dtype, and one per graph that failed; a target for which nothing was generated has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.devices import lacks
from fuselight_server.findings.context import span_of
from fuselight_server.findings.text import compose, plain, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import GeneratedGraph, Location
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context


def generation_findings(context: Context) -> Iterator[Finding]:
    """The findings about what could not, or should not, be generated for the device."""
    yield from _lacking(context)
    for graph in context.report.generated:
        if graph.failure is not None:
            yield _failed(context, graph, graph.failure)


def _lacking(context: Context) -> Iterator[Finding]:
    device = context.report.target_device
    if device is None:
        return
    places: dict[str, Location | None] = {}
    for graph in context.report.generated:
        for kernel in graph.kernels:
            if kernel.dtype is not None and places.get(kernel.dtype) is None:
                places[kernel.dtype] = context.innermost_ours(*(one.stack for one in kernel.operators))
    for dtype, place in places.items():
        words = lacks(device, dtype)
        if words is not None:
            yield context.finding(
                "FL703",
                title=f"{device.name} has no fast unit for {dtype}",
                message=compose(sentence(plain(words))),
                span=span_of(place) if place else context.target_span(),
            )


def _failed(context: Context, graph: GeneratedGraph, why: str) -> Finding:
    device = context.report.target_device
    compiled = next((one for one in context.report.compiles if one.id == graph.compile_id), None)
    frames = context.report.frames
    home = frames[compiled.frame].location if compiled and compiled.frame < len(frames) else None
    return context.finding(
        "FL704",
        title=f"no kernels for the {graph.phase.value} graph: {plain(why.splitlines()[0])}",
        message=compose(
            sentence(plain(why)),
            f"Inductor gave up on this graph for {device.name if device else 'the device'}; the other graphs of the "
            "target have theirs.",
        ),
        span=span_of(home) if home and context.is_ours(home) else context.target_span(),
    )
