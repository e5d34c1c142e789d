"""A face in one module: it checks a file or reads recorded Reports, and has the findings as data.

Invariant: `commands/` and plain data are all that it imports; tests/unit/commands/test_plain_face.py holds it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from fuselight.shared.codec import decode
from fuselight.shared.report import Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.finding import Finding
from fuselight_server.commands.check import analyze, shared_findings
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome


def check_file(path: Path, python: str | None = None) -> list[dict[str, object]]:
    """Return the findings of a file; a check that cannot go on is one entry with the reason."""
    steps: list[str] = []
    options = CommandOptions((path,), python=python)
    try:
        outcome = asyncio.run(analyze(options, steps.append, CancelToken()))
    except CommandError as error:
        return [{"code": "", "title": str(error)}]
    unread: list[dict[str, object]] = [
        {"code": "", "title": f"{problem.what}: {problem.why}"} for problem in outcome.problems
    ]
    return unread + [as_data(finding) for finding in outcome.findings]


def read_log(path: Path) -> list[dict[str, object]]:
    """Return the findings of a log that has one Report a line; nothing runs."""
    lines = path.read_text(encoding="utf-8").splitlines()
    outcome = CheckOutcome(reports=[decode(Report, json.loads(line)) for line in lines])
    shared_findings(outcome)
    return [as_data(finding) for finding in outcome.findings]


def as_data(finding: Finding) -> dict[str, object]:
    """Return what this face shows of a finding."""
    return {"code": finding.code, "title": finding.title, "line": finding.span.line, "fixes": finding.fixes}
