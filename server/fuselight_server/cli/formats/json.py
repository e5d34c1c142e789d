"""`--format json`: one object with `schema`, `findings`, `targets` and `problems` (docs/report.md).

Invariant: lines and columns are 1-based characters, the end column exclusive; keys are never renamed within a schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import encode
from fuselight.shared.report import Outcome as CompileOutcome
from fuselight.shared.report import Report
from fuselight_server.cli.formats.finding_parts import file_and_line, position_as_json, severity_word
from fuselight_server.commands.notebook_lines import cell_of
from fuselight_server.explain.findings.common.counts import counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from fuselight_server.base.finding import Finding, Span
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.sources import SourceFiles
    from fuselight_server.explain.findings.priority import Priority
    from fuselight_server.explain.ranks.link import RankLink

SCHEMA = 1


def as_json(
    outcome: CheckOutcome, *, with_facts: bool = False, fix_command: str = "", link: RankLink | None = None
) -> str:
    """The outcome as JSON text, as by `as_data`."""
    return json.dumps(as_data(outcome, with_facts=with_facts, fix_command=fix_command, link=link), indent=2)


def as_data(
    outcome: CheckOutcome, *, with_facts: bool = False, fix_command: str = "", link: RankLink | None = None
) -> dict[str, Any]:
    """The outcome as an object of JSON. `with_facts`: each target with the values of its expressions.

    `link`: that of the estimated times of collectives, for targets that ran as several ranks.

    `fix_command` verifies the known fixes; empty where none is known.
    """
    targets = [_target(report, outcome.unchanged_since(report)) for report in outcome.reports]
    if link is not None:
        from fuselight_server.cli.formats.world import world_as_json  # noqa: PLC0415 - only with ranks

        for target, report in zip(targets, outcome.reports, strict=True):
            target["world"] = world_as_json(report, link)
    if with_facts:
        from fuselight_server.cli.formats.facts import facts_as_json  # noqa: PLC0415 - only if asked for

        for target, report in zip(targets, outcome.reports, strict=True):
            target["facts"] = facts_as_json(report, outcome.sources)
    change = {"since": outcome.changed_since, "findings_elsewhere": outcome.elsewhere}
    return {
        "schema": SCHEMA,
        "change": change if outcome.changed_since else None,
        "fix_first": fix_first_as_json(outcome, fix_command),
        "findings": [finding_as_json(finding, outcome.sources) for finding in outcome.findings],
        "targets": targets,
        "problems": problems_as_json(outcome),
    }


def fix_first_as_json(
    outcome: CheckOutcome, fix_command: str, verified: Callable[[Priority], str] = lambda _: ""
) -> dict[str, Any] | None:
    """The line to fix first and what that gains; None where no line costs anything.

    `verified` names the fix of that line that has passed; empty where none has.
    """
    lines = outcome.priorities
    if not lines:
        return None
    cost = lines[0].cost
    codes = [
        finding.code
        for finding in outcome.findings
        if (finding.span.path, finding.span.line) == (cost.path, cost.line)
    ]
    return {
        **file_and_line(cost.path, cost.line),
        "title": lines[0].words(fix=verified(lines[0])),
        "gain": lines[0].gain,
        "codes": codes,
        "target": lines[0].target or "__main__",
        "target_path": lines[0].target_path,
        "eager": list(cost.eager),
        "limited": list(cost.limited),
        "breaks": cost.breaks,
        "graphs": cost.graphs,
        "recompilations": cost.recompilations,
        "seconds": round(cost.seconds, 3),
        "eager_us": round(cost.eager_us, 3) or None,
        "fix": fix_command or None,
        "verified": verified(lines[0]) or None,
    }


def problems_as_json(outcome: CheckOutcome) -> list[dict[str, Any]]:
    """What could not be determined, of the command and of each target."""
    problems = [{**encode(problem), "target": None} for problem in outcome.problems]
    for report in outcome.reports:
        name = report.target.name or "__main__"
        problems += [{**encode(problem), "target": name} for problem in report.problems]
    return problems


def finding_as_json(finding: Finding, sources: SourceFiles) -> dict[str, Any]:
    """One finding, by the keys that docs/report.md names."""
    return {
        **_place(finding.span, sources),
        "code": finding.code,
        "severity": severity_word(finding),
        "title": finding.title,
        "message": finding.message,
        "target": finding.target,
        "tier": finding.tier.value,
        "inputs": finding.inputs,
        "count": finding.count,
        "related": [{**_place(item.span, sources), "message": item.message} for item in finding.related],
        "also_at": [
            {**_place(finding.span, sources), "cost": list(finding.cost)} for finding in finding.also_at
        ],
        "cost": list(finding.cost),
        "hints": list(finding.hints),
        "remedies": [remedy.as_data() for remedy in finding.remedies],
        "gb_ids": list(finding.gb_ids),
        "link": finding.link,
        "torch": finding.torch,
    }


def _place(span: Span, sources: SourceFiles) -> dict[str, Any]:
    file, cell = cell_of(span.path)
    return {"path": file, **({"cell": cell} if cell is not None else {}), **position_as_json(span, sources)}


def _target(report: Report, unchanged_since: datetime | None) -> dict[str, Any]:
    numbers = counts(report)
    graphs = {  # the first of each, as a graph counts once however often it is compiled
        item.frame: item.graph
        for item in reversed(report.compiles)
        if item.outcome is CompileOutcome.COMPILED and item.graph
    }
    return {
        **file_and_line(report.target.path, report.target.line),
        "name": report.target.name or "__main__",
        "kind": report.target.kind,
        "tier": report.tier.value,
        "rung": report.inputs.rung.value if report.inputs else None,
        "calls": [call.text for call in report.inputs.calls] if report.inputs else [],
        "graphs": numbers.graphs,
        "breaks": numbers.breaks,
        "operators": sum(graph.operators for graph in graphs.values()),
        "recompilations": numbers.recompilations,
        "python": report.versions.python,
        "torch": report.versions.torch,
        "seconds": report.phases,
        "unchanged_since": None if unchanged_since is None else unchanged_since.isoformat(timespec="seconds"),
    }
