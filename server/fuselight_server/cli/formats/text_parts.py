"""Lines that several commands print of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.formatting import format_target
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.kernels.shares import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding, SourceLine
    from fuselight_server.base.terminal import Terminal
    from fuselight_server.explain.benchmarks.page_types import MachineFact


def target_name(report: Report) -> str:
    """`model.py: Net`."""
    return f"{shown_path(report.target.path)}: {format_target(report.target.name)}"


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


def print_measured_heading(
    report: Report, where: str, inputs: Sequence[str], terminal: Terminal
) -> list[str]:
    """The target, `where` it was measured, why it failed, and its inputs; returns the failures in words."""
    terminal.print((target_name(report), "bold"), f" - {where}" if where else "")
    failed = [words.failed(failure) for failure in report.failures]
    for failure, text in zip(report.failures, failed, strict=True):
        at = place_of(failure.stack, report.roots)
        line = f" ({shown_line(at)})" if at is not None else ""
        terminal.print((f"failed: {text}{line}", "bold red"))
    for text in inputs:
        terminal.print((f"inputs: {text}", "dim"))
    return failed


def print_notes(notes: Iterable[str], printed: Sequence[str], terminal: Terminal) -> None:
    """The notes of a page of measurements, without those that are `printed`."""
    for note in notes:
        if note not in printed:
            terminal.print(f"note: {note}")


def print_machine(facts: Iterable[MachineFact], terminal: Terminal) -> None:
    """The machine of a page of measurements, and an empty line after the target."""
    terminal.print((", ".join(f"{fact.name} {fact.value}" for fact in facts), "dim"))
    terminal.print()


def print_problems(report: Report, terminal: Terminal) -> None:
    """What is unknown about the target, and why."""
    for problem in report.problems:
        terminal.print(f"unknown: {problem.what}: {problem.why}")
