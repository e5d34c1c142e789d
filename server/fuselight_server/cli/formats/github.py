"""`--format github`: workflow commands, which GitHub shows on the lines of a pull request.

Invariant: one line a finding, whatever is in the texts: line ends and the command's own marks are escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.cli.sources import shown_path
from fuselight_server.cli.terminal import printable
from fuselight_server.finding import Severity

if TYPE_CHECKING:
    from fuselight_server.cli.outcome import CheckOutcome
    from fuselight_server.finding import Finding

_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "notice",
    Severity.HINT: "notice",
}


def as_github(outcome: CheckOutcome) -> str:
    """The outcome as workflow commands, one a line."""
    lines = [_command(finding, outcome) for finding in outcome.findings]
    lines += [f"::error title=Fuselight::{_data(f'{item.what}: {item.why}')}" for item in outcome.problems]
    return "\n".join(lines)


def _command(finding: Finding, outcome: CheckOutcome) -> str:
    place = outcome.sources.place(finding.span)
    properties = {
        "file": shown_path(finding.span.path),
        "line": str(place.line),
        "endLine": str(place.end_line),
        "title": f"{finding.code} {finding.title}",
    }
    if place.line == place.end_line:  # columns mean nothing to GitHub across lines
        properties |= {"col": str(place.column), "endColumn": str(place.end_column)}
    named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_LEVELS[finding.severity]} {named}::{_data(finding.message or finding.title)}"


def _data(text: str) -> str:
    return printable(text.replace("\r", "\n")).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
