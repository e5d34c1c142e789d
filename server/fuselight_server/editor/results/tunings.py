"""Results of tier tuned: what the last search of a target decided.

Invariant: a search says nothing about lines, so an edit of any of its files only makes it stale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fuselight.shared.report import Failure, Report, Tuned
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.searches.decisions import WrittenDecision, holding_file
from fuselight_server.source.positions import Places


@dataclass
class TuningResult(TargetResult):
    """What the newest search of a target found."""

    MAX: ClassVar[int] = 20  # the workspace's folder has more of them
    STALE_AFTER_FAILURE: ClassVar[bool] = False

    notes: tuple[str, ...] = ()
    """In words, what ran at the same time."""
    written: WrittenDecision | None = None
    """What became of the decision; None without one, and for a search of an earlier session."""

    def decision_file(self) -> WrittenDecision | None:
        """What became of the decision; of an earlier session's, the file that still has it. Reads files."""
        decision = self.tuned.result if self.tuned is not None else None
        if decision is None or self.written is not None:
            return self.written
        return holding_file(decision, self.key.path)

    @property
    def tuned(self) -> Tuned | None:
        """The search; None if it failed before anything was known."""
        return self.report.tuned

    @property
    def has_data(self) -> bool:
        """Whether anything was measured."""
        tuned = self.report.tuned
        rows = tuned.candidates if tuned is not None else ()
        return any(row.configuration.wall is not None or row.configuration.device is not None for row in rows)

    @property
    def seconds(self) -> float:
        """How long the search had taken when this was known: another number for each part of it."""
        return self.report.tuned.seconds if self.report.tuned is not None else 0.0

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Why the target could not be tuned."""
        tuned = self.report.tuned
        rows = tuned.candidates if tuned is not None else ()
        own = (row.configuration.failure for row in rows if row.configuration.failure is not None)
        return (*self.report.failures, *own)


def tuning_result_of(
    key: Key, generation: int, report: Report, *, notes: tuple[str, ...] = ()
) -> TuningResult:
    """Make the result of a new report, before any edit, without the texts of kernels."""
    report = replace(report, texts={})
    depends = frozenset({key.path, *report.files})
    result = TuningResult(key, generation, report, Places(), depends=depends, notes=notes)
    result.track_ends()
    return result
