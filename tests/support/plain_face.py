"""A face in one module: it checks a file, and has the findings as data.

Invariant: `commands/` and plain data are all that it imports; tests/unit/commands/test_plain_face.py holds it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.check import analyze
from fuselight_server.commands.options import CommandOptions


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
    return unread + [
        {"code": finding.code, "title": finding.title, "line": finding.span.line, "fixes": finding.fixes}
        for finding in outcome.findings
    ]
