"""A report of a kernel as text and as HTML without scripts.

Invariant: both show the findings of one outcome, which the use case makes; no text of the user's becomes markup.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from fuselight.shared.kernel_cells import CellText, ReportHeading, ShownReport
from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.base.terminal import Color, Terminal
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.cli.formats.findings import print_blocks, totals
from fuselight_server.cli.formats.fix_first import print_first
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.recording import recording_outcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.explain.pages.parts import html_text
from fuselight_server.kernel.cell_names import named_cells, with_cell_names

MAX_SHOWN = 100
"""Findings in the output of one cell, which the notebook keeps."""
_WIDTH = 100
_COLORS = {
    Severity.ERROR: "#d9534f",
    Severity.WARNING: "#c77c11",
    Severity.INFORMATION: "#3a87c8",
    Severity.HINT: "#3c9a8a",
}
"""Colors that can be read on a light and on a dark background."""


def view(report: Report, cells: Mapping[str, CellText], heading: ReportHeading) -> ShownReport:
    """The report with the findings in the cells."""
    named = named_cells(cells)
    renamed = with_cell_names(report, named)
    outcome = recording_outcome(renamed, {cell.path: cell.text for cell in named.values()})
    summary = [f"{heading.title}: {counts(renamed)}", *heading.remarks, *_unknown(outcome)]
    return ShownReport(_text(outcome, summary), _html(outcome, summary))


def _unknown(outcome: CheckOutcome) -> Iterator[str]:
    """What is not known, and why."""
    yield from (
        f"unknown: {problem.what}: {problem.why}" for report in outcome.reports for problem in report.problems
    )
    if len(outcome.findings) > MAX_SHOWN:
        yield f"The first {MAX_SHOWN} of {len(outcome.findings)} findings are shown."


def _text(outcome: CheckOutcome, summary: list[str]) -> str:
    stream = io.StringIO()
    terminal = Terminal(stream, color=Color.NEVER, width=_WIDTH)
    terminal.print("\n".join(["Fuselight", *summary]), "\n")
    print_first(outcome, terminal)
    print_blocks(outcome.findings[:MAX_SHOWN], outcome.sources, terminal)
    if outcome.findings:
        terminal.print(totals(outcome))
    return stream.getvalue().rstrip()


def _html(outcome: CheckOutcome, summary: list[str]) -> str:
    first, *rest = summary
    stream = io.StringIO()
    print_first(outcome, Terminal(stream, color=Color.NEVER, width=_WIDTH))
    lines = [*rest, *filter(None, stream.getvalue().split("\n"))]
    parts = [
        f"<div><strong>Fuselight</strong> {html_text(first)}</div>",
        *(f"<div>{html_text(line)}</div>" for line in lines),
        *(_finding(finding, outcome) for finding in outcome.findings[:MAX_SHOWN]),
    ]
    style = "border-left:3px solid #8888;padding:2px 10px;margin:4px 0"
    return f'<div class="fuselight" style="{style}">{"".join(parts)}</div>'


def _finding(finding: Finding, outcome: CheckOutcome) -> str:
    """A finding that opens: its line, what it costs, and what to do."""
    place = outcome.sources.character_span(finding.span)
    at = f"{shown_path(finding.span.path)}:{place.line}"
    color = _COLORS[finding.severity]
    head = (
        f'<span style="color:{color};font-weight:bold">{severity_word(finding)}</span> '
        f"<code>{html_text(at)}</code> {html_text(finding.title)} "
        f'<span style="opacity:.7">{html_text(finding.code)}</span>'
    )
    paragraphs = "".join(
        f"<div>{html_text(line)}</div>" for line in finding.message.split("\n") if line.strip()
    )
    is_open = " open" if finding.severity >= Severity.WARNING else ""
    return (
        f'<details{is_open} style="margin:6px 0"><summary style="cursor:pointer">{head}</summary>'
        f'<div style="margin:2px 0 2px 16px">{_excerpt(finding, outcome, color)}{paragraphs}'
        f"{_related(finding, outcome)}{_link(finding)}</div></details>"
    )


def _excerpt(finding: Finding, outcome: CheckOutcome, color: str) -> str:
    """The line, with the part of it that is meant."""
    place = outcome.sources.character_span(finding.span)
    line = outcome.sources.line(finding.span.path, place.line)
    if line is None:
        return ""
    start = place.column - 1
    end = place.end_column - 1 if place.end_line == place.line else len(line)
    marked = (
        f"{html_text(line[:start])}"
        f'<span style="text-decoration:underline;text-decoration-color:{color}">{html_text(line[start:end])}</span>'
        f"{html_text(line[end:])}"
    )
    return f'<pre style="margin:2px 0"><span style="opacity:.6">{place.line:>4} </span>{marked}</pre>'


def _related(finding: Finding, outcome: CheckOutcome) -> str:
    items = [
        f"<li><code>{html_text(shown_path(item.span.path))}:{outcome.sources.character_span(item.span).line}</code> "
        f"{html_text(item.message)}</li>"
        for item in finding.related[:6]
    ]
    return f'<ul style="margin:2px 0">{"".join(items)}</ul>' if items else ""


def _link(finding: Finding) -> str:
    """The page of the code, where it is on the web: a notebook is read on other machines."""
    if finding.link is None or not finding.link.startswith("https://"):
        return ""
    name = html_text(Path(finding.link).name)
    return f'<div><a href="{html_text(finding.link)}" target="_blank" rel="noopener">{name}</a></div>'
