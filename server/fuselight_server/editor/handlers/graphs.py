"""The graphs of a target as a picture for the client: `fuselight/graphs`. The client lays out and draws.

Invariant: each box with a line names where that line is now; a target that has not run is answered with what to do,
never with an error.
"""

from __future__ import annotations

import os

from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_place, format_target
from fuselight_server.editor.handlers.protocol import Written, written_page
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.params import GraphsParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.report_nodes import shown_results
from fuselight_server.editor.results.drawn_graphs import drawn_graphs, no_graphs
from fuselight_server.editor.results.lens_facts import kernel_summary
from fuselight_server.editor.results.target_lens import summary
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.graphs import Box, Member
from fuselight_server.explain.graphs.folding import LISTED
from fuselight_server.explain.graphs.page_types import (
    GraphArrow,
    GraphBox,
    GraphMember,
    GraphPicture,
    GraphPlace,
    LinePosition,
    LineRange,
    OfferedTarget,
)


def answer(server: Server, params: GraphsParams) -> Written:
    """Answer `fuselight/graphs`."""
    return Written(written_page(graphs(server, params)))


def graphs(server: Server, params: GraphsParams) -> GraphPicture:
    """Make that answer: the picture of a target, and which targets there are to choose from."""
    path = convert.path(params.uri)
    of_jobs = [
        (job.capture, job.kernels) for job in server.state.jobs.of_file(path) if job.capture is not None
    ]
    shown = [*shown_results(server.state, path), *of_jobs]
    targets = tuple(
        OfferedTarget(server.uri_of(result.key.path), result.key.name, format_target(result.key.name))
        for result, _ in shown
    )
    name = "" if params.target == MAIN else params.target
    results_of_target = [pair for pair in shown if (pair[0].key.path, pair[0].key.name) == (path, name)]
    if name is None and len(shown) == 1:
        results_of_target = shown
    if not results_of_target:
        file = os.path.basename(path or params.uri)  # noqa: PTH119 - paths stay text
        message = no_graphs(file, params.target)
        return GraphPicture(
            found=False,
            title=file if params.target is None else format_target(params.target),
            description="",
            message=message,
            boxes=(),
            arrows=(),
            targets=targets,
        )
    result, kernels = results_of_target[0]
    drawn = drawn_graphs(result, kernels, server.state.documents.read_line)
    return GraphPicture(
        found=True,
        title=format_target(result.key.name),
        description=summary(result) + (f"; {kernel_summary(kernels)}" if kernels is not None else ""),
        message="",
        boxes=tuple(_box(box, server.view) for box in drawn.boxes),
        arrows=tuple(GraphArrow(arrow.start, arrow.end, arrow.kind) for arrow in drawn.arrows),
        targets=targets,
    )


def _box(box: Box, view: convert.Client) -> GraphBox:
    at = _place(box.at, view)
    return GraphBox(
        at.place,
        at.uri,
        at.range,
        id=box.id,
        kind=box.kind,
        name=box.name,
        title=box.title,
        facts=box.facts,
        frame=box.frame,
        again=box.again,
        count=len(box.members) or 1,
        members=tuple(_member(member, view) for member in box.members[:LISTED]),
    )


def _member(member: Member, view: convert.Client) -> GraphMember:
    at = _place(member.at, view)
    return GraphMember(at.place, at.uri, at.range, member.label)


def _place(at: Span | None, view: convert.Client) -> GraphPlace:
    if at is None:
        return GraphPlace("", None, None)
    ends = convert.plain_range(at, view)
    whole = LineRange(LinePosition(**ends["start"]), LinePosition(**ends["end"]))
    return GraphPlace(format_place(at.path, at.line), view.uri_of(at.path), whole)
