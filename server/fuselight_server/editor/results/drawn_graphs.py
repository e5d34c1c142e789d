"""The graphs of a target's last run as boxes and arrows, with its lines as they are now."""

from __future__ import annotations

import os
from collections.abc import Callable

from fuselight.shared.report import Location
from fuselight_server.base.finding import Span
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.lens_facts import STALE
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.graphs import Picture, fold, picture
from fuselight_server.source.positions import span

ReadLine = Callable[[str, int], str | None]


def drawn_graphs(result: CaptureResult, kernels: KernelResult | None, read_line: ReadLine) -> Picture:
    """The graphs of a target, folded; `read_line` reads the text as it is now."""
    shown = result.shown
    generated = None if kernels is None else kernels.shown

    def now(at: Location) -> Span | None:
        if not os.path.isabs(at.path):  # noqa: PTH117 - paths stay text
            return None
        place = shown.places.track(span(at))
        return None if place.is_deleted else place.span

    drawn = picture(
        shown.report,
        kernels=None if generated is None else generated.report,
        # After an edit the lines are not those that ran: their text is left out.
        read_line=None if shown.stale else read_line,
        now=now,
        text_now=shown.places.text_now,
        suffix=f" ({STALE})" if generated is not None and generated.stale else "",
    )
    return fold(drawn)


def no_graphs(file: str, target: str | None) -> str:
    """Why there are none, and what to do."""
    what = "any target" if target is None else target or MAIN
    return (
        f"No graphs of {what} in {file} are available: it has not run since this window was opened. "
        "Save the file, or press Run above the target."
    )
