"""The findings of files, composed once for the terminal and the editor: of runs, and what the source alone shows.

Invariant: a face that shows findings of files gets them from here, so that each has the same hints, the same ignore
comments and the same folding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.explain.findings import after_capture, apply_ignores, fold, nothing_ran, static_findings
from fuselight_server.explain.findings.static import example_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding, Span
    from fuselight_server.explain.findings.static import HasRun
    from fuselight_server.source.reading import Reading, StaticTarget

_WITHOUT_INPUTS = "FL502"


@dataclass(frozen=True)
class SourceHints:
    """A file whose source is read for hints, and what is known of its targets."""

    reading: Reading
    answered: Collection[str] = ()
    """Targets for which a run has found inputs."""
    most: int | None = None
    """Targets that are hinted at; None for all."""
    example: Callable[[StaticTarget], str] = example_unread
    """A directive's call of a target."""


def compose_findings(
    ran: Iterable[Finding],
    sources: Iterable[SourceHints],
    comments: Mapping[str, Reading],
    *,
    served: Collection[tuple[str, int]] = (),
    has_run: HasRun = after_capture,
) -> list[Finding]:
    """Return the findings of runs and of sources, each once, without what comments silence, folded by cause.

    `served`: path and line of what the program of another file called. `has_run`: as in `apply_ignores`.
    """
    findings = list(ran)
    at = {_line(finding) for finding in findings}
    for source in sources:
        hints = static_findings(
            source.reading, answered=source.answered, hints=source.most, example=source.example
        )
        findings += [hint for hint in hints if _line(hint) not in at]
    needed = (
        finding
        for finding in findings
        if finding.code != _WITHOUT_INPUTS or (finding.span.path, finding.span.line) not in served
    )
    return fold(apply_ignores(_without_repeats(needed, comments), comments, has_run=has_run))


def answered_targets(reading: Reading, reports: Iterable[Report]) -> set[str]:
    """The targets of a file that have inputs: of a run of their own, or of a program that called what makes them."""
    reports = tuple(reports)
    names = {
        report.target.name or ""
        for report in reports
        if report.inputs is not None and report.target.path == reading.path
    }
    running = {
        _last(place.function or "")
        for report in reports
        for compiled in report.compiles
        for place in compiled.caller
        if place.path == reading.path
    }
    inner = (target for target in reading.targets if target.maker is not None)
    return names | {target.name for target in inner if _last(target.maker or "") in running}


def _last(name: str) -> str:
    """The last part of a function's name: a stack may have that part alone."""
    return name.rpartition(".")[2]


def without_ignored(ran: Iterable[Finding], comments: Mapping[str, Reading]) -> tuple[Finding, ...]:
    """Drop what comments silence; not folded, and no comment is reported as unused."""
    return apply_ignores(ran, comments, has_run=nothing_ran)


def _line(finding: Finding) -> tuple[str, int, str]:
    return finding.span.path, finding.span.line, finding.code


def _without_repeats(findings: Iterable[Finding], readings: Mapping[str, Reading]) -> list[Finding]:
    """Keep one of the findings that several targets have in common, as those of one program have."""
    same: dict[object, list[Finding]] = {}
    for finding in findings:
        same.setdefault((finding.span, finding.code, finding.title), []).append(finding)
    return [_of_its_target(group, readings) for group in same.values()]


def _of_its_target(same: list[Finding], readings: Mapping[str, Reading]) -> Finding:
    """That of the target whose source has the line, or the nearest line that leads to it; else the first."""
    for span in (same[0].span, *(item.span for item in same[0].related)) if len(same) > 1 else ():
        for finding in same:
            reading = readings.get(finding.target_path) if span.path == finding.target_path else None
            targets = reading.targets if reading is not None else ()
            own = [target for target in targets if target.name == finding.target]
            compiled = {name for target in own for name in (target.name, target.wraps, target.holds)}
            if any(_has(target.span, span) for target in targets if target.name in compiled):
                return finding
    return same[0]


def _has(whole: Span, part: Span) -> bool:
    return whole.line <= part.line <= (whole.end_line or whole.line)
