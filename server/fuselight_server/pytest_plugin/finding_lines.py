"""A finding in one line."""

from __future__ import annotations

import os
from pathlib import Path

from fuselight_server.base.finding import Finding


def finding_line(finding: Finding) -> str:
    """`model.py:8: GB0059 title`."""
    return f"{_place(finding)}: {finding.code} {finding.title}"


def summary_of(finding: Finding) -> str:
    """`GB0059 title (model.py:8)`: pytest cuts its summary at the width of the terminal, and the code counts most."""
    return f"{finding.code} {finding.title} ({_place(finding)})"


def _place(finding: Finding) -> str:
    """The place, by the shorter path: tests run in a folder next to the source that they test."""
    path = finding.span.path
    try:
        relative = Path(os.path.relpath(path)).as_posix()
    except ValueError:  # another drive
        relative = path
    return f"{min(relative, path, key=len)}:{finding.span.line}"
