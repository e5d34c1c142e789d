"""The report of a run that ended without one: its failure alone, so that it is shown as any finding is."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from fuselight.report import Report, TargetRef, Versions

if TYPE_CHECKING:
    from fuselight.protocol import RunRequest
    from fuselight.report import Failure


def failure_report(
    request: RunRequest, failure: Failure, versions: Versions | None, *, executable: str = ""
) -> Report:
    """A report, of the tier that was requested, with one failure. `versions` is None where no worker said hello."""
    if versions is None:
        versions = Versions(
            python="",
            torch=None,
            triton=None,
            fuselight="",
            platform=platform.platform(),
            executable=executable,
        )
    target = request.target
    return Report(
        versions=versions,
        target=TargetRef(path=target.path, name=target.name, line=target.line, kind=target.kind),
        tier=request.tier,
        generation=request.generation,
        failures=(failure,),
        roots=request.roots,
    )
