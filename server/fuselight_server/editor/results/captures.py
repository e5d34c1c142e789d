"""Results of tier capture: findings of graph breaks, recompilations and failures, on lines that move with edits.

Invariant: a run that failed before it captured anything adds its failure to the findings of the run before. Its facts
of expressions move with edits as its findings do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from fuselight.shared.report import Report, TracedFacts
from fuselight_server.base.files import within
from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.commands.measured_lines import measured_eager_times
from fuselight_server.editor.results.facts import MAX_FACTS, TrackedFacts, TrackedFile
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange, expected_changes
from fuselight_server.explain.findings.priority import EagerTimes, Priority, advice, of_reports
from fuselight_server.source.input_programs import InputProgram
from fuselight_server.source.positions import Places, locations, span, tracked
from fuselight_server.source.text_changes import Change

PROGRAM = "fuselight run"
"""Name of the target that stands for the last `fuselight run` of a folder."""
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})


@dataclass
class CaptureResult(TargetResult):
    """What the newest capture of a target found."""

    MAX: ClassVar[int] = 200

    facts: TrackedFacts = field(default_factory=TrackedFacts)
    """What each expression was while it was traced."""
    tried: dict[ExpectedChange, tuple[str, ...]] = field(default_factory=dict)
    """What came of the remedies that were tried for a change, one line each; no entry for one that was not tried."""
    input_programs: tuple[InputProgram, ...] = ()
    """Where the target has no inputs: programs of the workspace that may give it some, the best first."""
    broken_lines: dict[tuple[str, int], str] = field(default_factory=dict)
    """The lines that break graphs as they ran, by file and number: they name what a break carries over."""
    compiled_forms: frozenset[str] = frozenset()
    """Forms of the user's own kernels that a further run was asked for, whatever came of it."""
    eager_us: EagerTimes = field(default_factory=dict)
    """Measured time in eager mode of those lines, from kept benchmarks."""

    @property
    def has_data(self) -> bool:
        """Whether the run got far enough to say anything about the code."""
        report = self.report
        return bool(report.frames or report.breaks or report.not_compiled or not report.failures)

    @cached_property
    def expected_changes(self) -> tuple[ExpectedChange, ...]:
        """What would compile the target's functions again, the likely changes first."""
        return expected_changes(
            Context.of(self.report, read_line=lambda *place: self.broken_lines.get(place))
        )

    @cached_property
    def priorities(self) -> tuple[Priority, ...]:
        """The lines that are worth a fix, the first one first."""
        return of_reports(
            [self.report], [tracked_finding.finding for tracked_finding in self.own], self.eager_us
        )

    def measured_times(self) -> EagerTimes:
        """Read the time in eager mode of the lines that break graphs from kept benchmarks."""
        return measured_eager_times(
            [self.report], self.priorities, lambda *place: self.broken_lines.get(place)
        )

    def rank_by(self, eager_us: EagerTimes) -> None:
        """Rank the lines to fix by measured times, from now on."""
        self.eager_us = eager_us
        vars(self).pop("priorities", None)

    @property
    def first_line(self) -> SourceLine | None:
        """Where the line to fix first is now; None if the report leaves no choice, or the line is gone."""
        first = advice(self.priorities, self.key.path)
        now = self.places.line_now(first.cost.path, first.cost.line) if first is not None else None
        return SourceLine(now.path, now.line) if now is not None else None

    def fix_first(self, fix: str = "") -> str:
        """Say which line to fix first, and its verified `fix`; empty without a `first_line`."""
        first = advice(self.priorities, self.key.path)
        if first is None or self.first_line is None:
            return ""
        words = self.text_now(first.words(), first.cost.path)
        return f"{words} ({fix})" if fix else words

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
            new_findings = findings(self.report, thresholds=thresholds, read_line=read_line)
            self.own = tracked(new_findings, self.places, self.key.path)

    def apply_edit(self, path: str, change: Change) -> None:
        """Move lines for one edit of a file's text."""
        self.facts.apply_edit(path, change)
        super().apply_edit(path, change)

    def mark_changed(self, path: str) -> None:
        """Note that the text of a file is not the text that ran: nobody knows where its expressions are now."""
        self.facts.lose(path)
        super().mark_changed(path)

    def mark_current(self, path: str) -> None:
        """Note that a file has the text that ran again."""
        self.facts.reset(path)
        super().mark_current(path)

    def drop_facts(self) -> None:
        """Forget what expressions were."""
        self.facts, self.report = TrackedFacts(), replace(self.report, facts=TracedFacts())

    @property
    def sources(self) -> tuple[CaptureResult, ...]:
        """The results whose findings are shown: a failed run, and the run before."""
        return (self,) if self.previous is None else (self, self.previous)


def read_capture(
    key: Key,
    generation: int,
    report: Report,
    thresholds: Thresholds,
    read_line: Callable[[str, int], str | None],
) -> CaptureResult:
    """Make the result of a new report with its findings; `read_line` gives the lines as they ran."""
    own_findings = findings(report, thresholds=thresholds, read_line=read_line)
    result = capture_result_of(key, generation, report, own_findings)
    places = {(at.path, at.line) for graph_break in report.breaks for at in graph_break.stack[:1]}
    places |= {
        (priority.cost.path, priority.cost.line) for priority in result.priorities if priority.cost.breaks
    }
    result.broken_lines = {place: text for place in places if (text := read_line(*place)) is not None}
    result.rank_by(result.measured_times())
    return result


def capture_result_of(
    key: Key, generation: int, report: Report, findings: Iterable[Finding]
) -> CaptureResult:
    """Make the result of a new report with findings `findings`, before any edit."""
    places = Places(span(location) for location in locations(report))
    return CaptureResult(
        key,
        generation,
        report,
        places,
        depends=frozenset({key.path, *report.files, *(frame.location.path for frame in report.frames)}),
        own=tracked(findings, places, key.path),
        facts=TrackedFacts(report.facts),
    )


@dataclass(frozen=True)
class CapturedFile:
    """What one capture knows of the expressions of a file."""

    result: CaptureResult
    path: str
    file: TrackedFile

    @property
    def has_its_text(self) -> bool:
        """Whether the file is as it ran."""
        return self.path not in self.result.changed_files


def captured_files(results: Iterable[CaptureResult], path: str) -> list[CapturedFile]:
    """Return what captures know of a file: those that ran its text first, of these the newest first."""
    files = []
    for result in results:
        shown = result.shown
        file = shown.facts.of(path)
        if file is not None:
            files.append(CapturedFile(shown, path, file))
    return sorted(
        files, key=lambda captured_file: (not captured_file.has_its_text, -captured_file.result.generation)
    )


def knowing(files: Iterable[CapturedFile], line: int) -> list[CapturedFile]:
    """Return the captures that traced an expression of a line: those of its text, or else those from before an edit."""
    captured_files = [file for file in files if file.file.knows(line)]
    return [file for file in captured_files if file.has_its_text] or captured_files


def limit_facts(results: Iterable[CaptureResult]) -> None:
    """Drop the facts of the oldest captures where all of them together are too many."""
    kept = [
        capture_result
        for result in results
        for capture_result in (result.previous, result)
        if isinstance(capture_result, CaptureResult)
    ]
    total = 0
    for capture_result in reversed(kept):
        total += capture_result.facts.count
        if total > MAX_FACTS:
            capture_result.drop_facts()
