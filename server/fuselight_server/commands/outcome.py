"""What a command found: the data that every format prints.

Invariant: the exit code is a function of this data alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fuselight_server.base.finding import Finding, Severity
from fuselight_server.base.terminal import print_error
from fuselight_server.commands.findings import without_ignored
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.explain.findings import findings_of_kernels, findings_of_measured

if TYPE_CHECKING:
    from datetime import datetime

    from fuselight.shared.report import Problem, Report
    from fuselight_server.execution.runs.kept_answers import KeptAnswers
    from fuselight_server.execution.runs.stored_reports import RepeatedCapture
    from fuselight_server.explain.benchmarks.history import BenchmarkRun
    from fuselight_server.source.reading import Reading

_UNANALYZED = frozenset({"FL403", "FL409", "FL504"})
"""Failures outside the user's code: nothing is known about that code."""


NO_TARGET = (
    "no target. Name a class or function with --target, or write example inputs above it: "
    "`# fuselight: Net()(f32[8, 16])` (docs/inputs.md)"
)


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
    readings: dict[str, Reading] = field(default_factory=dict)
    """The files that were read, for their ignore comments."""
    unchanged: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Path and name of each target that was not run, and when its report was made."""
    uncalled: list[str] = field(default_factory=list)
    """If there was no target: where the files compile without a call that can be run."""
    capture_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    """Path and name of each target of which a capture is kept, and the key of that capture."""
    answers: KeptAnswers | None = None
    """What earlier checks of the same captures have looked up; None if every target is run."""

    def take_unchanged(self, capture: RepeatedCapture) -> None:
        """Add the report of a target of which nothing has changed since then."""
        report = capture.report
        self.reports.append(report)
        self.unchanged[report.target.path, report.target.name] = capture.made
        self.capture_keys[report.target.path, report.target.name] = capture.key

    def capture_key(self, report: Report) -> str:
        """The key of the capture that is kept of the report; empty if there is none."""
        return self.capture_keys.get((report.target.path, report.target.name), "")

    def unchanged_since(self, report: Report) -> datetime | None:
        """When the report was made, if its target was not run."""
        return self.unchanged.get((report.target.path, report.target.name))

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


@dataclass(frozen=True)
class Details:
    """Texts of kernels and graphs that are printed with them."""

    source: bool = False
    """Of each kernel."""
    graphs: bool = False
    """AOTAutograd's: joint, forward and backward."""
    asm: str | None = None
    """What each Triton kernel is compiled to: the name of a listing."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Lines of which is shown whether they are fused, and why not."""


NO_DETAILS = Details()


def report_problems(outcome: CheckOutcome, verb: str, *, is_empty: bool = False) -> None:
    """Say on stderr what could not be done; `is_empty`: there was no target at all."""
    for problem in outcome.problems:
        print_error(f"cannot {verb} {problem.what}: {problem.why}")
    if is_empty and not outcome.problems:
        for why in outcome.uncalled or [NO_TARGET]:
            print_error(why)


def shown_link(link: str) -> str:
    """A page as briefly as it can be found: a file under the working folder by its path, all else by its URI."""
    parts = urlsplit(link)
    if parts.scheme != "file":
        return link
    short = shown_path(_path_of(parts.path))
    return link if Path(short).is_absolute() else short


def _path_of(part: str) -> str:
    """The path that a URI of a file names, as `url2pathname` gives it."""
    if os.name != "nt":
        return unquote(part)
    from urllib.request import url2pathname  # noqa: PLC0415 - with all of `http` and `email`: 20 ms

    return url2pathname(part)
