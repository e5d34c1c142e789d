"""`--format text`: findings for people, with the source they are about.

Invariant: nothing is told by colour alone; without a terminal the same words come without it.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from fuselight_server.cli.formats.json import severity_word
from fuselight_server.cli.outcome import shown_link
from fuselight_server.cli.sources import shown_path
from fuselight_server.finding import Severity
from fuselight_server.findings.counts import counts
from fuselight_server.findings.failures import code_of
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
"""Columns of running text: those of the terminal, but no more than are read with ease, nor fewer than fit a word."""
_NARROWEST = 40
_MOST_RELATED = 6
_HELP = "help: "
"""What stands before a link, whose line is never broken."""
_SHORTEST_TIME = 0.05
"""Seconds that are worth telling."""


def print_text(outcome: Outcome, console: Console) -> None:
    """Print every finding with its source, then the summary."""
    width = max(_NARROWEST, min(_WIDTH, console.width)) if console.is_terminal else _WIDTH
    for finding in outcome.findings:
        console.print(_block(finding, outcome.sources, width), soft_wrap=True)
        console.print()
    for problem in outcome.problems:
        console.print(
            Text.assemble(("cannot analyse ", "bold red"), f"{problem.what}: {problem.why}"), soft_wrap=True
        )
    for line in _summary(outcome):
        console.print(line, soft_wrap=True)


def _block(finding: Finding, sources: Sources, width: int) -> Text:
    place = sources.place(finding.span)
    margin = " " * len(str(place.end_line + 1))
    text = Text()
    text.append(f"{severity_word(finding)}[{finding.code}]", style=_STYLES[finding.severity])
    text.append(f": {_expanded(finding.title)}", style="bold")
    text.append(f"\n{margin}--> ", style=_FRAME)
    text.append(f"{shown_path(finding.span.path)}:{place.line}:{place.column}\n")
    _excerpt(text, finding, place, sources, len(margin))
    for line in finding.message.split("\n"):
        hanging = "  " if line.startswith("- ") else ""
        for part in _wrapped(line, width - len(margin) - 1, hanging):
            text.append(f"{margin} {part}\n")
    for note, style in _notes(finding, sources):
        lines = [_expanded(note)] if note.startswith(_HELP) else _wrapped(note, width - len(margin) - 3, "")
        for index, part in enumerate(lines):
            text.append(f"{margin} {' ' if index else '='} ", style=_FRAME)
            text.append(f"{part}\n", style=style)
    text.right_crop(1)
    return text


def _wrapped(line: str, width: int, hanging: str) -> list[str]:
    """One line of text as lines that fit; words, paths and links stay whole, and empty lines are left out."""
    return textwrap.wrap(
        _expanded(line), width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def _notes(finding: Finding, sources: Sources) -> Iterator[tuple[str, str]]:
    """The other places, what was run, and the page, each with its style."""
    for item in finding.related[:_MOST_RELATED]:
        at = sources.place(item.span)
        code = (sources.line(item.span.path, item.span.line) or "").strip()
        shown = f": {code}" if code and not code.startswith("#") else ""
        yield f"{shown_path(item.span.path)}:{at.line}: {item.message}{shown}", ""
    if len(finding.related) > _MOST_RELATED:
        yield f"and {counted(len(finding.related) - _MOST_RELATED, 'more place')}", ""
    if finding.inputs or finding.torch:
        yield _ran(finding), "dim"
    if finding.link:
        yield f"{_HELP}{shown_link(finding.link)}", "dim"


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


def _ran(finding: Finding) -> str:
    """What the finding comes from."""
    parts = [f"target {finding.target}", finding.inputs]
    if finding.torch not in {"", "unknown"}:
        parts.append(f"tier {finding.tier.value}, torch {finding.torch}")
    if finding.count > 1:
        parts.append(f"{finding.count} times")
    if finding.gb_ids:
        parts.append(f"also {listed(finding.gb_ids)}")
    return ", ".join(part for part in parts if part)


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
        if not outcome.problems:
            yield Text("No findings.", style="bold green")
        return
    totals = [
        counted(number, name)
        for severity, name in (
            (Severity.ERROR, "error"),
            (Severity.WARNING, "warning"),
            (Severity.INFORMATION, "note"),
            (Severity.HINT, "hint"),
        )
        if (number := sum(finding.severity is severity for finding in outcome.findings))
    ]
    yield Text(f"Found {counted(len(outcome.findings), 'finding')}: {listed(totals)}.", style="bold")


def _target_line(report: Report) -> str:
    """`Net (model.py): 2 graphs, 1 break, 3 recompilations, 2 calls, 4.0 s`."""
    parts = [str(counts(report))]
    if report.inputs is not None and report.inputs.calls:  # a program's own calls are not counted
        parts.append(counted(len(report.inputs.calls), "call"))
    seconds = sum(report.phases.values())
    if seconds >= _SHORTEST_TIME:
        parts.append(f"{seconds:.1f} s")
    if not report.compiles and not report.breaks and report.failures:
        known = any(code_of(failure) != "FL502" for failure in report.failures)
        parts = ["failed" if known else "not run: no inputs are known"]
    return f"{report.target.name or '__main__'} ({shown_path(report.target.path)}): {', '.join(parts)}"
