"""`--format sarif`: SARIF 2.1.0, for code scanning services.

Invariant: every result names a rule of the run, and carries a fingerprint that survives moved lines.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fuselight.version import version
from fuselight_server.cli.baseline import fingerprint
from fuselight_server.cli.sources import shown_path
from fuselight_server.finding import Severity
from fuselight_server.findings import catalogue

if TYPE_CHECKING:
    from fuselight_server.cli.outcome import CheckOutcome
    from fuselight_server.cli.sources import SourceFiles
    from fuselight_server.finding import Finding, Span

_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
    Severity.HINT: "note",
}


def as_sarif(outcome: CheckOutcome) -> str:
    """The outcome as SARIF text."""
    rules = {finding.code: finding for finding in outcome.findings}
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
                ],
            }
        ],
        "results": [_result(finding, order[finding.code], outcome) for finding in outcome.findings],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2)


def _rule(code: str, example: Finding) -> dict[str, Any]:
    entry = catalogue.CATALOGUE.get(code)
    title = entry.title if entry else example.title
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": title},
        "defaultConfiguration": {"level": _LEVELS[entry.severity if entry else example.severity]},
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
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.title}\n\n{finding.message}".strip()},
        "locations": [{"physicalLocation": _location(finding.span, sources)}],
        "relatedLocations": [
            {
                "id": index,
                "message": {"text": item.message},
                "physicalLocation": _location(item.span, sources),
            }
            for index, item in enumerate(finding.related)
        ],
        "partialFingerprints": {"fuselight/v1": fingerprint(finding, sources, Path.cwd())},
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
