"""`--format text`: findings for people, with the source they are about.

Invariant: nothing is told by colour alone; without a terminal the same words come without it.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from fuselight_server.cli.formats.json import severity_word
from fuselight_server.cli.outcome import shown_path
from fuselight_server.finding import Severity
from fuselight_server.findings.text import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from fuselight.report import Report
    from fuselight_server.cli.outcome import Outcome
    from fuselight_server.cli.sources import Place, Sources
    from fuselight_server.finding import Finding

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFORMATION: "bold blue",
    Severity.HINT: "bold cyan",
}
_FRAME = "bold blue"
_TAB = 4
_WIDTH = 100
_MOST_RELATED = 6


def print_text(outcome: Outcome, console: Console) -> None:
    """Print every finding with its source, then the summary."""
    for finding in outcome.findings:
        console.print(_block(finding, outcome.sources), soft_wrap=True)
        console.print()
    for problem in outcome.problems:
        console.print(
            Text.assemble(("cannot analyse ", "bold red"), f"{problem.what}: {problem.why}"), soft_wrap=True
        )
    for line in _summary(outcome):
        console.print(line, soft_wrap=True)


def _block(finding: Finding, sources: Sources) -> Text:
    place = sources.place(finding.span)
    margin = len(str(place.end_line + 1))
    text = Text()
    text.append(f"{severity_word(finding)}[{finding.code}]", style=_STYLES[finding.severity])
    text.append(f": {_expanded(finding.title)}", style="bold")
    text.append(f"{' ' * margin}--> ".join(("\n", "")), style=_FRAME)
    text.append(f"{shown_path(finding.span.path)}:{place.line}:{place.column}\n")
    _excerpt(text, finding, place, sources, margin)
    for index, item in enumerate(finding.related[:_MOST_RELATED]):
        at = sources.place(item.span)
        code = sources.line(item.span.path, item.span.line) or ""
        text.append(f"{' ' * margin} {'=' if index == 0 else ' '} ", style=_FRAME)
        text.append(f"{_expanded(item.message)}: {shown_path(item.span.path)}:{at.line}:{at.column}")
        text.append(f"  {_expanded(code.strip())}\n" if code.strip() else "\n", style="dim")
    if len(finding.related) > _MOST_RELATED:
        text.append(f"{' ' * margin}   and {counted(len(finding.related) - _MOST_RELATED, 'more place')}\n")
    for line in finding.message.split("\n"):
        hanging = "  " if line.startswith("- ") else ""
        for part in textwrap.wrap(line, _WIDTH, subsequent_indent=hanging, break_long_words=False) or [""]:
            text.append(f"{' ' * margin} {_expanded(part)}".rstrip() + "\n")
    text.append(f"{' ' * margin} {_expanded(_footer(finding))}", style="dim")
    return text


def _excerpt(text: Text, finding: Finding, place: Place, sources: Sources, margin: int) -> None:
    """The line before, the line itself with carets under the span, and the line behind."""
    line = sources.line(finding.span.path, place.line)
    if line is None:
        return
    text.append(f"{' ' * margin} |\n", style=_FRAME)
    for number in (place.line - 1, place.line, place.line + 1):
        source = sources.line(finding.span.path, number)
        if source is None or (number != place.line and not source.strip()):
            continue
        text.append(f"{number:>{margin}} | ", style=_FRAME)
        text.append(f"{_expanded(source)}\n")
        if number == place.line:
            before = cell_len(_expanded(source[: place.column - 1]))
            end = place.end_column - 1 if place.end_line == place.line else len(source.rstrip())
            width = max(1, cell_len(_expanded(source[:end])) - before)
            text.append(f"{' ' * margin} | ", style=_FRAME)
            text.append(f"{' ' * before}{'^' * width}\n", style=_STYLES[finding.severity])
    text.append(f"{' ' * margin} |\n", style=_FRAME)


def _expanded(source: str) -> str:
    """The line as a terminal shows it: tabs as blanks, control characters (which could act on it) as marks."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in source.expandtabs(_TAB))


def _footer(finding: Finding) -> str:
    parts = [f"target {finding.target}" if finding.target else "", finding.inputs]
    if finding.torch:
        parts.append(f"tier {finding.tier.value}, torch {finding.torch}")
    if finding.count > 1:
        parts.append(f"{finding.count} times")
    if finding.gb_ids:
        parts.append(f"also {listed(finding.gb_ids)}")
    if finding.link:
        parts.append(finding.link)
    return " | ".join(part for part in parts if part)


def _summary(outcome: Outcome) -> Iterator[Text]:
    for report in outcome.reports:
        yield Text(_target_line(report), style="dim")
    if outcome.known:
        yield Text(f"{counted(outcome.known, 'finding')} of the baseline not shown.", style="dim")
    if not outcome.reports and not outcome.findings and not outcome.problems:
        yield Text(
            "No targets: nothing here is compiled and nothing has a `# fuselight:` directive. "
            "Name one with --target, as a class or function of the file."
        )
        return
    if not outcome.findings:
        yield Text("No findings.", style="bold green")
        return
    counts = [
        counted(number, name)
        for severity, name in (
            (Severity.ERROR, "error"),
            (Severity.WARNING, "warning"),
            (Severity.INFORMATION, "note"),
            (Severity.HINT, "hint"),
        )
        if (number := sum(finding.severity is severity for finding in outcome.findings))
    ]
    yield Text(f"Found {counted(len(outcome.findings), 'finding')}: {listed(counts)}.", style="bold")


def _target_line(report: Report) -> str:
    graphs = sum(item.graph is not None for item in report.compiles)
    again = sum(item.compile_id is not None for item in report.recompiles)
    name = report.target.name or "__main__"
    calls = len(report.inputs.calls) if report.inputs else 0
    parts = [counted(graphs, "graph"), counted(again, "recompilation"), counted(calls, "call")]
    seconds = sum(report.phases.values())
    timed = f" in {seconds:.1f} s" if seconds else ""
    return f"{shown_path(report.target.path)}: {name}: {', '.join(parts)}{timed}"
