"""Results of tier accuracy: whether the compiled calls of a target give the results of eager mode.

Invariant: a verdict is about the whole call, so an edit of any file of it makes every finding doubtful. A comparison
that failed leaves the result before it as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from fuselight.shared.report import Report, ResultComparison
from fuselight_server.base.finding import SourceLine
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import findings_of_results
from fuselight_server.explain.findings.common.result_words import wrong_calls
from fuselight_server.source.positions import Places, locations, span, tracked


@dataclass
class AccuracyResult(TargetResult):
    """What the newest comparison of a target with eager mode showed."""

    MAX: ClassVar[int] = 50  # the workspace's folder has as many of them
    STALE_AFTER_FAILURE: ClassVar[bool] = False

    @property
    def has_data(self) -> bool:
        """Whether the program ran far enough to say which calls it made."""
        return self.results is not None and not (self.report.failures and not self.results.calls)

    @property
    def results(self) -> ResultComparison | None:
        """The compared calls."""
        return self.report.results

    @property
    def is_wrong(self) -> bool:
        """Whether a call differs from eager mode."""
        return self.results is not None and bool(wrong_calls(self.results))

    @property
    def findings_are_stale(self) -> bool:
        """Whether the code was edited since, on whichever line."""
        return self.reported is not None and self.reported.stale

    def lines_now(self) -> list[SourceLine]:
        """Where the lines of its findings are now, each once, the files in the order of the findings."""
        spans = [finding.place.span for finding in self.own if not finding.place.is_deleted]
        return list(dict.fromkeys(SourceLine(place.path, place.line) for place in spans))


def accuracy_result_of(
    key: Key,
    generation: int,
    report: Report,
    read_line: Callable[[str, int], str | None] | None = None,
) -> AccuracyResult:
    """Make the result of a new report, before any edit; `read_line` gives the lines as they ran."""
    report = replace(report, texts={})
    places = Places(span(location) for location in locations(report))
    result = AccuracyResult(
        key,
        generation,
        report,
        places,
        depends=frozenset({key.path, *report.files}),
        own=tracked(findings_of_results(report, read_line=read_line), places, key.path),
    )
    result.track_ends()
    return result
