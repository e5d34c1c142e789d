"""Whose failures of a compile are, and what to do: of runs here, and of the logs of jobs.

`failure_verdicts.json` has the verdicts, by the name of what was raised.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight.shared.report import Culprit


@dataclass(frozen=True)
class FailureVerdict:
    """Whose failure it is, and what to do."""

    culprit: Culprit
    kind: str
    next_step: str


VERDICTS = read_table(dict[str, FailureVerdict], __file__)
