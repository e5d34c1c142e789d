"""A finding in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.commands.sources import shown_path

if TYPE_CHECKING:
    from fuselight_server.base.finding import Finding


def finding_line(finding: Finding) -> str:
    """`model.py:8: GB0059 title`."""
    return f"{shown_path(finding.span.path)}:{finding.span.line}: {finding.code} {finding.title}"
