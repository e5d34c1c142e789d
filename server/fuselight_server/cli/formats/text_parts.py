"""Lines that several commands print of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.cli.formats.json import severity_word
from fuselight_server.cli.sources import shown_path

if TYPE_CHECKING:
    from fuselight.report import Report
    from fuselight_server.cli.terminal import Terminal
    from fuselight_server.finding import Finding, SourceLine


def target_name(report: Report) -> str:
    """`model.py: Net`."""
    return f"{shown_path(report.target.path)}: {report.target.name or '__main__'}"


def shown_line(line: SourceLine | None) -> str:
    """`model.py:12`."""
    return f"{shown_path(line.path)}:{line.line}" if line else "no source line"


def finding_line(finding: Finding) -> str:
    """`warning[FL701] model.py:12: title (cost)`."""
    place = f"{shown_path(finding.span.path)}:{finding.span.line}"
    cost = f" ({'; '.join(finding.cost)})" if finding.cost else ""
    return f"{severity_word(finding)}[{finding.code}] {place}: {finding.title}{cost}"


def print_heading(report: Report, what: str, terminal: Terminal) -> None:
    """The target, what follows about it, and why it failed."""
    terminal.print((target_name(report), "bold"), f" - {what}")
    for failure in report.failures:
        terminal.print((f"failed: {failure.message}. {failure.next_step}".rstrip(), "bold red"))


def print_problems(report: Report, terminal: Terminal) -> None:
    """What is unknown about the target, and why."""
    for problem in report.problems:
        terminal.print(f"unknown: {problem.what}: {problem.why}")
