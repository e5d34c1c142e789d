"""The graphs of a target as a picture for the client: `fuselight/graphs`. The client lays out and draws.

Invariant: each box with a line names where that line is now; a target that has not run is answered with what to do,
never with an error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fuselight_server.base.formatting import format_place
from fuselight_server.editor.handlers.code_lens import summary
from fuselight_server.editor.handlers.protocol import Written, written
from fuselight_server.editor.handlers.report_tree import shown_results
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.lens import STALE, kernel_summary
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.graphs import fold, picture
from fuselight_server.explain.graphs.folding import LISTED
from fuselight_server.source.positions import span

if TYPE_CHECKING:
    from fuselight.shared.report import Location
    from fuselight_server.base.finding import Span
    from fuselight_server.editor.handlers.protocol import GraphsParams
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.results.kernels import KernelResult
    from fuselight_server.explain.graphs import Box, Picture


def answer(server: Server, params: GraphsParams) -> Written:
    """Answer `fuselight/graphs`."""
    return Written(written(graphs(server, params)))


def graphs(server: Server, params: GraphsParams) -> dict[str, Any]:
    """Make that answer: the picture of a target, and which targets there are to choose from."""
    path = convert.path(params.uri)
    shown = shown_results(server.state, path)
    targets = [
        {"uri": server.uri_of(result.key.path), "target": result.key.name, "label": result.key.name or MAIN}
        for result, _ in shown
    ]
    name = "" if params.target == MAIN else params.target
    found = [one for one in shown if (one[0].key.path, one[0].key.name) == (path, name)]
    if name is None and len(shown) == 1:
        found = shown
    if not found:
        file = os.path.basename(path or params.uri)  # noqa: PTH119 - paths stay text
        return {
            "found": False,
            "title": params.target or file,
            "description": "",
            "message": _nothing(file, params.target),
            "boxes": [],
            "arrows": [],
            "targets": targets,
        }
    result, kernels = found[0]
    drawn = _drawn(server, result, kernels)
    return {
        "found": True,
        "title": result.key.name or MAIN,
        "description": summary(result) + (f"; {kernel_summary(kernels)}" if kernels is not None else ""),
        "message": "",
        "boxes": [_box(box, server.view) for box in drawn.boxes],
        "arrows": [{"start": one.start, "end": one.end, "kind": one.kind.value} for one in drawn.arrows],
        "targets": targets,
    }


def _drawn(server: Server, result: CaptureResult, kernels: KernelResult | None) -> Picture:
    shown = result.shown
    generated = None if kernels is None else kernels.shown

    def now(at: Location) -> Span | None:
        if not os.path.isabs(at.path):  # noqa: PTH117 - paths stay text
            return None
        place = shown.places.add(span(at))
        return None if place.gone else place.span

    made = picture(
        shown.report,
        kernels=None if generated is None else generated.report,
        # After an edit the lines are not those that ran: their text is left out.
        read_line=None if shown.stale else server.state.read_line,
        now=now,
        text_now=shown.places.text_now,
        suffix=f" ({STALE})" if generated is not None and generated.stale else "",
    )
    return fold(made)


def _nothing(file: str, target: str | None) -> str:
    what = "any target" if target is None else target or MAIN
    return (
        f"No graphs of {what} in {file} are available: it has not run since this window was opened. "
        "Save the file, or press Run above the target."
    )


def _box(box: Box, view: convert.Client) -> dict[str, Any]:
    return {
        "id": box.id,
        "kind": box.kind.value,
        "name": box.name,
        "title": box.title,
        "facts": list(box.facts),
        "frame": box.frame,
        "again": box.again,
        **_place(box.at, view),
        "count": len(box.members) or 1,
        "members": [{"label": one.label, **_place(one.at, view)} for one in box.members[:LISTED]],
    }


def _place(at: Span | None, view: convert.Client) -> dict[str, Any]:
    if at is None:
        return {"place": "", "uri": None, "range": None}
    place = format_place(at.path, at.line)
    return {"place": place, "uri": view.uri_of(at.path), "range": convert.plain_range(at, view)}
