"""Results of tier capture: findings of graph breaks, recompilations and failures, on lines that move with edits.

Invariant: a run that failed before it captured anything adds its failure to the findings of the run before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fuselight_server.files import within
from fuselight_server.findings import findings
from fuselight_server.results.positions import Places, locations, span, tracked
from fuselight_server.results.target_result import TargetResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fuselight.report import Report
    from fuselight_server.finding import Finding
    from fuselight_server.findings import Thresholds
    from fuselight_server.runs.keys import Key


_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})


@dataclass
class CaptureResult(TargetResult):
    """What the newest capture of a target found."""

    MOST: ClassVar[int] = 200

    @property
    def has_data(self) -> bool:
        """Whether the run got far enough to say anything about the code."""
        report = self.report
        return bool(report.frames or report.breaks or report.not_compiled or not report.failures)

    def uses(self, path: str) -> bool:
        """Whether a change of a file may change the outcome of a new run.

        A run that failed to import a module may depend on any file of the workspace.
        """
        if path in self.depends or (self.previous is not None and self.previous.uses(path)):
            return True
        failed = any(failure.exception in _IMPORT_ERRORS for failure in self.report.failures)
        return not self.has_data and failed and any(within(path, root) for root in self.report.roots)

    def derive(
        self, thresholds: Thresholds, read_line: Callable[[str, int], str | None] | None = None
    ) -> None:
        """Make the findings again, unless lines have moved since: the report does not know where to."""
        if not self.stale:
            made = findings(self.report, thresholds=thresholds, read_line=read_line)
            self.own = tracked(made, self.places)

    @property
    def sources(self) -> tuple[CaptureResult, ...]:
        """The results whose findings are shown: a failed run, and the run before."""
        return (self,) if self.previous is None else (self, self.previous)


def capture_result_of(
    key: Key, generation: int, report: Report, findings: Iterable[Finding]
) -> CaptureResult:
    """Make the result of a new report, before any edit."""
    places = Places(span(location) for location in locations(report))
    return CaptureResult(
        key,
        generation,
        report,
        places,
        depends=frozenset({key.path, *report.files, *(frame.location.path for frame in report.frames)}),
        own=tracked(findings, places),
    )
