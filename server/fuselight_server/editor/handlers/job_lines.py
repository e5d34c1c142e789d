"""What open jobs show on the lines of a file: findings, hovers and lenses, each under the name of its job.

Invariant: what comes from a job names it, and changes nothing of what runs here show.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fuselight.shared.report.visible import visible
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.lens import SHOW_JOB, lens, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lsprotocol import types

    from fuselight_server.base.finding import Finding
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.presenters.lens import Lens
    from fuselight_server.editor.results.jobs import JobResult
    from fuselight_server.editor.session.state import Snapshot

OF_JOB_SOURCE = "of the job's source: "
"""Before a finding whose line here is known to differ from the line that ran."""
_LONGEST_NAME = 30


def diagnostics(server: Server, path: str) -> Iterator[types.Diagnostic]:
    """Yield the findings of open jobs on lines of a file, each with its job as the source."""
    return (diagnostic for _, diagnostic in shown_findings(server, path))


def shown_findings(server: Server, path: str) -> Iterator[tuple[Finding, types.Diagnostic]]:
    """Yield the findings of open jobs on lines of a file, and how they are shown."""
    view = server.view
    for job in server.state.jobs.values():
        source = visible(f"Fuselight {job.label}")
        for item in job.on(path):
            finding = item.tracked.now()
            diagnostic = convert.diagnostic(finding, view, edited=item.tracked.edited)
            diagnostic.source = source
            if item.is_of_job_source and not item.tracked.edited:
                diagnostic.message = OF_JOB_SOURCE + diagnostic.message
            yield finding, diagnostic


def findings_at(
    server: Server, path: str, line: int, column: int
) -> Iterator[tuple[JobResult, Finding, bool]]:
    """Yield the findings of open jobs at a position: the job, the finding, and whether its line was edited since."""
    for job in server.state.jobs.values():
        for item in job.on(path):
            if item.tracked.place.span.covers(line, column):
                yield job, item.tracked.now(), item.tracked.edited


def lenses(snapshot: Snapshot, view: convert.Client) -> Iterator[Lens]:
    """Yield what open jobs compiled of the functions of a file."""
    for job in snapshot.jobs:
        for function in job.functions:
            place = function.place
            if place.gone or place.span.path != snapshot.path:
                continue
            at = convert.plain_range(dataclasses.replace(place.span, column=0), view)
            yield lens(
                at,
                f"job {shorten(job.opened.name, _LONGEST_NAME)}: {function.words}",
                SHOW_JOB,
                {"job": job.id},
            )
