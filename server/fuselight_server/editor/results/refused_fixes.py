"""Fixes that are not offered, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import FindingRemedy


@dataclass(frozen=True)
class RefusedFix:
    """A fix of a finding that is not offered."""

    finding: Finding
    entry: FindingRemedy
    """As the list of remedies has it."""
