"""`--format text`: findings for people, with the source they are about.

Invariant: nothing is shown by color alone; without a terminal the same words come without it.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fuselight.shared.report import Report, Tier
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.base.formatting import format_count, format_list, format_target
from fuselight_server.base.remedies import refusals
from fuselight_server.base.terminal import Part, Terminal, cell_width, printable
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.cli.formats.fix_first import print_first
from fuselight_server.commands.sources import CharacterSpan, SourceFiles, shown_path
from fuselight_server.explain.findings.common.counts import counts, runs_of
from fuselight_server.explain.findings.failures import code_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from fuselight_server.commands.outcome import CheckOutcome

_SHOWN = {
    Severity.ERROR: ("bold red", "error"),
    Severity.WARNING: ("bold yellow", "warning"),
    Severity.INFORMATION: ("bold blue", "note"),
    Severity.HINT: ("bold cyan", "hint"),
}
"""The style of each severity, and the noun that counts it."""
_FRAME = "bold blue"
_TAB = 4
_WIDTH = 100
"""Most columns of running text; more are hard to read."""
_NARROWEST = 40
_MAX_RELATED = 6
_MAX_REFUSED = 3
_HELP = "help: "
"""The start of a line with a link, which is never broken."""
_SHORTEST_TIME = 0.05
"""Seconds below which no time is shown."""


def print_findings(
    outcome: CheckOutcome, terminal: Terminal, findings: Iterable[Finding] | None = None
) -> None:
    """Print every finding with its source, then the summary. `findings`: those of the outcome, as they get ready."""
    findings = outcome.findings if findings is None else findings
    if not outcome.priorities:  # a step may be a fix, which only those that are ready have
        findings = list(findings)
        print_first(replace(outcome, findings=findings), terminal)
    else:
        print_first(outcome, terminal)
    print_blocks(findings, outcome.sources, terminal)
    for line in _summary(outcome):
        terminal.print(line)


def print_blocks(findings: Iterable[Finding], sources: SourceFiles, terminal: Terminal) -> None:
    """Print findings with their source."""
    width = max(_NARROWEST, min(_WIDTH, terminal.width)) if terminal.is_terminal else _WIDTH
    for finding in findings:
        terminal.print(*_block(finding, sources, width))


def _block(finding: Finding, sources: SourceFiles, width: int) -> Iterator[Part]:
    place = sources.character_span(finding.span)
    margin = " " * len(str(place.end_line + 1))
    yield f"{severity_word(finding)}[{finding.code}]", _SHOWN[finding.severity][0]
    yield f": {_expanded(finding.title)}", "bold"
    yield f"\n{margin}--> ", _FRAME
    yield f"{shown_path(finding.span.path)}:{place.line}:{place.column}\n"
    yield from _excerpt(finding, place, sources, len(margin))
    for line in finding.message.split("\n"):
        hanging = "  " if line.startswith("- ") else ""
        for part in _wrapped(line, width - len(margin) - 1, hanging):
            yield f"{margin} {part}\n"
    for note, style in _notes(finding, sources):
        lines = [_expanded(note)] if note.startswith(_HELP) else _wrapped(note, width - len(margin) - 3, "")
        for index, part in enumerate(lines):
            yield f"{margin} {' ' if index else '='} ", _FRAME
            yield f"{part}\n", style


def _wrapped(line: str, width: int, hanging: str) -> list[str]:
    """One line of text as lines that fit; words, paths and links stay whole, and empty lines are left out."""
    return textwrap.wrap(
        _expanded(line), width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def _notes(finding: Finding, sources: SourceFiles) -> Iterator[tuple[str, str]]:
    """The other places, what was run, and the page, each with its style."""
    yield from ((refusal, "") for refusal in refusals(finding.remedies)[:_MAX_REFUSED])
    for item in finding.related[:_MAX_RELATED]:
        at = sources.character_span(item.span)
        code = (sources.line(item.span.path, item.span.line) or "").strip()
        shown = f": {code}" if code and not code.startswith("#") else ""
        yield f"{shown_path(item.span.path)}:{at.line}: {item.message}{shown}", ""
    if len(finding.related) > _MAX_RELATED:
        yield f"and {format_count(len(finding.related) - _MAX_RELATED, 'more place')}", ""
    if finding.inputs or finding.torch:
        yield _ran(finding), "dim"
    if finding.link:
        yield f"{_HELP}{shown_link(finding.link)}", "dim"


def _excerpt(finding: Finding, place: CharacterSpan, sources: SourceFiles, margin: int) -> Iterator[Part]:
    """The line before, the line itself with carets under the span, and the line after."""
    line = sources.line(finding.span.path, place.line)
    if line is None:
        return
    yield f"{' ' * margin} |\n", _FRAME
    for number in (place.line - 1, place.line, place.line + 1):
        source = sources.line(finding.span.path, number)
        if source is None or (number != place.line and not source.strip()):
            continue
        yield f"{number:>{margin}} | ", _FRAME
        yield f"{_expanded(source)}\n"
        if number == place.line:
            before = cell_width(_expanded(source[: place.column - 1]))
            end = place.end_column - 1 if place.end_line == place.line else len(source.rstrip())
            width = max(1, cell_width(_expanded(source[:end])) - before)
            yield f"{' ' * margin} | ", _FRAME
            yield f"{' ' * before}{'^' * width}\n", _SHOWN[finding.severity][0]
    yield f"{' ' * margin} |\n", _FRAME


def _expanded(source: str) -> str:
    """The line as a terminal shows it: tabs as blanks, control characters as marks."""
    return printable(source.expandtabs(_TAB).replace("\n", " "))


def _ran(finding: Finding) -> str:
    """The run that made the finding."""
    is_usual = finding.tier is Tier.CAPTURE
    parts = [f"target {format_target(finding.target)}", finding.inputs]
    if finding.torch not in {"", "unknown"}:
        parts.append(f"{'' if is_usual else f'tier {finding.tier.value}, '}torch {finding.torch}")
    if finding.count > 1:
        parts.append(f"{finding.count} times")
    if finding.gb_ids:
        parts.append(f"also {format_list(finding.gb_ids)}")
    return ", ".join(part for part in parts if part)


def _summary(outcome: CheckOutcome) -> Iterator[Part]:
    for report, *others in runs_of(outcome.reports):
        names = [format_target(other.target.name) for other in (report, *others)]
        together = f"{format_list(names)} together" if others else ""
        yield target_line(report, outcome.unchanged_since(report), together), "dim"
        yield from ((f"  {note.text}", "dim") for note in report.notes if note.kind == "without_aot")
    if outcome.known:
        yield f"{format_count(outcome.known, 'finding')} in the baseline not shown.", "dim"
    if outcome.since_baseline and outcome.findings:
        changes = format_list(outcome.since_baseline)
        yield f"Changed since the baseline: {changes}. Findings can be new for this reason.", "dim"
    if outcome.elsewhere:
        count = format_count(outcome.elsewhere, "finding")
        yield f"{count} on lines unchanged since {outcome.changed_since} not shown.", "dim"
    if not outcome.reports and not outcome.findings and not outcome.problems:
        yield from outcome.uncalled or (
            (
                "No targets: nothing here is compiled or has a `# fuselight:` directive. "
                "Name a class or function with --target."
            ),
        )
        return
    if outcome.findings:
        yield totals(outcome), "bold"
    elif not outcome.problems:
        yield from _without_findings(outcome)


def _without_findings(outcome: CheckOutcome) -> Iterator[Part]:
    """What it means that there are no findings: what was compiled, and whether results were compared."""
    if not any(report.compiles for report in outcome.reports):
        yield "No findings, as nothing was compiled.", "bold green"
        yield (
            "Call a compiled function when the file runs, or write a `# fuselight:` directive above it.",
            "dim",
        )
        return
    is_whole = all(not (counted.breaks or counted.recompilations) for counted in map(counts, outcome.reports))
    why = ": no graph break, and nothing was compiled twice" if is_whole else ""
    yield f"No findings{why}.", "bold green"
    if all(report.results is None for report in outcome.reports):
        yield "Results were not compared with eager mode: `fuselight accuracy` compares them.", "dim"


def totals(outcome: CheckOutcome) -> str:
    """Count the findings: `Found 3 findings: 1 error and 2 warnings.`."""
    counted = [
        format_count(number, name)
        for severity, (_, name) in _SHOWN.items()
        if (number := sum(finding.severity is severity for finding in outcome.findings))
    ]
    return f"Found {format_count(len(outcome.findings), 'finding')}: {format_list(counted)}."


def target_line(report: Report, unchanged_since: datetime | None = None, names: str = "") -> str:
    """`Net (model.py): 2 graphs, 1 break, 3 recompilations, 2 calls, 4.0 s`, and whether it was not run.

    `names`: those of several targets that the report is about; empty for its own.
    """
    parts = [str(counts(report))]
    if report.inputs is not None and report.inputs.calls:  # a program's own calls are not counted
        parts.append(format_count(len(report.inputs.calls), "call"))
    elif report.inputs is not None and not (report.compiles or report.breaks or report.failures):
        parts = ["torch.compile compiled nothing"]
    seconds = sum(report.phases.values())
    if seconds >= _SHORTEST_TIME:
        parts.append(f"{seconds:.1f} s")
    if not report.compiles and not report.breaks and report.failures:
        known = any(code_of(failure) != "FL502" for failure in report.failures)
        parts = ["failed" if known else "not run: no example inputs"]
    if unchanged_since is not None:
        parts.append(f"unchanged since {unchanged_since.astimezone():%Y-%m-%d %H:%M}")
    return (
        f"{names or format_target(report.target.name)} ({shown_path(report.target.path)}): {', '.join(parts)}"
    )


def shown_link(link: str) -> str:
    """A page as briefly as it can be found: a file under the working folder by its path, all else by its URI."""
    parts = urlsplit(link)
    if parts.scheme != "file":
        return link
    short = shown_path(_path_of(parts.path))
    return link if Path(short).is_absolute() else short


def _path_of(part: str) -> str:
    """The path that a URI of a file names, as `url2pathname` gives it."""
    if sys.platform != "win32":
        return unquote(part)
    from urllib.request import url2pathname  # noqa: PLC0415 - with all of `http` and `email`: 20 ms

    return url2pathname(part)
