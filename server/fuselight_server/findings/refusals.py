"""A run that gave no report, as a report: each face then shows its failure as it shows any finding.

Invariant: the report holds the failure and nothing else that was not asked for in the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.report import Report, TargetRef, Tier, Versions

if TYPE_CHECKING:
    from fuselight.protocol import Analyse
    from fuselight.report import Failure

_UNKNOWN = Versions(python="", torch=None, triton=None, fuselight="", platform="", executable="")


def refused_report(request: Analyse, failure: Failure, versions: Versions | None) -> Report:
    """The report of a run that ended without one. `versions` is None where no worker said hello."""
    target = request.target
    return Report(
        versions=versions or _UNKNOWN,
        target=TargetRef(path=target.path, name=target.name, line=target.line, kind=target.kind),
        tier=Tier.CAPTURE,
        generation=request.generation,
        failures=(failure,),
        roots=request.roots,
    )
