"""`fuselight check --facts`: the values that the expressions of each file had, as a table and as JSON.

Invariant: both print every fact of the reports, and what was never traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_count, format_lines
from fuselight_server.cli.formats.finding_parts import position_as_json
from fuselight_server.cli.formats.text_parts import target_name
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.explain.findings.common.fact_words import FactWords
from fuselight_server.explain.findings.conditions import OneSided, one_sided

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import Fact, FileFacts, Report
    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.outcome import CheckOutcome

_LONGEST = 48
"""Characters of an expression in the table."""


def print_facts(outcome: CheckOutcome, terminal: Terminal) -> None:
    """Print a table for each target and file."""
    for report in outcome.reports:
        for path, facts in report.facts.files.items():
            count = format_count(len(facts.facts), "expression")
            terminal.print((target_name(report), "bold"), f" - {count} of {shown_path(path)}")
            if facts.facts:
                rows = list(_rows(report, path, facts, outcome.sources))
                terminal.print_table([("line", "expression", "value", "times"), *rows], left_columns=3)
            for line in _notes(path, facts, outcome.sources):
                terminal.print(line)
            terminal.print()
        if not report.facts.files:
            terminal.print((target_name(report), "bold"), f" - {_no_facts(report)}")


def _no_facts(report: Report) -> str:
    """Say why there are none."""
    old = tuple(int(part) for part in report.versions.python.split(".")[:2]) < (3, 11)
    return "no values: they need Python 3.11 or later" if old else "no expression was traced"


def _rows(report: Report, path: str, facts: FileFacts, sources: SourceFiles) -> Iterator[tuple[str, ...]]:
    """One row for each value of an expression."""
    words = FactWords(report.facts)
    for fact in facts.facts:
        head = (str(fact.line), _text(_span(path, fact), sources) + (" =" if fact.assigned else ""))
        for value in words.values(fact):
            yield *head, " ".join([value.value.text, *value.details]), str(value.count)
            head = ("", "")
        if fact.omitted:
            yield *head, f"and {format_count(fact.omitted, 'more value')}", ""


def _notes(path: str, facts: FileFacts, sources: SourceFiles) -> Iterator[str]:
    """What was not traced: sides of conditions, and lines."""
    for condition in _conditions(path, facts, sources):
        yield f"line {condition.span.line}: {_text(condition.span, sources)} was {condition.words}"
    if facts.untraced:
        lines = format_lines(line for first, last in facts.untraced for line in range(first, last + 1))
        yield f"never traced with these inputs: {lines}"


def _conditions(path: str, facts: FileFacts, sources: SourceFiles) -> Iterator[OneSided]:
    """The conditions with a side that was never traced."""
    conditions = (one_sided(branch, path, sources.line) for branch in facts.branches)
    return (condition for condition in conditions if condition is not None)


def _text(span: Span, sources: SourceFiles) -> str:
    """The source of an expression, shortened, on one line."""
    place = sources.character_span(span)
    line = sources.line(span.path, place.line) or ""
    if place.end_line > place.line:
        text = f"{line[place.column - 1 :].strip()} ..."
    else:
        text = line[place.column - 1 : place.end_column - 1]
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def facts_as_json(report: Report, sources: SourceFiles) -> list[dict[str, Any]]:
    """The facts of each file, by the keys that docs/report.md names."""
    words = FactWords(report.facts)
    return [
        {
            "path": path,
            "expressions": [_fact_as_json(words, path, fact, sources) for fact in facts.facts],
            "conditions": [
                {
                    **position_as_json(condition.span, sources),
                    "text": _text(condition.span, sources),
                    "always": condition.always,
                }
                for condition in _conditions(path, facts, sources)
            ],
            "untraced": [list(lines) for lines in facts.untraced],
        }
        for path, facts in report.facts.files.items()
    ]


def _fact_as_json(words: FactWords, path: str, fact: Fact, sources: SourceFiles) -> dict[str, Any]:
    return {
        **position_as_json(_span(path, fact), sources),
        "text": _text(_span(path, fact), sources),
        "assigned": fact.assigned,
        "values": [
            {
                "kind": value.value.kind.value,
                "value": value.value.text,
                "device": value.value.device,
                "strides": value.value.strides,
                "requires_grad": value.value.requires_grad,
                "count": value.count,
            }
            for value in words.values(fact)
        ],
        "omitted": fact.omitted,
    }


def _span(path: str, fact: Fact) -> Span:
    return Span(path, fact.line, fact.column, fact.end_line, fact.end_column)
