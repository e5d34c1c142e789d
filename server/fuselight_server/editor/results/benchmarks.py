"""Results of tier measured: times of kernels on lines that move with edits.

Invariant: the time of a line is computed once a report. A benchmark that measured nothing leaves the result before it
as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from fuselight.shared.report import Failure, MeasuredConfiguration, Report
from fuselight_server.base.finding import SourceLine, Span
from fuselight_server.editor.results.target_result import LineResult, Row
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.benchmarks.history import BenchmarkRun
from fuselight_server.explain.benchmarks.page import Drawn, places_of
from fuselight_server.explain.benchmarks.profile import LineTime, times_by_line
from fuselight_server.explain.benchmarks.timing_stats import has_times, shown_of
from fuselight_server.explain.findings import findings_of_measured
from fuselight_server.source.positions import Places, locations, span, tracked

MeasuredRow = Row[LineTime]


@dataclass
class MeasuredResult(LineResult[LineTime]):
    """What the newest benchmark of a target measured."""

    MAX: ClassVar[int] = 20  # the workspace's folder has more of them
    STALE_AFTER_FAILURE: ClassVar[bool] = False

    notes: tuple[str, ...] = ()
    """In words, what ran at the same time."""
    covered: frozenset[SourceLine] = frozenset()
    """Every line that its page names."""
    run: BenchmarkRun | None = None
    """What is stored and exported of it, with its lines as they were when it ran; None where nothing was measured."""
    is_stored: bool = False
    """Whether `run` is in the history, under its id."""
    drawn: Drawn | None = None
    """Its page as it was made last."""

    @cached_property
    def configuration(self) -> MeasuredConfiguration | None:
        """The configuration that stands on the lines; None where none was profiled."""
        return shown_of(self.report.measured) if self.report.measured is not None else None

    @property
    def has_data(self) -> bool:
        """Whether anything has a time."""
        return has_times(self.report.measured)

    @property
    def seconds(self) -> float:
        """How long the benchmark had taken when this was known: another number for each part of it."""
        return self.report.measured.seconds if self.report.measured is not None else 0.0

    @property
    def has_begun(self) -> bool:
        """Whether anything is known of a configuration: its first call, or that it failed."""
        rows = self.report.measured.configurations if self.report.measured is not None else ()
        return any(row.first_us is not None or row.failure is not None for row in rows)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What failed: the target as a whole first, then configurations."""
        measured = self.report.measured
        rows = measured.configurations if measured is not None else ()
        return (*self.report.failures, *(row.failure for row in rows if row.failure is not None))

    def end_early(self, failures: Iterable[Failure]) -> None:
        """As in TargetResult; its page is made again."""
        super().end_early(failures)
        self.drawn = None

    @property
    def findings_are_stale(self) -> bool:
        """Whether the code was edited since, on whichever line: findings of a benchmark speak of the whole call."""
        return self.reported is not None and self.reported.stale


def measured_result_of(
    key: Key, generation: int, report: Report, *, notes: tuple[str, ...] = ()
) -> MeasuredResult:
    """Make the result of a new report, before any edit, without the texts of kernels."""
    report = replace(report, texts={})
    configuration = shown_of(report.measured) if report.measured is not None else None
    covered = frozenset(places_of(report))
    places = Places(Span(place.path, place.line) for place in covered)
    depends = frozenset({key.path, *places.paths(), *report.files})
    for at in locations(report):
        places.track(span(at))
    result = MeasuredResult(
        key,
        generation,
        report,
        places,
        depends=depends,
        own=tracked(findings_of_measured(report), places, key.path),
        lines=times_by_line(configuration, report.roots) if configuration is not None else (),
        notes=notes,
        covered=covered,
    )
    result.track_ends()
    return result
