"""What a use case found: the data that every face shows.

Invariant: the exit code is a function of this data alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Finding, Severity
from fuselight_server.commands.findings import without_ignored
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.explain.findings import findings_of_kernels, findings_of_measured
from fuselight_server.explain.findings.priority import EagerTimes, Priority, of_reports

if TYPE_CHECKING:
    from datetime import datetime

    from fuselight.shared.report import Problem, Report
    from fuselight_server.base.remedies import FindingRemedy
    from fuselight_server.commands.changed_lines import ChangedLines
    from fuselight_server.execution.runs.kept_answers import KeptAnswers
    from fuselight_server.execution.runs.stored_reports import RepeatedCapture
    from fuselight_server.explain.benchmarks.history import BenchmarkRun
    from fuselight_server.source.reading import Reading

_UNANALYZED = frozenset({"FL403", "FL409", "FL504"})
"""Failures outside the user's code: nothing is known about that code."""


@dataclass
class CheckOutcome:
    """Findings by place, the reports they come from, and what could not be analyzed."""

    findings: list[Finding] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Of the command itself; those of each report stay in it."""
    sources: SourceFiles = field(default_factory=SourceFiles)
    known: int = 0
    """Findings that the baseline knows, left out of `findings`."""
    since_baseline: tuple[str, ...] = ()
    """What has changed since the baseline was written besides the code: `torch was 2.13, now 2.15`."""
    elsewhere: int = 0
    """Findings that are not of the change that was asked about, left out of `findings`."""
    changed_since: str = ""
    """The commit or branch that the change starts from; empty: all findings are shown."""
    readings: dict[str, Reading] = field(default_factory=dict)
    """The files that were read, for their ignore comments."""
    unchanged: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Path and name of each target that was not run, and when its report was made."""
    uncalled: list[str] = field(default_factory=list)
    """If there was no target: where the files compile without a call that can be run."""
    capture_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    """Path and name of each target of which a capture is kept, and the key of that capture."""
    eager_us: EagerTimes = field(default_factory=dict)
    """Measured time in eager mode of lines, from kept benchmarks."""
    answers: KeptAnswers | None = None
    """What earlier checks of the same captures have looked up; None if every target is run."""

    tried_fixes: dict[tuple[object, ...], tuple[FindingRemedy, ...]] = field(default_factory=dict)
    """By the identity of a finding in its target, what came of running the program with its fixes."""
    not_run: int | None = None
    """Targets that were left when the user stopped the command; None if it went to its end."""

    def show_only(self, change: ChangedLines) -> None:
        """Leave out the findings of other lines; what could not be analyzed stays, since it hides findings."""
        shown = [finding for finding in self.findings if finding.code in _UNANALYZED or change.has(finding)]
        self.elsewhere = len(self.findings) - len(shown)
        self.changed_since = change.reference
        self.findings = shown

    def take_unchanged(self, capture: RepeatedCapture) -> None:
        """Add the report of a target of which nothing has changed since then."""
        report = capture.report
        self.reports.append(report)
        self.unchanged[report.target.path, report.target.name] = capture.captured_at
        self.capture_keys[report.target.path, report.target.name] = capture.key

    def capture_key(self, report: Report) -> str:
        """The key of the capture that is kept of the report; empty if there is none."""
        return self.capture_keys.get((report.target.path, report.target.name), "")

    def unchanged_since(self, report: Report) -> datetime | None:
        """When the report was made, if its target was not run."""
        return self.unchanged.get((report.target.path, report.target.name))

    @property
    def priorities(self) -> tuple[Priority, ...]:
        """The lines that are worth a fix and have a finding, the first one first."""
        return of_reports(self.reports, self.findings, self.eager_us)

    @property
    def needs_no_change(self) -> bool:
        """Whether each warning says only what to expect."""
        warnings = [finding for finding in self.findings if finding.severity >= Severity.WARNING]
        is_whole = not self.problems and not self.priorities
        return is_whole and bool(warnings) and all(finding.is_expected for finding in warnings)

    @property
    def recompiles_repeatedly(self) -> bool:
        """Whether one cause compiled a function again more than once, or up to the recompile limit."""
        warnings = [finding for finding in self.findings if finding.severity >= Severity.WARNING]
        return any(
            finding.code == "FL102" or (finding.code == "FL201" and finding.count > 1) for finding in warnings
        )

    def of_kernels(self, report: Report) -> tuple[Finding, ...]:
        """The findings that only tier kernels has, without those that a comment silences."""
        return without_ignored(findings_of_kernels(report), self.readings)

    def of_measured(self, report: Report) -> tuple[Finding, ...]:
        """The findings of a benchmark, without those that a comment silences."""
        return without_ignored(findings_of_measured(report), self.readings)

    @property
    def exit_code(self) -> int:
        """0 nothing at warning or above, 1 findings, 2 something could not be analyzed."""
        if self.problems or any(finding.code in _UNANALYZED for finding in self.findings):
            return 2
        return int(any(finding.severity >= Severity.WARNING for finding in self.findings))


@dataclass
class TargetBenchmark:
    """One target: its run, and the run to compare it with."""

    report: Report
    run: BenchmarkRun | None
    before: BenchmarkRun | None = None
