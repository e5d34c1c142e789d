"""What open jobs show on the lines of a file: lenses, each under the name of its job.

Invariant: what comes from a job names it, and changes nothing of what runs here show.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.lens import SHOW_JOB, lens, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.editor.presenters.lens import Lens
    from fuselight_server.editor.results.snapshot import Snapshot

_LONGEST_NAME = 30


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
