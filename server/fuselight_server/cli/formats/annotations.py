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
from fuselight_server.base.finding import Severity, rank
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import printable
from fuselight_server.commands.baseline import fingerprint
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.findings.common import catalogue
from fuselight_server.explain.findings.common.causes import same_cause

if TYPE_CHECKING:
    from fuselight_server.base.finding import Finding, Span
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.sources import SourceFiles


_LEVELS = {
    Severity.ERROR: ("error", "error"),
    Severity.WARNING: ("warning", "warning"),
    Severity.INFORMATION: ("notice", "note"),
    Severity.HINT: ("notice", "note"),
}
"""GitHub's and SARIF's words."""
MOST_RESULTS = 25_000
"""Services refuse a file with more; the worst findings come first."""


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
    return f"::{_LEVELS[finding.severity][0]} {named}::{_data(finding.message or finding.title)}"


def _data(text: str) -> str:
    return printable(text.replace("\r", "\n")).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(outcome: CheckOutcome) -> str:
    """The outcome as SARIF text."""
    findings = outcome.findings
    if len(findings) > MOST_RESULTS:
        findings = sorted(findings, key=rank)[:MOST_RESULTS]
    left_out = len(outcome.findings) - len(findings)
    rules = {finding.code: finding for finding in findings}
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
        "results": [_result(finding, order[finding.code], outcome) for finding in findings],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2)


def _left_out(number: int) -> dict[str, Any]:
    count = format_count(number, "finding")
    text = f"{count} left out: a file has at most {MOST_RESULTS:,} results. Check fewer files at once."
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


def _result(finding: Finding, rule: int, outcome: CheckOutcome) -> dict[str, Any]:
    sources = outcome.sources
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity][1],
        "message": {"text": f"{finding.title}\n\n{finding.message}".strip()},
        "locations": [{"physicalLocation": _location(finding.span, sources)}],
        "relatedLocations": [
            {
                "id": index,
                "message": {"text": item.message},
                "physicalLocation": _location(item.span, sources),
            }
            for index, item in enumerate((*finding.related, *same_cause(finding)))
        ],
        "partialFingerprints": {"fuselight/v2": fingerprint(finding, sources, Path.cwd())},
        "occurrenceCount": finding.count,
        "properties": {"target": finding.target, "tier": finding.tier.value, "inputs": finding.inputs},
    }


def _relative_uri(path: str) -> str:
    """`a%20b.py`: encoded, with `./` where a colon would make the start of a name a scheme."""
    encoded = quote(os.fsencode(path), safe="/:~!$&'()*+,;=@")
    return f"./{encoded}" if ":" in encoded.partition("/")[0] else encoded


def _location(span: Span, sources: SourceFiles) -> dict[str, Any]:
    place, shown = sources.place(span), shown_path(span.path)
    is_absolute = Path(shown).is_absolute()
    return {
        "artifactLocation": {"uri": Path(span.path).as_uri() if is_absolute else _relative_uri(shown)},
        "region": {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        },
    }
