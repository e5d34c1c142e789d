"""The formats of `check` for services that show findings on code: GitHub's workflow commands, and SARIF 2.1.0.

Invariant: a workflow command is one line a finding, whatever is in the texts. Every SARIF result names a rule of the
run, and carries a fingerprint that survives moved lines.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fuselight.shared.version import version
from fuselight_server.base.finding import Finding, Severity, Span, rank
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import printable
from fuselight_server.commands.baseline import fingerprint
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.notebook_lines import cell_of, line_in_file
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.explain.findings.common import catalogue
from fuselight_server.explain.findings.common.causes import same_cause

if TYPE_CHECKING:
    from fuselight_server.commands.outcome import CheckOutcome


_LEVELS = {
    Severity.ERROR: ("error", "error"),
    Severity.WARNING: ("warning", "warning"),
    Severity.INFORMATION: ("notice", "note"),
    Severity.HINT: ("notice", "note"),
}
"""GitHub's and SARIF's words."""
MAX_RESULTS = 25_000
"""Services refuse a file with more; the worst findings come first."""


def as_github(outcome: CheckOutcome) -> str:
    """The outcome as workflow commands, one a line."""
    shown = check_in_cells(outcome)
    lines = [_command(finding, shown) for finding in shown.findings]
    lines += [f"::error title=Fuselight::{_data(f'{item.what}: {item.why}')}" for item in outcome.problems]
    return "\n".join(lines)


def _command(finding: Finding, outcome: CheckOutcome) -> str:
    place = outcome.sources.character_span(finding.span)
    file, cell = cell_of(finding.span.path)
    first, last = (line_in_file(finding.span.path, line)[1] for line in (place.line, place.end_line))
    properties = {
        "file": shown_path(file),
        "line": str(first),
        "endLine": str(last),
        "title": f"{finding.code} {finding.title}",
    }
    if place.line == place.end_line and cell is None:  # columns mean nothing to GitHub across lines
        properties |= {"col": str(place.column), "endColumn": str(place.end_column)}
    named = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_LEVELS[finding.severity][0]} {named}::{_data(_in_cell(finding) + (finding.message or finding.title))}"


def _in_cell(finding: Finding) -> str:
    """`cell 3, line 2: `; empty for a file that is no notebook."""
    _, cell = cell_of(finding.span.path)
    return f"cell {cell}, line {finding.span.line}: " if cell is not None else ""


def _data(text: str) -> str:
    return printable(text.replace("\r", "\n")).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(outcome: CheckOutcome) -> str:
    """The outcome as SARIF text."""
    marks = [fingerprint(finding, outcome.sources, Path.cwd()) for finding in outcome.findings]
    outcome = check_in_cells(outcome)
    findings = list(zip(outcome.findings, marks, strict=True))
    if len(findings) > MAX_RESULTS:
        findings = sorted(findings, key=lambda pair: rank(pair[0]))[:MAX_RESULTS]
    left_out = len(outcome.findings) - len(findings)
    rules = {finding.code: finding for finding, _ in findings}
    order = {code: index for index, code in enumerate(sorted(rules))}
    run = {
        "tool": {
            "driver": {
                "name": "Fuselight",
                "semanticVersion": version(),
                "rules": [_rule(code, rules[code]) for code in order],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not outcome.problems,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": f"{item.what}: {item.why}"}}
                    for item in outcome.problems
                ]
                + [_left_out(left_out)] * bool(left_out),
            }
        ],
        "results": [_result(finding, order[finding.code], outcome, mark) for finding, mark in findings],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2)


def _left_out(number: int) -> dict[str, Any]:
    count = format_count(number, "finding")
    text = f"{count} left out: a file has at most {MAX_RESULTS:,} results. Check fewer files at once."
    return {"level": "warning", "message": {"text": text}}


def _rule(code: str, example: Finding) -> dict[str, Any]:
    entry = catalogue.CATALOGUE.get(code)
    title = entry.title if entry else example.title
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": title},
        "defaultConfiguration": {"level": _LEVELS[entry.severity if entry else example.severity][1]},
    }
    page = catalogue.page_path(code)
    if page is not None:
        text = page.read_text(encoding="utf-8")
        rule["help"] = {"text": text, "markdown": text}
    elif example.link and example.link.startswith("https:"):
        rule["helpUri"] = example.link
    return rule


def _result(finding: Finding, rule: int, outcome: CheckOutcome, mark: str) -> dict[str, Any]:
    """A result. `mark`: what identifies it when its lines have moved."""
    sources = outcome.sources
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity][1],
        "message": {"text": f"{_in_cell(finding)}{finding.title}\n\n{finding.message}".strip()},
        "locations": [{"physicalLocation": _location(finding.span, sources)}],
        "relatedLocations": [
            {
                "id": index,
                "message": {"text": item.message},
                "physicalLocation": _location(item.span, sources),
            }
            for index, item in enumerate((*finding.related, *same_cause(finding)))
        ],
        "partialFingerprints": {"fuselight/v2": mark},
        "occurrenceCount": finding.count,
        "properties": {"target": finding.target, "tier": finding.tier.value, "inputs": finding.inputs},
    }


def _relative_uri(path: str) -> str:
    """`a%20b.py`: encoded, with `./` where a colon would make the start of a name a scheme."""
    encoded = quote(os.fsencode(path), safe="/:~!$&'()*+,;=@")
    return f"./{encoded}" if ":" in encoded.partition("/")[0] else encoded


def _location(span: Span, sources: SourceFiles) -> dict[str, Any]:
    file, cell = cell_of(span.path)
    place, shown = sources.character_span(span), shown_path(file)
    is_absolute = Path(shown).is_absolute()
    first, last = (line_in_file(span.path, line)[1] for line in (place.line, place.end_line))
    # Columns of a cell are not those of its JSON.
    columns = {"startColumn": place.column, "endColumn": place.end_column} if cell is None else {}
    return {
        "artifactLocation": {"uri": Path(file).as_uri() if is_absolute else _relative_uri(shown)},
        "region": {"startLine": first, "endLine": last, **columns},
    }
