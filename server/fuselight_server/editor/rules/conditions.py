"""What decides whether code breaks, apart from the code: torch's version, its settings and the compile call.

Invariant: only versions whose breaks were compared with the rules are known (tests/worker/editor/test_predictions.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fuselight.shared.report import Report

Version = tuple[int, int]

_VERSION = re.compile(r"(\d+)\.(\d+)")
_FIRST, _LAST = (2, 11), (2, 15)
"""The versions of torch that the rules were compared with."""


@dataclass(frozen=True)
class Conditions:
    """Of one run."""

    version: Version
    fullgraph: bool
    settings: Mapping[str, str]
    """Settings of torch._dynamo that differ from torch's defaults: name to repr."""

    @classmethod
    def of(cls, report: Report) -> Conditions | None:
        """The conditions of a report; None where they are not known well enough."""
        match = _VERSION.match(report.versions.torch or "")
        version = (int(match[1]), int(match[2])) if match else (0, 0)
        if report.fullgraph is None or not _FIRST <= version <= _LAST:
            return None
        return cls(version, report.fullgraph, report.environment.config)

    def captures(self, setting: str) -> bool:
        """Whether a setting that captures more is on, or was changed in any way."""
        return self.fullgraph or setting in self.settings
