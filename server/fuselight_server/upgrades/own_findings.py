"""Differences between two releases as findings of their own: FL931 to FL934, for SARIF and annotations.

Invariant: each stands on a line of the user's source, and says with which release it was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fuselight.shared.report import Deprecation, ReleaseCall, Report, Tier, Versions
from fuselight_server.base.finding import Finding, Span
from fuselight_server.base.formatting import format_count, format_time
from fuselight_server.explain.findings.common.catalogue import CATALOGUE, link
from fuselight_server.jobs.comparison.model import ChangeVerdict, FunctionChange
from fuselight_server.upgrades.model import SideReports
from fuselight_server.upgrades.numerics import compared_calls, error_text, result_change, result_text
from fuselight_server.upgrades.times import TimeDifference

RESULTS, KERNELS, DEPRECATED, SLOWER = "FL931", "FL932", "FL933", "FL934"
_MAX_LINES = 5
"""Lines that take longer, in the message of a slower call."""


def result_findings(after: SideReports, versions: tuple[Versions, Versions]) -> Iterator[Finding]:
    """FL931: results that changed by more than rounding, on the line of the target."""
    for report, call in compared_calls(after.outputs):
        if result_change(call).verdict is ChangeVerdict.REGRESSION:
            yield _result_finding(report, call, versions)


def _result_finding(report: Report, call: ReleaseCall, versions: tuple[Versions, Versions]) -> Finding:
    text = result_text(call, (versions[0].torch, versions[1].torch))
    head, _, detail = text.partition(": ")
    return _finding(
        RESULTS,
        report,
        Span(report.target.path, report.target.line),
        title=head,
        message="\n".join(filter(None, (f"Call: {call.text}", detail, error_text(call.errors)))),
        subject=result_change(call).value,
    )


def kernel_findings(
    functions: Sequence[FunctionChange], report: Report, versions: tuple[Versions, Versions]
) -> Iterator[Finding]:
    """FL932: functions that become more kernels, for graphs with as many operators."""
    for change in functions:
        before, after = change.before, change.after
        if change.kernels is not ChangeVerdict.REGRESSION or before is None or after is None:
            continue
        counts = len(before.kernels or ()), len(after.kernels or ())
        name = f"the rest of {change.name}" if change.is_resumed else change.name
        yield _finding(
            KERNELS,
            report,
            Span(change.location.path, change.location.line),
            title=f"{name} becomes {format_count(counts[1], 'kernel')} with torch {versions[1].torch}, "
            f"{counts[0]:,} with {versions[0].torch}",
            message="The graphs have as many operators as before, so Inductor fuses less of them.",
            subject=name,
        )


def time_findings(
    times: Sequence[TimeDifference], after: SideReports, versions: tuple[Versions, Versions]
) -> Iterator[Finding]:
    """FL934: measured calls that take longer, on the line of the target."""
    for report in after.measured:
        of_target = [time for time in times if time.target == report.target.name]
        lines = [time for time in of_target if time.place is not None and (time.part or 0) > 0]
        lines.sort(key=lambda time: time.before_us - time.after_us)
        for time in of_target:
            if time.verdict is ChangeVerdict.REGRESSION:
                yield _finding(
                    SLOWER,
                    report,
                    Span(report.target.path, report.target.line),
                    title=f"{time.configuration} calls take {format_time(time.after_us)} with torch "
                    f"{versions[1].torch}, {format_time(time.before_us)} with {versions[0].torch} ({time.change})",
                    message=_slower_lines(lines),
                    subject=time.configuration,
                )


def _slower_lines(lines: Sequence[TimeDifference]) -> str:
    """The lines of the profile that take longer, those that lost most first."""
    rows = [
        f"- {Path(time.place.path).name}:{time.place.line}: {format_time(time.before_us)} -> "
        f"{format_time(time.after_us)}"
        for time in lines[:_MAX_LINES]
        if time.place is not None
    ]
    return (
        "\n".join(["Lines that take longer:", *rows])
        if rows
        else "No line of the profile takes longer by itself."
    )


def deprecations(before: SideReports, after: SideReports) -> tuple[tuple[Report, Deprecation], ...]:
    """The deprecations that the later release alone warns of."""
    known = {
        item.text
        for report in before.outputs
        if report.outputs is not None
        for item in report.outputs.deprecations
    }
    return tuple(
        (report, item)
        for report in after.outputs
        if report.outputs is not None
        for item in report.outputs.deprecations
        if item.text not in known
    )


def deprecation_findings(
    before: SideReports, after: SideReports, versions: tuple[Versions, Versions]
) -> Iterator[Finding]:
    """FL933: what the later release warns of, and the earlier one does not."""
    for report, item in deprecations(before, after):
        yield _finding(
            DEPRECATED,
            report,
            Span(item.location.path, item.location.line),
            title=f"torch {versions[1].torch} warns here, {versions[0].torch} does not",
            message=f"{item.category}: {item.text}",
            subject=item.text,
        )


def _finding(code: str, report: Report, span: Span, *, title: str, message: str, subject: str) -> Finding:
    return Finding(
        code=code,
        severity=CATALOGUE[code].severity,
        title=title,
        message=message,
        span=span,
        tier=Tier.KERNELS if code == KERNELS else Tier.CAPTURE,
        target=report.target.name,
        inputs="",
        torch=report.versions.torch or "",
        link=link(code),
        subject=subject,
    )
