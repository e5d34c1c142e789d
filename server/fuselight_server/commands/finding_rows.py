"""Findings as short rows of plain data, for faces that list them.

Invariant: positions are 1-based characters. A number of a finding is that of the finding; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fuselight.shared.report import Problem
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import cut_list
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.explain.findings.fixable import has_remedies

_MAX_HINTS = 3
_MAX_PLACES = 10


def finding_data(finding: Finding, sources: SourceFiles) -> dict[str, Any]:
    """A finding of a list."""
    place = sources.character_span(finding.span)
    places = [f"{shown_path(other.span.path)}:{other.span.line}" for other in finding.also_at]
    data = {
        "path": shown_path(finding.span.path),
        "line": place.line,
        "column": place.column,
        "code": finding.code,
        "severity": finding.severity.name.lower(),
        "title": finding.title,
        "cost": list(finding.cost),
        "hints": list(finding.hints[:_MAX_HINTS]),
        "remedies": [remedy.as_data() for remedy in finding.remedies],
        "target": finding.target,
        "tier": finding.tier.value,
        "has_known_rewrites": has_remedies(finding.code),
        "also_at": cut_list(places, _MAX_PLACES),
    }
    if finding.count > 1:
        data["count"] = finding.count
    if finding.same_as is not None:
        data["explained_at"] = f"{shown_path(finding.same_as.path)}:{finding.same_as.line}"
    return data


def finding_lines(data: dict[str, Any]) -> Iterator[str]:
    """A finding of a list as text."""
    place = f"{data['path']}:{data['line']}:{data['column']}"
    yield f"{place}: {data['severity']} {data['code']}: {data['title']}"
    if data["cost"]:
        yield f"    cost: {'; '.join(data['cost'])}"
    if data["hints"]:
        yield f"    to do: {data['hints'][0]}"
    if data["also_at"]:
        yield f"    also at {', '.join(data['also_at'])}"


def problem_texts(problems: Iterable[Problem]) -> list[str]:
    """What could not be done."""
    return [f"{problem.what}: {problem.why}" for problem in problems]
