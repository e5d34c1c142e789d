"""What an earlier check of the same files has kept for `fuselight fix`, and what it learns from the fixes.

Invariant: trials are those of the very run that would be made again. The verdicts are kept beside that capture.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fuselight_server.base.remedies import RemedyState
from fuselight_server.commands.known_fixes import keep_verified, target_of
from fuselight_server.commands.targets import kept_captures
from fuselight_server.execution.runs.kept_answers import KeptAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.kept_captures import KeptCaptures
    from fuselight_server.commands.options import CommandOptions


class EarlierCheck:
    """The captures that a check has kept of the targets of one command."""

    def __init__(self, captures: KeptCaptures | None) -> None:
        self._captures = captures
        self._keys: dict[tuple[str, str], str] = {}
        """By file and name of a target, the key of its capture."""

    @classmethod
    def of(cls, options: CommandOptions) -> EarlierCheck:
        """Those of the command's interpreter; none where texts are given that no file has."""
        return cls(None if options.texts else kept_captures(options))

    def with_trials(self, request: RunRequest, report: Report) -> Report:
        """The report of a run, with the trials that a check of the same run has made."""
        known = self._captures.answer(request) if self._captures is not None else None
        if known is None:
            return report
        self._keys[target_of(report)] = known.key
        return dataclasses.replace(report, trials=known.report.trials)

    def keep_verified(self, findings: Iterable[Finding]) -> None:
        """Keep what was verified of the fixes of findings, for the next check."""
        answers = KeptAnswers()
        for finding in findings:
            key = self._keys.get((finding.target_path, finding.target), "")
            fixes = [
                dataclasses.replace(remedy, cure=None)
                for remedy in finding.remedies
                if remedy.is_fix and remedy.state in {RemedyState.VERIFIED, RemedyState.REFUSED}
            ]
            if key and fixes:
                keep_verified(answers, key, finding, fixes)
        answers.save()
